//! What was said in a conversation, and nothing of what it took to get it said.
//!
//! A [`Transcript`] only grows. Attempts, heartbeats and notices are events and never come here. In
//! a file it is one JSON object a line, on the disk before anything is done that depends on it.

mod entry;
mod file;
mod replay;
mod reply;
mod standing;

use std::path::Path;
use std::sync::Arc;

use lifesign::{Message, Wire, clock};
use uuid::Uuid;

pub use self::entry::{Begin, CutPoint, Ended, Entry, Partial, Ran, Said};
use self::file::TranscriptFile;
pub use self::file::{Repair, TranscriptError};
pub(crate) use self::replay::{NOT_RUN, UNKNOWN, UNREADABLE_CALL};
pub use self::standing::{OpenCall, Standing};

/// A conversation, in memory or in a file.
///
/// # Example
///
/// This example shows a conversation that outlives its program.
///
/// ```
/// use lifesign_agent::Transcript;
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("talk.jsonl");
/// let transcript = Transcript::create(&path)?;
/// # drop(transcript);
/// let (transcript, repair) = Transcript::open(&path)?;
/// assert!(repair.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Transcript {
    entries: Vec<Entry>,
    file: Option<Arc<TranscriptFile>>,
}

impl Transcript {
    /// Returns an empty conversation that is kept in memory alone.
    pub fn in_memory() -> Self {
        Self {
            entries: vec![Entry::Begin(Begin {
                v: VERSION,
                id: Uuid::now_v7().to_string(),
                at: clock::timestamp(),
            })],
            file: None,
        }
    }

    /// Puts a file in the place of this one's that takes nothing.
    #[cfg(test)]
    pub(crate) fn break_file(&mut self, path: &Path) {
        self.file = Some(Arc::new(TranscriptFile::read_only(path)));
    }

    /// Starts a conversation in a new file.
    ///
    /// # Errors
    ///
    /// Fails where the file exists already or cannot be written.
    pub fn create(path: impl AsRef<Path>) -> Result<Self, TranscriptError> {
        Self::begin(TranscriptFile::create(path.as_ref())?)
    }

    fn begin(file: TranscriptFile) -> Result<Self, TranscriptError> {
        let empty = Self::in_memory();
        for entry in &empty.entries {
            file.write(entry)?;
        }
        file.sync()?;
        Ok(Self {
            file: Some(Arc::new(file)),
            ..empty
        })
    }

    /// Opens the conversation in a file, to go on with it.
    ///
    /// A last line that was torn when its program died is taken off, which the [`Repair`] tells. In a
    /// file without a whole first line, such as an empty one, the conversation begins.
    ///
    /// # Errors
    ///
    /// Fails where the file cannot be read or written, is in use by another program, is of a newer
    /// version, or holds a line before the last that is none of a transcript.
    pub fn open(path: impl AsRef<Path>) -> Result<(Self, Option<Repair>), TranscriptError> {
        let (file, entries, repair) = TranscriptFile::open(path.as_ref())?;
        let transcript = if entries.is_empty() {
            Self::begin(file)?
        } else {
            Self {
                entries,
                file: Some(Arc::new(file)),
            }
        };
        Ok((transcript, repair))
    }

    /// Returns everything that was said, oldest first.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns where the conversation stands.
    pub fn standing(&self) -> Standing {
        Standing::of(&self.entries)
    }

    /// Returns the conversation's id.
    pub fn id(&self) -> &str {
        match self.entries.first() {
            Some(Entry::Begin(begin)) => &begin.id,
            _ => "",
        }
    }

    /// Returns what the model has replied in the last turn, as far as it came.
    pub fn reply(&self) -> String {
        reply::reply(&self.entries)
    }

    /// Returns the text of the last thing that the model said.
    pub(crate) fn last_text(&self) -> String {
        reply::last_text(&self.entries)
    }

    /// Returns how often the model was reminded in the last turn.
    pub(crate) fn nudges(&self) -> u32 {
        self.count_in_last_turn(|entry| matches!(entry, Entry::Nudge { .. }))
    }

    /// Returns in how many answers of the last turn the model has called tools.
    pub(crate) fn rounds_with_tools(&self) -> u32 {
        let calls =
            |entry: &Entry| matches!(entry, Entry::Answer(said) if !said.tool_calls.is_empty());
        self.count_in_last_turn(calls)
    }

    fn count_in_last_turn(&self, is_counted: impl Fn(&Entry) -> bool) -> u32 {
        let turn = self.entries.iter().rev();
        let turn = turn.take_while(|entry| !matches!(entry, Entry::User { .. }));
        let counted = turn.filter(|entry| is_counted(entry)).count();
        u32::try_from(counted).unwrap_or(u32::MAX)
    }

    /// Returns the last thing that the model said, where it broke off and nothing has followed.
    pub(crate) fn broken_off(&self) -> Option<&Partial> {
        if !self.standing().is_broken_off {
            return None;
        }
        self.entries.iter().rev().find_map(|entry| match entry {
            Entry::Partial(partial) => Some(partial),
            _ => None,
        })
    }

    /// Returns the text of a message that broke off, from its beginning.
    pub(crate) fn broken_text(&self) -> String {
        match self.broken_off() {
            Some(_) => self.last_text(),
            None => String::new(),
        }
    }

    /// Returns the conversation in the words of `wire`.
    ///
    /// Every tool call in it has exactly one result behind it, and every result its call.
    pub fn messages(&self, wire: Wire) -> Vec<Message> {
        replay::messages(&self.entries, self.entries.len(), wire, None)
    }

    /// Returns the conversation up to but without entry `to`, and `text` said behind it; what was left
    /// out of it later stays so.
    pub(crate) fn messages_before(&self, to: usize, wire: Wire, text: &str) -> Vec<Message> {
        replay::messages(&self.entries, to, wire, Some(text))
    }

    /// Adds an entry, and waits until the disk has it.
    ///
    /// # Errors
    ///
    /// Fails where the file cannot be written; what was to be done must then be left undone.
    ///
    /// # Cancel safety
    ///
    /// The entry is added when the future is first polled; dropping it later only gives up the wait
    /// for the disk.
    pub async fn append(&mut self, entry: Entry) -> Result<(), TranscriptError> {
        let Some(file) = &self.file else {
            self.entries.push(entry);
            return Ok(());
        };
        file.write(&entry)?;
        self.entries.push(entry);
        let file = Arc::clone(file);
        // A slow disk must not stop the clocks of other calls on this thread.
        match tokio::task::spawn_blocking(move || file.sync()).await {
            Ok(synced) => synced,
            Err(join) => Err(TranscriptError::Interrupted {
                why: join.to_string(),
            }),
        }
    }
}

/// The version of the entries' shape.
const VERSION: u32 = 1;
