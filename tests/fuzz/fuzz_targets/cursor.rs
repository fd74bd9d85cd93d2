//! Fuzzes the subject `cursor`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| properties::look("cursor", data));
