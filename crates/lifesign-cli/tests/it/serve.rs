//! `lifesign serve` as a process: what it does to sockets, signals, files, and those who misbehave.

mod admin;
mod callers;
mod drain;
mod house;
mod journal;
mod keys;
mod limits;
mod log;
mod malformed;
mod reload;
mod sockets;
mod top;
mod traces;
mod upstreams;
