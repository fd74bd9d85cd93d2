//! Fuzzes the subject `frame`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| properties::look("frame", data));
