//! Where things are.

use std::path::{Path, PathBuf};

/// Returns the directory of the workspace.
pub(crate) fn root() -> &'static Path {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest)
}

/// Returns the directory that cargo builds into.
pub(crate) fn target() -> PathBuf {
    // A relative path counts from where cargo was called, which is the root for everything here.
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("target"), |path| root().join(path))
}

/// Returns the names of the Rust files in `directory`, without their extension and in order.
///
/// A directory that does not exist has none.
pub(crate) fn rust_files(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort_unstable();
    names
}
