//! Fuzzes the subject `lines`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| properties::look("lines", data));
