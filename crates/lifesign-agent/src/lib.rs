//! Agent turns over the lifesign client: model calls and tool calls until the model has answered.
//!
//! What happens to the provider never reaches the transcript or the score as something it was not.
#![forbid(unsafe_code)]

pub mod tools;
