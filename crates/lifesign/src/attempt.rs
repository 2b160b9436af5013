//! One HTTP request to one upstream, judged by what crosses the wire.
//!
//! An attempt is polled, never spawned: dropping it closes the socket at once. A byte goes one way
//! through it: from the transport to the watch's raw clock, through content decoding to the
//! [`Reader`], whose signs go to the watch and whose events go to the caller.

mod end;
mod failure;
mod head;
mod taker;

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, header, response};
use lifesign_core::{Commit, Hints, Phase, Watch};
use lifesign_wire::recording::Ending;
use lifesign_wire::{Expect, ProviderError, Reader, State};

pub(crate) use self::end::{AttemptEnd, Cause};
pub(crate) use self::failure::failure_of;
use self::head::Head;
use self::taker::{Started, Taker};
use crate::clock;
use crate::event::CallEvent;
use crate::guard::{Ask, Guard, Woken};
use crate::job::Job;
use crate::recorder::Recorder;
use crate::transport::{
    ConnectError, ConnectProgress, Connection, ContentDecoder, Exchange, Step, TransportError,
};

/// One HTTP request under way.
pub(crate) struct Attempt {
    job: Arc<Job>,
    guard: Guard,
    link: Link,
    /// What the response's head said, once it is here.
    head: Option<Head>,
    reader: Reader,
    /// Events that the caller has not taken yet.
    ready: VecDeque<CallEvent>,
    /// The id and model of the answer, held back until the commit.
    started: Started,
    /// Until when late usage is waited for, once every choice has a finish.
    grace_until: Option<Duration>,
    ended: Option<Box<AttemptEnd>>,
}

/// What an attempt has to say.
pub(crate) enum AttemptStep {
    /// Something for the caller.
    Event(CallEvent),
    /// It is over.
    Ended(Box<AttemptEnd>),
}

enum Link {
    Opening {
        opening: Pin<Box<dyn Future<Output = Result<Connection, ConnectError>> + Send>>,
        progress: ConnectProgress,
    },
    Exchanging(Box<Exchange>),
    Over,
}

impl Attempt {
    /// Starts an attempt whose watch is already on the guard's monitor.
    pub(crate) fn start(job: Arc<Job>, guard: Guard, fresh: bool) -> Self {
        let progress = ConnectProgress::new();
        let opening = Box::pin({
            let (job, progress) = (Arc::clone(&job), progress.clone());
            async move {
                job.transport
                    .open(&job.upstream.endpoint(), fresh, &progress)
                    .await
            }
        });
        let expect = if job.shape.streamed {
            Expect::Stream
        } else {
            Expect::Whole
        };
        let reader = Reader::new(job.upstream.wire(), expect, &job.read_limits());
        Self {
            job,
            guard,
            link: Link::Opening { opening, progress },
            head: None,
            reader,
            ready: VecDeque::new(),
            started: Started::default(),
            grace_until: None,
            ended: None,
        }
    }

    /// Polls for what happens next. After the end nothing comes.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<AttemptStep> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Poll::Ready(AttemptStep::Event(event));
            }
            if let Some(end) = self.ended.take() {
                return Poll::Ready(AttemptStep::Ended(end));
            }
            match self.link {
                Link::Opening { .. } => ready!(self.poll_opening(cx)),
                Link::Exchanging(_) => ready!(self.poll_exchange(cx)),
                Link::Over => return Poll::Pending,
            }
        }
    }

    /// Ends the attempt because the caller leaves.
    pub(crate) fn cancel(&mut self) -> Option<Box<AttemptEnd>> {
        self.end(Some(Cause::Cancelled));
        self.ended.take()
    }

    fn poll_opening(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Link::Opening { opening, progress } = &mut self.link else {
            return Poll::Ready(());
        };
        let (monitor, clock) = (self.guard.monitor().clone(), self.guard.clock());
        let woken = ready!(self.guard.poll(cx, None, |cx, _| {
            let opened = opening.as_mut().poll(cx);
            if let Some(stage) = progress.stage() {
                monitor.watch(|watch| watch.handle_connecting(stage, clock.elapsed()));
            }
            opened
        }));
        match woken {
            Woken::Ready(Ok(connection)) => self.send(connection),
            Woken::Ready(Err(error)) => self.end(Some(Cause::Connect(error))),
            Woken::Notice(notice) => self.ready.push_back(CallEvent::Notice(notice)),
            Woken::Cut(cut) => self.end(Some(Cause::Cut(cut))),
            Woken::Deadline => {}
        }
        Poll::Ready(())
    }

    fn send(&mut self, connection: Connection) {
        self.guard.watch(Watch::handle_sending);
        self.link = Link::Exchanging(Box::new(connection.send(self.job.request())));
    }

    fn poll_exchange(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Link::Exchanging(exchange) = &mut self.link else {
            return Poll::Ready(());
        };
        let error_body_until = self
            .head
            .as_ref()
            .and_then(|head| head.error_body.as_ref())
            .map(|(_, until)| *until);
        let deadline = self.grace_until.or(error_body_until);
        let woken = ready!(self.guard.poll(cx, deadline, |cx, ask| {
            if ask == Ask::Last {
                exchange.look();
            }
            exchange.poll_step(cx)
        }));
        match woken {
            Woken::Ready(Ok(step)) => self.handle_step(step),
            Woken::Ready(Err(error)) => self.handle_loss(error),
            Woken::Notice(notice) => self.ready.push_back(CallEvent::Notice(notice)),
            // The status stands whatever the body of an error does.
            Woken::Cut(_) | Woken::Deadline if error_body_until.is_some() => self.end_by_status(),
            Woken::Cut(cut) => self.end_by(Cause::Cut(cut)),
            // Late usage did not come; the answer is whole without it.
            Woken::Deadline => self.complete(),
        }
        Poll::Ready(())
    }

    fn handle_step(&mut self, step: Step) {
        match step {
            Step::Raw => {
                self.guard.watch(Watch::handle_raw);
            }
            Step::Wrote => {
                self.guard.watch(Watch::handle_write);
            }
            Step::Sent => {
                self.guard.watch(Watch::handle_sent);
            }
            Step::Head(head) => self.handle_head(&head),
            Step::Chunk(bytes) => self.handle_chunk(&bytes),
            Step::End => self.handle_end_of_body(),
        }
    }

    fn handle_head(&mut self, head: &response::Parts) {
        let now = self.guard.now();
        self.guard.watch(Watch::handle_headers);
        self.record(|recorder, at| recorder.head(at, head.status, &head.headers));
        let error_body = (!head.status.is_success())
            .then(|| (Vec::new(), now.saturating_add(self.job.error_body_limit())));
        let content = match ContentDecoder::new(head.headers.get(header::CONTENT_ENCODING)) {
            Ok(content) => content,
            // The status stands, whatever its body is packed in.
            Err(_) if error_body.is_some() => {
                self.head = Some(Head::new(head, None, error_body));
                return self.end_by_status();
            }
            Err(error) => {
                self.head = Some(Head::new(head, None, error_body));
                return self.end(Some(Cause::Encoding(error)));
            }
        };
        self.head = Some(Head::new(head, content, error_body));
    }

    fn handle_chunk(&mut self, bytes: &Bytes) {
        self.guard
            .watch(|watch, now| watch.handle_bytes(bytes.len(), now));
        self.record(|recorder, at| recorder.chunk(at, bytes));
        let Some(head) = &mut self.head else { return };
        // The decoder is taken out while it feeds what reads from it.
        let Some(mut content) = head.content.take() else {
            return self.handle_content(bytes);
        };
        let decoded = content.decode(bytes, &mut |piece| self.handle_content(piece));
        if let Some(head) = &mut self.head {
            head.content = Some(content);
        }
        match decoded {
            Err(_) if self.is_error_status() => self.end_by_status(),
            Err(error) => self.end(Some(Cause::Encoding(error))),
            Ok(()) => {}
        }
    }

    fn handle_content(&mut self, bytes: &[u8]) {
        if self.ended.is_some() {
            return;
        }
        if let Some((body, _)) = self.head.as_mut().and_then(|head| head.error_body.as_mut()) {
            let room = ERROR_BODY_BYTES.saturating_sub(body.len());
            body.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
            if body.len() >= ERROR_BODY_BYTES {
                self.end_by_status();
            }
            return;
        }
        let was_whole = self.reader.is_whole_body();
        let mut taker = Taker::of(
            &self.guard,
            &mut self.ready,
            &mut self.started,
            self.job.hands_out,
        );
        if let Err(error) = self.reader.read(bytes, &mut taker) {
            return self.end(Some(Cause::Read(error)));
        }
        if !was_whole && self.reader.is_whole_body() {
            self.guard.watch(Watch::handle_whole_body);
        }
        self.look_at_reader();
    }

    fn look_at_reader(&mut self) {
        match self.reader.state() {
            // Another choice has begun to speak after the others had finished.
            State::Open => self.grace_until = None,
            State::Finished => {
                let grace = self.job.settings.grace_usage.value;
                let until = self.guard.now().saturating_add(grace);
                self.grace_until.get_or_insert(until);
            }
            State::Ended => self.complete(),
            State::Failed => {
                let failure = self.reader.failure().cloned();
                self.end(failure.map(Cause::Provider));
            }
        }
    }

    /// Takes in the proper end of the body.
    fn handle_end_of_body(&mut self) {
        self.record(|recorder, at| recorder.end(at, Ending::Eof));
        if self.is_error_status() {
            return self.end_by_status();
        }
        let truncated = self
            .head
            .as_ref()
            .and_then(|head| head.content.as_ref())
            .map(ContentDecoder::finish);
        let mut taker = Taker::of(
            &self.guard,
            &mut self.ready,
            &mut self.started,
            self.job.hands_out,
        );
        if let Err(error) = self.reader.end(&mut taker) {
            return self.end(Some(Cause::Read(error)));
        }
        match (self.reader.state(), self.reader.outcome_at_eof(), truncated) {
            (State::Failed, ..) => self.look_at_reader(),
            (_, Ok(()), _) => self.complete(),
            (_, Err(_), Some(Err(error))) => self.end(Some(Cause::Encoding(error))),
            (_, Err(incomplete), _) => self.end(Some(Cause::Incomplete(incomplete))),
        }
    }

    /// Takes in the loss of the connection.
    fn handle_loss(&mut self, error: TransportError) {
        if self.is_error_status() {
            return self.end_by_status();
        }
        self.end_by(Cause::Transport(error));
    }

    /// Ends the attempt in the middle of its body.
    ///
    /// A last frame whose blank line has not come counts if it parses whole: an event in hand beats
    /// a timer, and a lost line end is no lost answer.
    fn end_by(&mut self, cause: Cause) {
        let mut taker = Taker::of(
            &self.guard,
            &mut self.ready,
            &mut self.started,
            self.job.hands_out,
        );
        let read = self.reader.end(&mut taker);
        match self.reader.state() {
            State::Ended | State::Failed if read.is_ok() => self.look_at_reader(),
            // Every choice has its finish: only late usage is lost.
            State::Finished if matches!(cause, Cause::Transport(_)) => self.complete(),
            _ => self.end(Some(cause)),
        }
    }

    fn is_error_status(&self) -> bool {
        self.head
            .as_ref()
            .is_some_and(|head| head.error_body.is_some())
    }

    fn end_by_status(&mut self) {
        let Some(head) = &self.head else { return };
        let body = head.error_body.as_ref().map_or(&[][..], |(body, _)| body);
        let mut error = ProviderError::of_body(head.status, body);
        if let Some(target) = head.redirects_to() {
            // A request carries a key and a prompt: it goes where it was sent, and nowhere else.
            error.message = format!("it redirects to {target}, which is not followed");
        }
        self.end(Some(Cause::Provider(error)));
    }

    fn complete(&mut self) {
        self.end(None);
    }

    /// Ends the attempt: its clocks stop, its connection is given back or closed.
    fn end(&mut self, cause: Option<Cause>) {
        if self.ended.is_some() {
            return;
        }
        let readings = self.guard.watch(|watch, now| {
            let readings = watch.readings(now);
            watch.handle_ended(now);
            readings
        });
        let link = std::mem::replace(&mut self.link, Link::Over);
        let is_suspect = matches!(cause, Some(Cause::Cut(_) | Cause::Cancelled));
        match (link, &cause) {
            (Link::Exchanging(exchange), None | Some(Cause::Provider(_))) => exchange.finish(),
            (Link::Exchanging(exchange), _) if is_suspect => exchange.poison(),
            (Link::Exchanging(_) | Link::Opening { .. } | Link::Over, _) => {}
        }
        let ending = match cause {
            Some(Cause::Transport(_)) => Ending::Lost,
            _ => Ending::Left,
        };
        self.record(|recorder, at| recorder.end(at, ending));
        let commit = self.commit();
        let whole = cause.is_none();
        let hints = cause
            .as_ref()
            .map_or_else(Hints::default, |cause| self.hints(cause));
        self.ended = Some(Box::new(AttemptEnd {
            hints,
            commit,
            answer: self.reader.take_answer(whole),
            status: self.head.as_ref().map(|head| head.status),
            request_id: self.head.as_ref().and_then(Head::request_id),
            phase: readings.map_or(Phase::Ended, |readings| readings.phase),
            ages: readings.map(|readings| readings.ages).unwrap_or_default(),
            cause,
        }));
    }

    fn commit(&self) -> Commit {
        if !self.reader.is_committed() {
            Commit::Nothing
        } else if self.reader.has_output() || self.job.hands_out {
            Commit::Content
        } else {
            Commit::HeldReasoning
        }
    }

    fn hints(&self, cause: &Cause) -> Hints {
        let Cause::Provider(error) = cause else {
            return Hints::default();
        };
        let (status, headers) = match &self.head {
            Some(head) => (head.status, Some(&head.headers)),
            None => (0, None),
        };
        let headers = headers
            .into_iter()
            .flat_map(HeaderMap::iter)
            .map(|(name, value)| (name.as_str(), value.as_bytes()));
        Hints::read(status, headers, error.hints(), clock::timestamp())
    }

    fn record(&self, note: impl FnOnce(&dyn Recorder, Duration)) {
        let Some(recorder) = &self.job.recorder else {
            return;
        };
        let since = self.guard.watch(|watch, now| (watch.tally().sent, now));
        if let Some((sent, now)) = since {
            note(&**recorder, now.saturating_sub(sent.unwrap_or(now)));
        }
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt")
            .field("job", &self.job)
            .finish_non_exhaustive()
    }
}

/// The most that is read of an error's body.
const ERROR_BODY_BYTES: usize = 64 * 1024;
