//! Behaviour of the client library seen from outside.

// The attribute tells the lints that helpers are tests too.
#[cfg(test)]
mod calls;
#[cfg(test)]
mod cases;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod records;
#[cfg(test)]
mod tap;
#[cfg(test)]
mod transport;
