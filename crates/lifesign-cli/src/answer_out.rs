//! The answer on its way to standard output, and what is said beside it.

use std::io::{self, IsTerminal, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context as _;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use crate::output::harmless;

/// Writes text to standard output, off the path of the call.
///
/// A reader of ours that stops reading must not stop the call's clocks or our Ctrl-C, so text waits
/// here; it is never more than the answer, which `limits.answer` bounds.
#[derive(Debug)]
pub(crate) struct AnswerOut {
    sender: UnboundedSender<Piece>,
    writer: JoinHandle<io::Result<()>>,
    /// Pieces that are not written yet.
    waiting: Arc<AtomicUsize>,
    to_terminal: bool,
    is_shared: bool,
}

#[derive(Debug)]
enum Piece {
    Answer(String),
    Aside(String),
}

impl AnswerOut {
    pub(crate) fn new() -> Self {
        let (sender, receiver) = unbounded_channel();
        let waiting = Arc::default();
        Self {
            sender,
            writer: tokio::spawn(write_all(receiver, Arc::clone(&waiting))),
            waiting,
            to_terminal: io::stdout().is_terminal(),
            is_shared: is_shared(),
        }
    }

    /// Takes `text`; returns whether somebody still reads.
    #[must_use = "where nobody reads any more, the call is for nobody"]
    pub(crate) fn write(&self, text: &str) -> bool {
        self.send(Piece::Answer(if self.to_terminal {
            harmless(text)
        } else {
            text.to_owned()
        }))
    }

    /// Writes `text` to standard error: behind the answer so far where both go to the same place, and
    /// at once where they do not.
    pub(crate) fn aside(&self, text: String) {
        if !self.is_shared {
            // There is nowhere left to report that standard error is closed.
            let _lost = io::stderr().lock().write_all(text.as_bytes());
            return;
        }
        // Who has gone from the one has gone from the other.
        let _read = self.send(Piece::Aside(text));
    }

    /// Whether the answer and what is said beside it go to the same place.
    pub(crate) const fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Whether everything is written.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) == 0
    }

    /// Waits until everything is written. A reader that has gone is no failure of ours.
    pub(crate) async fn finish(self) -> anyhow::Result<()> {
        drop(self.sender);
        match self.writer.await.context("standard output was given up")? {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written.context("standard output cannot be written"),
        }
    }

    fn send(&self, piece: Piece) -> bool {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.sender.send(piece).is_ok()
    }
}

async fn write_all(
    mut pieces: UnboundedReceiver<Piece>,
    waiting: Arc<AtomicUsize>,
) -> io::Result<()> {
    let mut answer = tokio::io::stdout();
    let mut beside = tokio::io::stderr();
    while let Some(piece) = pieces.recv().await {
        match piece {
            Piece::Answer(text) => write(&mut answer, &text).await?,
            Piece::Aside(text) => write(&mut beside, &text).await?,
        }
        waiting.fetch_sub(1, Ordering::Relaxed);
    }
    Ok(())
}

async fn write(to: &mut (impl AsyncWrite + Unpin), text: &str) -> io::Result<()> {
    to.write_all(text.as_bytes()).await?;
    to.flush().await
}

/// Returns whether standard output and standard error are one terminal, file or pipe.
#[cfg(unix)]
fn is_shared() -> bool {
    let place = |status: rustix::fs::Stat| (status.st_dev, status.st_ino);
    match (
        rustix::fs::fstat(io::stdout()),
        rustix::fs::fstat(io::stderr()),
    ) {
        (Ok(answer), Ok(beside)) => place(answer) == place(beside),
        _ => false,
    }
}

/// Returns whether standard output and standard error are one terminal.
#[cfg(not(unix))]
fn is_shared() -> bool {
    io::stdout().is_terminal() && io::stderr().is_terminal()
}
