//! Fuzzes the subject `uris`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| properties::look("uris", data));
