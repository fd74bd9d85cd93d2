//! Fuzzes the subject `sealed`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| properties::look("sealed", data));
