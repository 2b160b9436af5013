//! Bytes to frames to events of the model providers' streaming dialects.
#![forbid(unsafe_code)]

pub use self::answer::{Answer, RoundTrip};
pub use self::beat::{Beat, BeatState, Forwarded};
pub use self::classify::Classifier;
pub use self::dialect::Oddities;
pub use self::error_body::ProviderError;
pub use self::error_out::ErrorOut;
pub use self::event::{Event, ToolPiece};
pub use self::frame::{FrameLimits, Part, SseEvent, SseFrame, SseFramer, TooLarge};
pub use self::habits::StreamHabits;
pub use self::reader::{
    Expect, Incomplete, ReadError, ReadLimits, Reader, RelayReader, SignReader, Sink, State,
};
pub use self::repetition::{Kind, Repetition};
pub use self::request::{
    Content, EncodeError, Message, RawRequest, RawRequestError, Request, Role, Tool, ToolChoice,
};
pub use self::sniff::{Body, Sniffed, Sniffer};
pub use self::tool_calls::ToolCall;
pub use self::wire::{UnknownWire, Wire};

mod answer;
mod anthropic;
mod beat;
mod classify;
mod delta_run;
mod dialect;
mod error_body;
mod error_out;
mod event;
mod foreign;
mod frame;
#[cfg(any(test, feature = "__fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod habits;
mod judge;
mod lenient;
mod mend;
mod openai_chat;
mod openai_responses;
mod raw_object;
mod reader;
pub mod recording;
mod repetition;
mod request;
mod sample;
mod sniff;
mod tool_calls;
mod walk;
mod whole;
mod wire;
mod work;
