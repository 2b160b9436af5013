//! Bytes to frames to events of the model providers' streaming dialects.
#![forbid(unsafe_code)]
