//! Fuzzes the subject `shape`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| properties::look("shape", data));
