//! The stand-in from outside, over raw sockets.

// The attribute tells the lints that helpers are tests too.
#[cfg(test)]
mod client;
#[cfg(test)]
mod frames;
#[cfg(test)]
mod http2;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod script;
#[cfg(test)]
mod transport;
