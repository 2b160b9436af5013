//! Turns as a host sees them, against the stand-in, and transcripts as wires take them.

// The attribute tells the lints that helpers are tests too.
#[cfg(test)]
mod compaction;
#[cfg(test)]
mod cuts;
#[cfg(test)]
mod docs;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod harness_view;
#[cfg(test)]
mod llama;
#[cfg(test)]
#[cfg(feature = "mcp")]
mod mcp;
#[cfg(test)]
mod official;
#[cfg(test)]
mod recoveries;
#[cfg(test)]
mod replay;
#[cfg(test)]
mod resume;
#[cfg(test)]
mod rows;
#[cfg(test)]
mod stopping;
#[cfg(test)]
mod turns;
#[cfg(test)]
mod wire_rules;
