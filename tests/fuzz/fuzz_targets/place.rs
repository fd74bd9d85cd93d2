//! Fuzzes the subject `place`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| properties::look("place", data));
