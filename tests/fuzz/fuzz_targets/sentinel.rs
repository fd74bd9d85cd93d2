//! Fuzzes the subject `sentinel`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| properties::look("sentinel", data));
