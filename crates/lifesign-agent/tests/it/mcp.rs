//! Real MCP servers behind the agent's tools: one made with the official SDK for Python, and a public
//! one from npm.
//!
//! `cargo xtask test` sets them up, and so does `eval "$(cargo xtask sdks)"`. Without them these tests
//! are skipped, or fail where `LIFESIGN_REQUIRE_SDKS` is set.

pub(crate) mod asker;
mod files;
mod python;
mod sampling;
mod servers;
mod turn;
