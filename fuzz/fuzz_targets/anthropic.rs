//! Messages, however they are cut.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| lifesign_wire::fuzz::anthropic(input));
