//! Fuzzes the subject `listing`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| properties::look("listing", data));
