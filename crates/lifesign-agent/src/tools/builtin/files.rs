//! Files of one directory, by paths that stay in it.

use std::fmt::Write as _;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;

use cap_std::fs::{Dir, File, FileType, OpenOptions};

/// Returns the entries of a directory, sorted, one a line.
pub(super) fn list(root: &Dir, path: &str) -> Result<String, String> {
    let directory = root
        .open_dir(path)
        .map_err(|error| cannot("list", path, &error))?;
    let entries = directory
        .entries()
        .map_err(|error| cannot("list", path, &error))?;
    let mut lines = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| cannot("list", path, &error))?;
        let name = entry.file_name();
        let shown = name.to_string_lossy();
        // An entry may be gone by now; then there is nothing more to say of it.
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        lines.push(describe(&directory, Path::new(&name), &shown, kind));
    }
    lines.sort_unstable();
    let all = lines.len();
    lines.truncate(MOST_ENTRIES);
    let mut text = lines.join("\n");
    if all > MOST_ENTRIES {
        write!(text, "\n[{} of {all} entries left out]", all - MOST_ENTRIES).ok();
    }
    if text.is_empty() {
        text.push_str("[nothing is in it]");
    }
    Ok(text)
}

fn describe(directory: &Dir, name: &Path, shown: &str, kind: FileType) -> String {
    if kind.is_dir() {
        return format!("{shown}/");
    }
    if kind.is_symlink() {
        return match directory.read_link_contents(name) {
            Ok(target) => format!("{shown} -> {}", target.display()),
            Err(_) => format!("{shown} -> ?"),
        };
    }
    match directory.symlink_metadata(name) {
        Ok(metadata) if kind.is_file() => format!("{shown} ({} bytes)", metadata.len()),
        _ => format!("{shown} (no file)"),
    }
}

/// Returns the text of a file from the line `from` on, which counts from 1.
pub(super) fn read(
    root: &Dir,
    path: &str,
    from: u64,
    lines: Option<u64>,
) -> Result<String, String> {
    let failed = |error: io::Error| cannot("read", path, &error);
    let mut options = OpenOptions::new();
    let file = open(root, path, options.read(true)).map_err(failed)?;
    let mut reader = BufReader::new(file);
    for _ in 1..from {
        if reader.skip_until(b'\n').map_err(failed)? == 0 {
            return Err(format!(
                "cannot read {path}: it has fewer than {from} lines"
            ));
        }
    }
    let mut bytes = Vec::new();
    let mut left = reader.by_ref().take(MOST_BYTES);
    match lines {
        None => {
            left.read_to_end(&mut bytes).map_err(failed)?;
        }
        Some(lines) => {
            for _ in 0..lines {
                if left.read_until(b'\n', &mut bytes).map_err(failed)? == 0 {
                    break;
                }
            }
        }
    }
    let is_cut = left.limit() == 0 && !reader.fill_buf().map_err(failed)?.is_empty();
    let mut text = text_of(bytes, is_cut)
        .ok_or_else(|| format!("cannot read {path}: it is no text in UTF-8"))?;
    if is_cut {
        let next = from + text.matches('\n').count() as u64;
        write!(text, "\n[the file goes on: read from line {next}]").ok();
    }
    Ok(text)
}

/// Returns `bytes` as text; what was cut may end within a character.
fn text_of(bytes: Vec<u8>, is_cut: bool) -> Option<String> {
    if bytes.contains(&0) {
        return None;
    }
    match String::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(error) if is_cut && error.utf8_error().error_len().is_none() => {
            let whole = error.utf8_error().valid_up_to();
            let mut bytes = error.into_bytes();
            bytes.truncate(whole);
            String::from_utf8(bytes).ok()
        }
        Err(_) => None,
    }
}

/// Makes `content` all that a file holds.
pub(super) fn write(root: &Dir, path: &str, content: &str) -> Result<String, String> {
    let failed = |error: io::Error| cannot("write", path, &error);
    if let Some(parent) = Path::new(path)
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
    {
        root.create_dir_all(parent).map_err(failed)?;
    }
    let mut options = OpenOptions::new();
    let mut file = open(root, path, options.write(true).create(true)).map_err(failed)?;
    file.set_len(0).map_err(failed)?;
    file.write_all(content.as_bytes()).map_err(failed)?;
    Ok(format!("wrote {} bytes to {path}", content.len()))
}

/// Opens a file and nothing else: a pipe or a device would be waited for without an end.
fn open(root: &Dir, path: &str, options: &mut OpenOptions) -> io::Result<File> {
    #[cfg(unix)]
    {
        use cap_std::fs::OpenOptionsExt as _;
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    }
    let file = root.open_with(path, options)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::other("it is no file"))
}

fn cannot(what: &str, path: &str, error: &io::Error) -> String {
    format!("cannot {what} {path}: {error}")
}

/// The most entries of a directory that are listed.
const MOST_ENTRIES: usize = 1_000;

/// The most bytes of a file that are read at once.
const MOST_BYTES: u64 = 1024 * 1024;
