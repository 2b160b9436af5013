//! The answer on its way to standard output.

use std::io::{self, IsTerminal};

use anyhow::Context as _;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use crate::output::harmless;

/// Writes text to standard output, off the path of the call.
///
/// A reader of ours that stops reading must not stop the call's clocks or our Ctrl-C, so text waits
/// here; it is never more than the answer, which `limits.answer` bounds.
#[derive(Debug)]
pub(crate) struct AnswerOut {
    sender: UnboundedSender<String>,
    writer: JoinHandle<io::Result<()>>,
    to_terminal: bool,
}

impl AnswerOut {
    pub(crate) fn new() -> Self {
        let (sender, mut receiver) = unbounded_channel::<String>();
        let writer = tokio::spawn(async move {
            let mut out = tokio::io::stdout();
            while let Some(text) = receiver.recv().await {
                out.write_all(text.as_bytes()).await?;
                out.flush().await?;
            }
            Ok(())
        });
        Self {
            sender,
            writer,
            to_terminal: io::stdout().is_terminal(),
        }
    }

    /// Takes `text`; returns whether somebody still reads.
    #[must_use = "where nobody reads any more, the call is for nobody"]
    pub(crate) fn write(&self, text: &str) -> bool {
        let text = if self.to_terminal {
            harmless(text)
        } else {
            text.to_owned()
        };
        self.sender.send(text).is_ok()
    }

    /// Waits until everything is written. A reader that has gone is no failure of ours.
    pub(crate) async fn finish(self) -> anyhow::Result<()> {
        drop(self.sender);
        match self.writer.await.context("standard output was given up")? {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written.context("standard output cannot be written"),
        }
    }
}
