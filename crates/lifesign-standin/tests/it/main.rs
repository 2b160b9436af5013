//! The stand-in from outside, over raw sockets.

mod client;
mod frames;
mod script;
mod transport;
