//! Real MCP servers behind the agent's tools: one made with the official SDK for Python, and a public
//! one from npm.
//!
//! `cargo xtask test` sets them up, and so does `eval "$(cargo xtask sdks)"`. Without them these tests
//! are skipped, or fail where `LIFESIGN_REQUIRE_SDKS` is set.

// What the tests share may panic as they do.
#[cfg(test)]
mod files;
#[cfg(test)]
mod python;
#[cfg(test)]
mod sampling;
#[cfg(test)]
mod servers;
#[cfg(test)]
mod turn;
