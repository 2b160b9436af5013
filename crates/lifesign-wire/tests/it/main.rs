//! Behaviour of the wires from outside.

#[cfg(test)]
mod anthropic;
#[cfg(test)]
mod chat;
#[cfg(test)]
mod corpus;
#[cfg(test)]
mod downstream;
#[cfg(test)]
mod error_body;
#[cfg(test)]
mod foreign;
#[cfg(test)]
mod framing;
#[cfg(test)]
mod responses;
#[cfg(test)]
mod sign_reader;
#[cfg(test)]
mod whole;
#[cfg(test)]
mod wires;
