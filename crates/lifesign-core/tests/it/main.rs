//! The rules of the core, seen from outside.
#![cfg(test)]

mod failure;
mod hint;
mod retry;
mod watch_bounds;
mod watch_cases;
mod watch_clocks;
mod watch_findings;
mod watch_lateness;
mod watch_learned;
mod watch_model;
mod watch_notices;
mod watch_pauses;
mod watch_rows;
mod watch_sim;
mod watch_tally;
