//! Fuzzes the subject `batch`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| properties::look("batch", data));
