//! Behaviour of the wires from outside.

#[cfg(test)]
mod corpus;
#[cfg(test)]
mod error_body;
#[cfg(test)]
mod framing;
#[cfg(test)]
mod wires;
