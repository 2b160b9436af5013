//! Behaviour of the client library seen from outside.

mod transport;
