//! Markdown, as far as these tests read it.

use std::fs;
use std::path::{Path, PathBuf};

/// A document of the project.
pub(crate) struct Document {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

impl Document {
    /// Reads the document at `path`, which counts from the root of the workspace.
    pub(crate) fn read(path: &str) -> Self {
        let path = root().join(path);
        let text =
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { path, text }
    }

    /// Reads every document in the root and below `docs`.
    pub(crate) fn all() -> Vec<Self> {
        let mut found = Vec::new();
        let mut directories = vec![root().join("docs")];
        let mut entries: Vec<PathBuf> = list(root());
        while let Some(directory) = directories.pop() {
            entries.append(&mut list(&directory));
            for path in entries.drain(..) {
                if path.starts_with(root().join("docs")) && path.is_dir() {
                    directories.push(path);
                } else if path.extension().is_some_and(|extension| extension == "md") {
                    let text = fs::read_to_string(&path).unwrap();
                    found.push(Self { path, text });
                }
            }
        }
        found
    }

    /// Returns what stands from the line `heading` on.
    pub(crate) fn from(&self, heading: &str) -> Self {
        let start = self
            .text
            .find(heading)
            .unwrap_or_else(|| panic!("no `{heading}` in {}", self.path.display()));
        Self {
            path: self.path.clone(),
            text: self.text.split_at(start).1.to_owned(),
        }
    }

    /// Returns the rows of the first table whose first heading is `heading`, cell by cell.
    pub(crate) fn table(&self, heading: &str) -> Vec<Vec<String>> {
        let mut lines = self
            .text
            .lines()
            .skip_while(|line| cells(line).first().map(String::as_str) != Some(heading));
        assert!(
            lines.next().is_some(),
            "{} has no table headed `{heading}`",
            self.path.display()
        );
        lines
            .skip(1)
            .take_while(|line| line.starts_with('|'))
            .map(cells)
            .collect()
    }
}

/// Returns the words between back ticks.
pub(crate) fn names(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

fn cells(line: &str) -> Vec<String> {
    let Some(row) = line.strip_prefix('|').and_then(|row| row.strip_suffix('|')) else {
        return Vec::new();
    };
    row.split('|').map(|cell| cell.trim().to_owned()).collect()
}

fn list(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}
