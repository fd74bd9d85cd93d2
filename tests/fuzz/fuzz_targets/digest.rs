//! Fuzzes the subject `digest`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| properties::look("digest", data));
