//! Fuzzes the subject `ids`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| properties::look("ids", data));
