//! Whether a file is still the one that was read.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// A file that is looked at now and then.
#[derive(Debug)]
pub(super) struct Watched {
    path: PathBuf,
    read: Option<FileMark>,
    seen: Option<FileMark>,
}

impl Watched {
    /// Returns a file that was just read.
    pub(super) fn new(path: PathBuf) -> Self {
        let read = FileMark::of(&path);
        Self {
            path,
            read,
            seen: read,
        }
    }

    /// Notes that what it is now is about to be read.
    pub(super) fn mark_read(&mut self) {
        self.read = FileMark::of(&self.path);
        self.seen = self.read;
    }

    /// Looks; returns whether it is another than what was read, and stayed so since the last look.
    /// One that is being written, or is missing until it is replaced, may read as a shorter one.
    pub(super) fn has_changed(&mut self) -> bool {
        let now = FileMark::of(&self.path);
        let has_settled = now == self.seen;
        self.seen = now;
        has_settled && now.is_some() && now != self.read
    }
}

/// What tells two states of a file apart without reading it.
///
/// The inode changes with editors and deployments that put another file in the place, the times
/// with what writes into it. A link is followed, as reading it would.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileMark {
    device: u64,
    inode: u64,
    len_bytes: u64,
    modified: (i64, i64),
}

impl FileMark {
    /// Returns the mark of a file, or `None` if there is none to be read.
    fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        Some(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            len_bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_change_is_one_once_it_has_settled() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        fs::write(&path, "one").unwrap();
        let mut watched = Watched::new(path.clone());
        let mut look = || watched.has_changed();

        assert_eq!([look(), look()], [false, false]);
        fs::write(&path, "two and").unwrap();
        assert!(!look());
        fs::write(&path, "two and more").unwrap();
        assert_eq!([look(), look()], [false, true]);
        fs::remove_file(&path).unwrap();
        assert_eq!([look(), look()], [false, false]);
        fs::write(&path, "three").unwrap();
        assert_eq!([look(), look()], [false, true]);
        watched.mark_read();
        assert_eq!(
            [watched.has_changed(), watched.has_changed()],
            [false, false]
        );
    }

    #[test]
    fn a_file_has_changed_when_its_length_its_time_or_its_place_has() {
        let directory = tempfile::tempdir().unwrap();
        let (path, other) = (directory.path().join("a"), directory.path().join("b"));
        fs::write(&path, "one").unwrap();
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        let set_modified = |time| {
            File::options()
                .write(true)
                .open(&path)
                .unwrap()
                .set_modified(time)
        };
        let first = FileMark::of(&path);

        assert_eq!(FileMark::of(&path), first);
        fs::write(&path, "three").unwrap();
        set_modified(modified).unwrap();
        assert_ne!(FileMark::of(&path), first);
        fs::write(&path, "two").unwrap();
        set_modified(modified).unwrap();
        assert_eq!(FileMark::of(&path), first);
        set_modified(modified + std::time::Duration::from_nanos(1)).unwrap();
        assert_ne!(FileMark::of(&path), first);
        fs::write(&other, "two").unwrap();
        fs::rename(&other, &path).unwrap();
        set_modified(modified).unwrap();
        assert_ne!(FileMark::of(&path), first);
        fs::remove_file(&path).unwrap();
        assert_eq!(FileMark::of(&path), None);
    }
}
