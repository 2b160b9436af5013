//! What a person is told of a call: the answer on standard output, everything else on standard error.

use std::io::{self, IsTerminal, Write};

use lifesign::{Answered, CallEvent, Failed, Snapshot};
use lifesign_core::duration::human_measured;

use super::Ended;
use crate::answer_out::AnswerOut;
use crate::output::{harmless, note};
use crate::status_line::{Status, StatusLine};
use crate::told;

/// Tells a person what happens.
pub(super) struct Teller {
    out: AnswerOut,
    status: StatusLine,
    /// What stands on the last line of the terminal.
    wrote: Wrote,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wrote {
    Nothing,
    Reasoning,
    Text,
}

impl Teller {
    pub(super) fn new() -> Self {
        Self {
            out: AnswerOut::new(),
            status: StatusLine::new(),
            wrote: Wrote::Nothing,
        }
    }

    /// Whether the status line may be written over now.
    pub(super) fn is_live(&self) -> bool {
        // Text on the same terminal would be torn by a line that is written over itself.
        let is_free = match self.wrote {
            Wrote::Nothing => true,
            Wrote::Reasoning => false,
            Wrote::Text => !io::stdout().is_terminal(),
        };
        is_free && self.status.is_live()
    }

    pub(super) fn show(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        self.status.show(Status::of(snapshot, 1))
    }

    /// Tells what happened; returns whether somebody still reads.
    pub(super) fn tell(&mut self, event: &CallEvent) -> io::Result<bool> {
        match event {
            CallEvent::Text(text) => return self.write(text),
            CallEvent::Reasoning(text) if io::stderr().is_terminal() => self.think(text)?,
            event => {
                if let Some(sentence) = told::sentence(event) {
                    self.say(&sentence)?;
                }
            }
        }
        Ok(true)
    }

    /// Writes what is left of the answer, and returns it while it is still on its way.
    pub(super) fn finish(mut self, ended: &Ended) -> io::Result<AnswerOut> {
        self.status.clear()?;
        match self.wrote {
            Wrote::Nothing => {}
            Wrote::Reasoning => writeln!(io::stderr().lock())?,
            // Whether anybody reads it is found when the rest is waited for.
            Wrote::Text => {
                let _read = self.out.write("\n");
            }
        }
        if let Ok(answered) = ended {
            for call in &answered.answer.tool_calls {
                let _read = self
                    .out
                    .write(&format!("{}({})\n", call.name, call.arguments));
            }
        }
        Ok(self.out)
    }

    fn write(&mut self, text: &str) -> io::Result<bool> {
        self.status.clear()?;
        if self.wrote == Wrote::Reasoning {
            writeln!(io::stderr().lock())?;
        }
        self.wrote = Wrote::Text;
        Ok(self.out.write(text))
    }

    fn think(&mut self, text: &str) -> io::Result<()> {
        self.status.clear()?;
        self.wrote = Wrote::Reasoning;
        let harmless = harmless(text);
        let mut out = io::stderr().lock();
        out.write_all(harmless.as_bytes())?;
        out.flush()
    }

    fn say(&mut self, text: &str) -> io::Result<()> {
        self.status.clear()?;
        self.end_line()?;
        note(text);
        Ok(())
    }

    /// Ends the line that stands unfinished on the terminal, so that a sentence begins its own.
    fn end_line(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.wrote, Wrote::Nothing) {
            Wrote::Reasoning => writeln!(io::stderr().lock()),
            // Text that goes elsewhere is the answer and nothing but the answer.
            Wrote::Text if io::stdout().is_terminal() => {
                let _read = self.out.write("\n");
                Ok(())
            }
            Wrote::Nothing | Wrote::Text => Ok(()),
        }
    }
}

/// Says how a call ended.
pub(super) fn say_how_it_ended(ended: &Ended) {
    match ended {
        Ok(answered) => note(&summary(answered)),
        Err(failed) => explain(failed),
    }
}

fn explain(failed: &Failed) {
    let failure = &failed.failure;
    let lines = told::explanation(
        failed.outcome().name(),
        &failure.sentence(),
        &failure.message(),
        failure.hint().as_deref(),
    );
    for line in lines {
        note(&line);
    }
    if failed
        .partial
        .as_ref()
        .is_some_and(|partial| !partial.text.is_empty())
    {
        note("  what had arrived of the answer was written, and is not whole");
    }
}

fn summary(answered: &Answered) -> String {
    let answer = &answered.answer;
    let attempts = match answered.attempts.len() {
        1 => String::new(),
        count => format!(" after {count} attempts"),
    };
    let finish = answer
        .finish_reason
        .as_deref()
        .unwrap_or("no finish reason");
    let tokens = match answer
        .usage
        .and_then(|usage| usage.input_tokens.zip(usage.output_tokens))
    {
        Some((input, output)) => format!("{input} tokens in, {output} out"),
        None => "usage unknown".to_owned(),
    };
    format!(
        "completed{attempts} in {} ({finish}; {tokens})",
        human_measured(answered.elapsed)
    )
}
