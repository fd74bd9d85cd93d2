//! Fuzzes the subject `names`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| properties::look("names", data));
