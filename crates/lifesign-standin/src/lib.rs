//! lifesign-standin
