//! Fuzzes the subject `events`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| properties::look("events", data));
