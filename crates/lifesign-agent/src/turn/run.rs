//! The loop of a turn, and what it keeps while it runs.

use std::time::Duration;

use lifesign::clock::CallClock;
use lifesign::{BoundName, Failure, FailureCode, Origin, Phase};
use tokio::sync::mpsc::UnboundedSender;

use super::Beginning;
use super::compacting::Unsummed;
use super::doing::Doing;
use crate::agent::Agent;
use crate::cancel::Cancel;
use crate::event::AgentEvent;
use crate::note;
use crate::nudge::{self, Moment, NudgeRule, Situation};
use crate::outcome::{Books, TurnOutcome, TurnReport};
use crate::policy::Below;
use crate::transcript::{Ended, Entry, NOT_RUN, Ran, Said, TranscriptError, UNKNOWN};

/// A turn while it runs.
pub(super) struct Run<'a> {
    pub(super) agent: &'a mut Agent,
    pub(super) cancel: Cancel,
    pub(super) below: Below,
    pub(super) books: Books,
    pub(super) clock: CallClock,
    /// The turn, counted from 1.
    pub(super) turn: u32,
    /// Whether the last call was made again and failed again.
    pub(super) is_repeated: bool,
    /// Whether the turn was sent again for the answer that is waited for.
    pub(super) is_resent: bool,
    /// What it is doing beside calling the model.
    pub(super) doing: Doing,
    /// The last summary that could not be made.
    pub(super) unsummed: Option<Unsummed>,
    /// Rounds of tools since the host's reminder.
    rounds_since_pin: u32,
    events: UnboundedSender<AgentEvent>,
}

/// How an exchange came to its end by itself.
enum Exchanged {
    /// The model said this and asked for nothing more.
    Answered(Box<Said>),
    /// The model called tools in more answers than a turn may have.
    NoMoreRounds,
}

/// Why a turn goes no further.
pub(super) enum Stop {
    /// A call failed, by a limit of its own too, or somebody stopped the turn.
    Failed(Box<Failure>),
    /// The wall clock of the turn itself ran out.
    OutOfTime(Box<Failure>),
    /// It cannot be written down.
    Unwritten(TranscriptError),
}

impl From<TranscriptError> for Stop {
    fn from(error: TranscriptError) -> Self {
        Self::Unwritten(error)
    }
}

impl<'a> Run<'a> {
    pub(super) fn new(
        agent: &'a mut Agent,
        events: UnboundedSender<AgentEvent>,
        cancel: Cancel,
    ) -> Self {
        Self {
            below: Below::new(agent.policy.clone()),
            turn: agent.transcript.standing().turns,
            agent,
            cancel,
            books: Books::default(),
            clock: CallClock::start(),
            is_repeated: false,
            is_resent: false,
            doing: Doing::default(),
            unsummed: None,
            rounds_since_pin: 0,
            events,
        }
    }

    /// Plays the turn to its end.
    pub(super) async fn play(
        mut self,
        beginning: Beginning,
    ) -> Result<TurnReport, TranscriptError> {
        // The turn begins when it is first polled.
        self.clock = CallClock::start();
        self.books.counts.turns = 1;
        match self.exchange(beginning).await {
            Ok(Exchanged::Answered(said)) => self.end_answered(&said).await,
            Ok(Exchanged::NoMoreRounds) => self.end_without_rounds().await,
            Err(Stop::Failed(failure)) => self.end_failed(*failure).await,
            Err(Stop::OutOfTime(failure)) => self.end_out_of_time(*failure).await,
            Err(Stop::Unwritten(error)) => Err(error),
        }
    }

    /// Has the exchange, until the model has come to its end or may go no further.
    async fn exchange(&mut self, beginning: Beginning) -> Result<Exchanged, Stop> {
        let mut said = match beginning {
            Beginning::Say(text) => {
                self.begin(text).await?;
                None
            }
            Beginning::Resume => self.resume().await?,
        };
        loop {
            let answer = if let Some(said) = said.take() {
                said
            } else {
                self.compact_if_near_limit().await?;
                self.round().await?
            };
            if answer.tool_calls.is_empty() {
                if !self.nudge(&answer).await? {
                    return Ok(Exchanged::Answered(Box::new(answer)));
                }
                continue;
            }
            let most = self.agent.terms.max_rounds;
            if most > 0 && self.agent.transcript.rounds_with_tools() > most {
                self.refuse_open_calls(most).await?;
                return Ok(Exchanged::NoMoreRounds);
            }
            self.run_open_calls().await?;
            self.remind_of_pinned().await?;
        }
    }

    /// Begins with what a person says.
    async fn begin(&mut self, text: String) -> Result<(), Stop> {
        let standing = self.agent.transcript.standing();
        if standing.is_open {
            self.settle_begun_calls(true).await?;
            self.append(Entry::Ended(Ended {
                turn: standing.turns,
                outcome: TurnOutcome::Cancelled,
                note: Some(note::interrupted()),
                wake_at: None,
            }))
            .await?;
        }
        self.turn = standing.turns + 1;
        let note = self.agent.transcript.standing().note;
        self.append(Entry::User {
            turn: self.turn,
            text,
        })
        .await?;
        self.emit(AgentEvent::Began { turn: self.turn });
        if let Some(note) = note {
            self.emit(AgentEvent::Noted { note });
        }
        Ok(())
    }

    /// Takes up what the transcript holds, and returns the answer that was given already, if any.
    async fn resume(&mut self) -> Result<Option<Said>, Stop> {
        self.append(Entry::Resumed).await?;
        self.emit(AgentEvent::Began { turn: self.turn });
        self.settle_begun_calls(false).await?;
        let standing = self.agent.transcript.standing();
        if !standing.is_answered && standing.open_calls.is_empty() {
            return Ok(None);
        }
        let answers = self.agent.transcript.entries().iter().rev();
        let mut answers = answers.filter_map(|entry| match entry {
            Entry::Answer(said) => Some(said.clone()),
            _ => None,
        });
        Ok(answers.next())
    }

    /// Writes a result for each call that nobody can say anything of; where all are given up, for
    /// those too that had not begun.
    async fn settle_begun_calls(&mut self, gives_up_all: bool) -> Result<(), TranscriptError> {
        for open in self.agent.transcript.standing().open_calls {
            let text = if open.has_begun {
                UNKNOWN
            } else if gives_up_all {
                NOT_RUN
            } else {
                continue;
            };
            self.append(Entry::ToolEnded(Ran {
                id: open.call.id,
                text: text.to_owned(),
                is_error: true,
            }))
            .await?;
        }
        Ok(())
    }

    /// Reminds the model of what its answer left undone, and returns whether there was anything.
    async fn nudge(&mut self, answer: &Said) -> Result<bool, Stop> {
        let text = self.agent.transcript.last_text();
        self.remind(&Situation {
            moment: Moment::Answered,
            text: &text,
            has_thought: answer
                .reasoning
                .as_deref()
                .is_some_and(|text| !text.is_empty()),
            has_tools: self.has_tools(),
            finish_reason: answer.finish_reason.as_deref(),
            pinned: None,
        })
        .await
    }

    async fn remind_of_pinned(&mut self) -> Result<(), Stop> {
        let Some(pinned) = self.agent.terms.pinned.clone() else {
            return Ok(());
        };
        self.rounds_since_pin += 1;
        if self.rounds_since_pin < pinned.every {
            return Ok(());
        }
        self.rounds_since_pin = 0;
        self.remind(&Situation {
            moment: Moment::AfterTools,
            pinned: Some(&pinned.text),
            ..Situation::default()
        })
        .await?;
        Ok(())
    }

    async fn remind(&mut self, now: &Situation<'_>) -> Result<bool, Stop> {
        let given = self.agent.transcript.nudges();
        let most = self.agent.terms.reminders;
        if given >= most {
            return Ok(false);
        }
        let Some((rule, text)) = nudge::find(now) else {
            return Ok(false);
        };
        self.books.counts.nudges += 1;
        self.append(Entry::Nudge {
            rule: NudgeRule::name(rule).to_owned(),
            text,
        })
        .await?;
        self.emit(AgentEvent::Nudged {
            rule,
            nudge: given + 1,
            of: most,
        });
        Ok(true)
    }

    fn has_tools(&self) -> bool {
        let toolbox = self.agent.toolbox.as_ref();
        toolbox.is_some_and(|toolbox| !toolbox.tools().is_empty())
    }

    pub(super) async fn append(&mut self, entry: Entry) -> Result<(), TranscriptError> {
        self.agent.transcript.append(entry).await
    }

    pub(super) fn emit(&self, event: AgentEvent) {
        // Whoever reads the turn holds the other end for as long as it runs.
        self.events.send(event).unwrap_or_default();
    }

    /// Returns what is left of the turn's wall clock, if it has one.
    pub(super) fn remaining(&self) -> Option<Duration> {
        Some(self.limit()?.saturating_sub(self.clock.elapsed()))
    }

    /// Returns how long the turn may take from its beginning on.
    fn limit(&self) -> Option<Duration> {
        let terms = &self.agent.terms;
        let limit = terms.wall_clock?;
        Some(limit.saturating_sub(terms.wall_clock_spent))
    }

    /// Waits, and ends the turn where somebody stops it or its wall clock runs out meanwhile.
    pub(super) async fn wait(&mut self, wait: Duration) -> Result<(), Stop> {
        let began = self.clock.elapsed();
        let until = self.clock.instant(began.saturating_add(wait));
        self.doing = Doing::Waiting;
        let stopped = tokio::select! {
            biased;
            stop = self.stopped() => Some(stop),
            () = tokio::time::sleep_until(until) => None,
        };
        self.books
            .add_wait(self.clock.elapsed().saturating_sub(began));
        if let Some(stop) = stopped {
            return Err(stop);
        }
        self.doing = Doing::Between;
        Ok(())
    }

    /// Waits until somebody stops the turn or its wall clock runs out.
    pub(super) async fn stopped(&self) -> Stop {
        let wall = async {
            match self.limit() {
                Some(limit) => tokio::time::sleep_until(self.clock.instant(limit)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => on_purpose(),
            () = wall => self.out_of_time(),
        }
    }

    /// Returns why nothing more may begin in the turn, where somebody has stopped it or its wall clock
    /// has run out.
    pub(super) fn stop(&self) -> Option<Stop> {
        if self.cancel.is_cancelled() {
            return Some(on_purpose());
        }
        let is_out_of_time = self.remaining().is_some_and(|left| left.is_zero());
        is_out_of_time.then(|| self.out_of_time())
    }

    /// Returns the end of a turn whose wall clock ran out between calls.
    fn out_of_time(&self) -> Stop {
        let mut failure = Failure::new(FailureCode::WallClock, Phase::Queued);
        failure.bound = Some(BoundName::WallClock);
        failure.origin = Some(Origin::Call);
        self.blame_turn(&mut failure, &self.doing.during());
        Stop::OutOfTime(Box::new(failure))
    }

    /// Says of a wall clock that ran out that it was the turn's, and what the turn was doing: the
    /// person allowed all of that, not what was left of it for the call.
    pub(super) fn blame_turn(&self, failure: &mut Failure, during: &str) {
        let terms = &self.agent.terms;
        failure.limit = terms.wall_clock;
        failure.named_setting = Some(terms.names.wall_clock.to_owned());
        failure.detail = Some(format!("the time for the turn ran out {during}"));
    }
}

fn on_purpose() -> Stop {
    Stop::Failed(Box::new(Failure::new(
        FailureCode::Cancelled,
        Phase::Queued,
    )))
}
