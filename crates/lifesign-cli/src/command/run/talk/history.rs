//! The file that holds what was said before, for the arrow keys of the next session.

use std::env;
use std::fs::DirBuilder;
use std::io;
use std::path::{Path, PathBuf};

/// Returns where the history is kept if nobody says otherwise, unless this person has no home.
pub(crate) fn usual_file() -> Option<PathBuf> {
    // The specification of base directories has a relative path ignored.
    let absolute = |name: &str| {
        let path = env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let state = absolute("XDG_STATE_HOME")
        .or_else(|| Some(absolute("HOME")?.join(".local").join("state")))?;
    Some(state.join("lifesign").join("history"))
}

/// Makes the directory of `file`, which nobody else may look into.
pub(super) fn make_room(file: &Path) -> io::Result<()> {
    let Some(directory) = file.parent() else {
        return Ok(());
    };
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

/// The most messages that are kept.
pub(super) const MOST_ENTRIES: usize = 1_000;
