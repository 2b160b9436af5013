//! lifesign

pub mod clock;
pub mod transport;
