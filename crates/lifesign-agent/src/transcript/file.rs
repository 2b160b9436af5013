//! A transcript on the disk: one JSON object a line, whole or not at all.
//!
//! A line is written in one go and synced before anybody relies on it, so a program that dies leaves
//! whole lines and at most one torn one at the end. That one was relied on by nobody.

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::VERSION;
use super::entry::{Begin, Entry};

/// An open file, locked against other programs.
pub(super) struct TranscriptFile {
    path: PathBuf,
    open: Mutex<Open>,
}

struct Open {
    file: File,
    /// Where the next line begins.
    len: u64,
    /// Whether a line could not be written whole and not be taken back either.
    is_broken: bool,
}

/// What was taken off the end of a file whose program had died while it wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repair {
    /// How many bytes of a torn line.
    pub bytes: u64,
}

/// A transcript that cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TranscriptError {
    /// The file cannot be opened, read or written.
    #[error("transcript {path} cannot be {verb}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        verb: &'static str,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Another program has the file open.
    #[error("transcript {path} is in use by another program")]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// A line before the last is none of a transcript.
    #[error("transcript {path} has no entry in line {line}: {why}")]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// The file does not begin as a transcript does.
    #[error("{path} is no transcript: its first line does not begin one")]
    NoTranscript {
        /// The file.
        path: PathBuf,
    },
    /// The file is of a newer version.
    #[error("transcript {path} is of version {version}, this program knows {VERSION}")]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// The wait for the disk did not come to its end.
    #[error("the wait for the transcript's disk was interrupted: {why}")]
    Interrupted {
        /// What happened.
        why: String,
    },
}

impl TranscriptFile {
    pub(super) fn create(path: &Path) -> Result<Self, TranscriptError> {
        let mut options = OpenOptions::new();
        options.read(true).append(true).create_new(true);
        // What people say to a model is nobody else's business.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options
            .open(path)
            .map_err(|source| io_error(path, "created", source))?;
        lock(&file, path)?;
        sync_name(path).map_err(|source| io_error(path, "created", source))?;
        Ok(Self::of(path, file, 0))
    }

    pub(super) fn open(path: &Path) -> Result<(Self, Vec<Entry>, Option<Repair>), TranscriptError> {
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .open(path)
            .map_err(|source| io_error(path, "opened", source))?;
        lock(&file, path)?;
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(0))
            .and_then(|_| file.read_to_end(&mut bytes))
            .map_err(|source| io_error(path, "read", source))?;

        let (entries, len) = parse(&bytes, path)?;
        let torn = bytes.len() - len;
        if torn > 0 {
            file.set_len(len as u64)
                .and_then(|()| file.sync_data())
                .map_err(|source| io_error(path, "repaired", source))?;
        }
        let repair = (torn > 0).then_some(Repair { bytes: torn as u64 });
        Ok((Self::of(path, file, len as u64), entries, repair))
    }

    /// Writes a line, whole or not at all.
    pub(super) fn write(&self, entry: &Entry) -> Result<(), TranscriptError> {
        let failed = |source| io_error(&self.path, "written", source);
        let mut line = serde_json::to_vec(entry).map_err(|error| failed(error.into()))?;
        line.push(b'\n');

        let mut open = self.opened();
        if open.is_broken {
            return Err(failed(io::Error::other("an earlier line is torn")));
        }
        if let Err(error) = open.file.write_all(&line) {
            let whole = open.len;
            open.is_broken = open.file.set_len(whole).is_err();
            return Err(failed(error));
        }
        open.len += line.len() as u64;
        Ok(())
    }

    /// Waits until the disk has what was written.
    pub(super) fn sync(&self) -> Result<(), TranscriptError> {
        let file = self.opened().file.try_clone();
        file.and_then(|file| file.sync_data())
            .map_err(|source| io_error(&self.path, "synced", source))
    }

    /// Returns a file that nothing can be written to.
    #[cfg(test)]
    pub(super) fn read_only(path: &Path) -> Self {
        Self::of(path, File::open(path).unwrap(), 0)
    }

    fn of(path: &Path, file: File, len: u64) -> Self {
        Self {
            path: path.to_owned(),
            open: Mutex::new(Open {
                file,
                len,
                is_broken: false,
            }),
        }
    }

    fn opened(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for TranscriptFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TranscriptFile")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// Returns the entries, and how many bytes hold them whole.
fn parse(bytes: &[u8], path: &Path) -> Result<(Vec<Entry>, usize), TranscriptError> {
    let mut entries = Vec::new();
    let mut len = 0;
    for (at, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let is_last = len + line.len() == bytes.len();
        match serde_json::from_slice(line) {
            Ok(entry) if line.ends_with(b"\n") => entries.push(entry),
            // A line that is whole was relied on, whatever it says.
            Err(error) if at > 0 && (!is_last || error.is_data() && line.ends_with(b"\n")) => {
                return Err(TranscriptError::Line {
                    path: path.to_owned(),
                    line: at + 1,
                    why: error.to_string(),
                });
            }
            // Torn, and so relied on by nobody; or the first, which is looked at below.
            Ok(_) | Err(_) => break,
        }
        len += line.len();
    }
    match entries.first() {
        Some(Entry::Begin(Begin { v: VERSION, .. })) => Ok((entries, len)),
        Some(Entry::Begin(Begin { v, .. })) => Err(TranscriptError::Version {
            path: path.to_owned(),
            version: *v,
        }),
        None if is_torn_beginning(bytes) => Ok((entries, 0)),
        _ => Err(TranscriptError::NoTranscript {
            path: path.to_owned(),
        }),
    }
}

/// Returns whether a program can have died that had written this much of a first line.
fn is_torn_beginning(bytes: &[u8]) -> bool {
    let is_begun = bytes.starts_with(BEGINNING) || BEGINNING.starts_with(bytes);
    is_begun && !bytes.contains(&b'\n')
}

/// Makes the name of a new file as safe as what stands in it.
#[cfg(unix)]
fn sync_name(path: &Path) -> io::Result<()> {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or_else(|| Path::new(".")))?.sync_all()
}

/// Elsewhere a directory is no file that could be synced.
#[cfg(not(unix))]
fn sync_name(_: &Path) -> io::Result<()> {
    Ok(())
}

fn lock(file: &File, path: &Path) -> Result<(), TranscriptError> {
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => TranscriptError::InUse {
            path: path.to_owned(),
        },
        TryLockError::Error(source) => io_error(path, "locked", source),
    })
}

fn io_error(path: &Path, verb: &'static str, source: io::Error) -> TranscriptError {
    TranscriptError::Io {
        path: path.to_owned(),
        verb,
        source,
    }
}

/// How a first line begins, whatever its version.
const BEGINNING: &[u8] = b"{\"type\":\"begin\",";

#[cfg(test)]
mod tests;
