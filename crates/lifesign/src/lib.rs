//! lifesign
