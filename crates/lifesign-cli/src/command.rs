//! The program's commands, one file each.

pub(crate) mod call;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod demo;
mod journal;
mod prompt;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod serve;
pub(crate) mod standin;
mod target;
pub(crate) mod top;
