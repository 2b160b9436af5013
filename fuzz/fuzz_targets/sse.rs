//! Frames of an event stream, however it is cut.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| lifesign_wire::fuzz::sse(input));
