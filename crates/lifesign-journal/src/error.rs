//! Why a journal cannot be opened, read or written.

use std::path::PathBuf;

use rusqlite::ErrorCode;

/// Why a journal cannot be opened, read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// SQLite says so.
    #[error("the journal cannot be used: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// The path leads nowhere.
    #[error("{path}: {problem}", path = path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The file belongs to another program.
    #[error("the file is a database, and no journal")]
    Foreign,
    /// A later version wrote it.
    #[error("the journal has version {found}, and this program knows {known}")]
    TooNew {
        /// The version of the file.
        found: i64,
        /// The version that this program writes.
        known: i64,
    },
    /// An earlier version wrote it, and nobody of this version has written to it yet.
    #[error(
        "the journal has version {found}; whoever writes it with this program's version makes {known} of it"
    )]
    TooOld {
        /// The version of the file.
        found: i64,
        /// The version that this program writes.
        known: i64,
    },
    /// There is no thread for it.
    #[error("no thread can be started to write the journal: {0}")]
    Thread(std::io::Error),
}

impl JournalError {
    pub(super) fn thread(error: std::io::Error) -> Self {
        Self::Thread(error)
    }

    pub(super) fn path(path: impl Into<PathBuf>, problem: impl Into<String>) -> Self {
        Self::Path {
            path: path.into(),
            problem: problem.into(),
        }
    }

    /// Returns whether it may pass by itself, or once somebody has made room.
    pub(super) fn may_pass(&self) -> bool {
        let Self::Sqlite(error) = self else {
            return false;
        };
        matches!(
            error.sqlite_error_code(),
            Some(
                ErrorCode::DiskFull
                    | ErrorCode::SystemIoFailure
                    | ErrorCode::DatabaseBusy
                    | ErrorCode::DatabaseLocked
                    | ErrorCode::CannotOpen
                    | ErrorCode::ReadOnly
                    | ErrorCode::OutOfMemory
                    | ErrorCode::FileLockingProtocolFailed
                    | ErrorCode::PermissionDenied
            )
        )
    }

    /// Returns whether somebody else has the file for the moment.
    pub(super) fn is_busy(&self) -> bool {
        let Self::Sqlite(error) = self else {
            return false;
        };
        matches!(
            error.sqlite_error_code(),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
        )
    }

    /// Returns whether the file itself is at fault, and not what was to be written into it.
    pub(super) fn is_of_file(&self) -> bool {
        let is_broken = |error: &rusqlite::Error| {
            matches!(
                error.sqlite_error_code(),
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
            )
        };
        match self {
            Self::Sqlite(error) => self.may_pass() || is_broken(error),
            Self::Foreign | Self::Path { .. } | Self::TooNew { .. } | Self::TooOld { .. } => true,
            Self::Thread(_) => false,
        }
    }
}
