//! Recorded streams of real providers, read in place.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// A recorded stream and what its row of the manifest expects.
#[derive(Debug)]
pub(crate) struct Recorded {
    /// Its path in the corpus, such as `openai-chat/groq-text.sse`.
    pub(crate) file: String,
    /// Its bytes.
    pub(crate) bytes: Vec<u8>,
    row: HashMap<String, String>,
}

impl Recorded {
    /// Returns a column of the row, with its escapes taken out.
    pub(crate) fn column(&self, name: &str) -> &str {
        &self.row[name]
    }

    /// Returns a column that counts something.
    pub(crate) fn count(&self, name: &str) -> usize {
        self.column(name).parse().unwrap()
    }
}

/// Returns the recorded streams whose path begins with `prefix` and ends with `suffix`; none where
/// the corpus is absent.
pub(crate) fn recorded(prefix: &str, suffix: &str) -> Vec<Recorded> {
    let root = root();
    let Ok(manifest) = std::fs::read_to_string(root.join("MANIFEST.tsv")) else {
        println!("skipped: no corpus at {}", root.display());
        return Vec::new();
    };
    let mut rows = manifest.lines().map(|row| row.split('\t'));
    let names: Vec<_> = rows.next().unwrap().collect();
    rows.map(|row| {
        names
            .iter()
            .copied()
            .map(str::to_owned)
            .zip(row.map(unescape))
            .collect()
    })
    .map(|row: HashMap<_, _>| (row["file"].clone(), row))
    .filter(|(file, _)| file.starts_with(prefix) && file.ends_with(suffix))
    .map(|(file, row)| {
        let bytes = std::fs::read(root.join(&file)).unwrap();
        Recorded { file, bytes, row }
    })
    .collect()
}

fn root() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::env::var_os("LIFESIGN_CORPUS")
        .map_or_else(|| workspace.join("../shared/corpus"), PathBuf::from)
}

fn unescape(field: &str) -> String {
    let mut text = String::new();
    let mut chars = field.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' => match chars.next() {
                Some('n') => text.push('\n'),
                Some('r') => text.push('\r'),
                Some('t') => text.push('\t'),
                other => text.extend(other),
            },
            char => text.push(char),
        }
    }
    text
}
