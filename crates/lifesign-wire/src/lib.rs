//! Bytes to frames to events of the model providers' streaming dialects.
#![forbid(unsafe_code)]

pub use self::error_body::ProviderError;
pub use self::frame::{FrameLimits, Part, SseEvent, SseFrame, SseFramer, TooLarge};
pub use self::repetition::{Kind, Repetition};
pub use self::sniff::{Body, Sniffed, Sniffer};

mod error_body;
mod frame;
#[cfg(any(test, feature = "__fuzz"))]
#[doc(hidden)]
pub mod fuzz;
pub mod recording;
mod repetition;
mod sniff;
