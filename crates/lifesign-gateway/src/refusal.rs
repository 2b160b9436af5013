//! A request that goes no further.

use std::borrow::Cow;

use http::StatusCode;

/// A request that goes no further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    /// What went wrong, for programs.
    pub(crate) code: &'static str,
    /// What went wrong, for people.
    pub(crate) message: Cow<'static, str>,
}

impl Refusal {
    pub(crate) const fn new(status: StatusCode, code: &'static str, message: &'static str) -> Self {
        Self {
            status,
            code,
            message: Cow::Borrowed(message),
        }
    }
}
