//! Bytes to frames to events of the model providers' streaming dialects.
#![forbid(unsafe_code)]

pub use self::frame::{FrameLimits, Part, SseEvent, SseFrame, SseFramer, TooLarge};

mod frame;
