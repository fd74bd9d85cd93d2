//! Fuzzes the subject `forward`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| properties::look("forward", data));
