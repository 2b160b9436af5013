//! What is drawn of a snapshot.
