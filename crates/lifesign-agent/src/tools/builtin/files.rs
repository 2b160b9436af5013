//! Files of one directory, by paths that stay in it.

use std::fmt::Write as _;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, File, FileType, OpenOptions, Permissions};
use uuid::Uuid;

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

/// Which part of a file is wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// The line to begin in, counted from 1.
    pub(super) from_line: u64,
    /// Where in that line to begin, in bytes.
    pub(super) from_byte: u64,
    /// How many lines at most.
    pub(super) lines: Option<u64>,
    /// How many bytes at most.
    pub(super) bytes: Option<u64>,
}

/// Returns the text of a part of a file, and where to go on if that is not all of it.
pub(super) fn read(root: &Dir, path: &str, wanted: Extent) -> Result<String, String> {
    let failed = |error: io::Error| cannot("read", path, &error);
    let mut options = OpenOptions::new();
    let file = open(root, path, options.read(true)).map_err(failed)?;
    let mut reader = BufReader::new(file);
    let from = wanted.from_line;
    for _ in 1..from {
        if reader.skip_until(b'\n').map_err(failed)? == 0 {
            return Err(format!(
                "cannot read {path}: it has fewer than {from} lines"
            ));
        }
    }
    if !skip_in_line(&mut reader, wanted.from_byte).map_err(failed)? {
        let bytes = wanted.from_byte;
        return Err(format!(
            "cannot read {path}: line {from} has no more than {bytes} bytes"
        ));
    }
    let most = wanted.bytes.unwrap_or(MOST_BYTES);
    let mut bytes = Vec::new();
    let mut left = reader
        .by_ref()
        .take(most.clamp(LONGEST_CHARACTER, MOST_BYTES));
    match wanted.lines {
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
    let mut skipped = 0;
    if wanted.from_byte > 0 {
        // Whoever asks for any byte may have met the middle of a character.
        let is_within = |byte: &&u8| (0x80..0xc0).contains(*byte);
        skipped = bytes.iter().take(3).take_while(is_within).count();
        bytes.drain(..skipped);
    }
    let mut text = text_of(bytes, is_cut)
        .ok_or_else(|| format!("cannot read {path}: it is no text in UTF-8"))?;
    if is_cut {
        let lines = text.matches('\n').count() as u64;
        if lines > 0 {
            let next = from + lines;
            write!(text, "\n[the file goes on: read from line {next}]").ok();
        } else {
            let next = wanted.from_byte + (skipped + text.len()) as u64;
            let goes_on = format!("read from line {from} and byte {next} of it");
            write!(text, "\n[the line goes on: {goes_on}]").ok();
        }
    }
    Ok(text)
}

/// Skips `bytes` of a line, and returns whether it has more than that.
fn skip_in_line(reader: &mut impl io::BufRead, mut bytes: u64) -> io::Result<bool> {
    while bytes > 0 {
        let ahead = reader.fill_buf()?;
        let most = usize::try_from(bytes).unwrap_or(usize::MAX);
        let ahead = ahead.get(..most.min(ahead.len())).unwrap_or(ahead);
        if ahead.is_empty() || ahead.contains(&b'\n') {
            return Ok(false);
        }
        let passed = ahead.len();
        reader.consume(passed);
        bytes -= passed as u64;
    }
    Ok(true)
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

/// Makes `content` all that a file holds: it is written beside it and put in its place, so that whoever
/// reads the file finds it whole, as it was or as it is.
pub(super) fn write(root: &Dir, path: &str, content: &str) -> Result<String, String> {
    let failed = |error: io::Error| cannot("write", path, &error);
    if let Some(parent) = Path::new(path)
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
    {
        root.create_dir_all(parent).map_err(failed)?;
    }
    let (target, permissions) = target(root, Path::new(path)).map_err(failed)?;
    let beside = target.with_file_name(format!(".lifesign-{}", Uuid::now_v7().simple()));
    let written = fill(root, &beside, content, permissions)
        .and_then(|()| root.rename(&beside, root, &target));
    if let Err(error) = written {
        // It may not have come to be.
        root.remove_file(&beside).ok();
        return Err(failed(error));
    }
    Ok(format!("wrote {} bytes to {path}", content.len()))
}

/// Returns which file `path` leads to, and what may be done with it if it is there already.
fn target(root: &Dir, path: &Path) -> io::Result<(PathBuf, Option<Permissions>)> {
    match root.symlink_metadata(path) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok((path.to_owned(), None));
        }
        Err(error) => return Err(error),
    }
    // What may not be written to is not replaced either.
    let mut options = OpenOptions::new();
    let file = open(root, path, options.write(true))?;
    // A link stays, and what it leads to is written.
    let target = root.canonicalize(path)?;
    Ok((target, Some(file.metadata()?.permissions())))
}

/// Writes a new file to the disk.
fn fill(
    root: &Dir,
    path: &Path,
    content: &str,
    permissions: Option<Permissions>,
) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = root.open_with(path, options.write(true).create_new(true))?;
    if let Some(permissions) = permissions {
        file.set_permissions(permissions)?;
    }
    file.write_all(content.as_bytes())?;
    file.sync_all()
}

/// Opens a file and nothing else: a pipe or a device would be waited for without an end.
fn open(root: &Dir, path: impl AsRef<Path>, options: &mut OpenOptions) -> io::Result<File> {
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

/// A limit that is shorter would never get past a character.
const LONGEST_CHARACTER: u64 = 4;
