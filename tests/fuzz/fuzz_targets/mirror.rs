//! Fuzzes the subject `mirror`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| properties::look("mirror", data));
