//! The documents hold what they promise: links lead somewhere, and tables agree with the code.

// What the tests share may panic as they do.
#[cfg(test)]
mod document;
#[cfg(test)]
mod links;
#[cfg(test)]
mod tables;
