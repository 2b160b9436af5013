//! How a watched stream fails.

use std::error::Error;
use std::{fmt, io};

use lifesign_core::Failure;

/// Why a watched stream has no next chunk.
///
/// It is shown as what it wraps, so that it reads the same with and without the watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchError<E> {
    /// A bound ran out. The stream inside was dropped before this was told.
    Cut(Box<Failure>),
    /// The stream inside failed.
    Inner(E),
}

impl<E> WatchError<E> {
    /// Returns the failure, if a bound ran out.
    pub const fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Cut(failure) => Some(failure),
            Self::Inner(_) => None,
        }
    }
}

impl<E: fmt::Display> fmt::Display for WatchError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut(failure) => failure.fmt(f),
            Self::Inner(error) => error.fmt(f),
        }
    }
}

impl<E: Error> Error for WatchError<E> {
    /// Returns what lies below that which is shown.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Cut(failure) => failure.source(),
            Self::Inner(error) => error.source(),
        }
    }
}

impl<E> From<WatchError<E>> for io::Error
where
    E: Into<Box<dyn Error + Send + Sync>>,
{
    /// Keeps the kind that a cut has as an I/O error, `TimedOut` for silence, and an I/O error as
    /// it was.
    fn from(error: WatchError<E>) -> Self {
        match error {
            WatchError::Cut(failure) => (*failure).into(),
            WatchError::Inner(error) => match error.into().downcast::<Self>() {
                Ok(error) => *error,
                Err(error) => Self::other(error),
            },
        }
    }
}
