//! One HTTP request to one upstream, judged by what crosses the wire.
//!
//! An attempt is polled, never spawned: dropping it closes the socket at once. A byte goes one way
//! through it: from the transport to the watch's raw clock, through content decoding to the
//! [`Intake`], whose signs go to the watch and whose items go to the caller.
//!
//! A [`Client`](crate::Client) makes its attempts here, and so does a program that passes answers
//! on and decides about retries itself.

mod end;
mod errand;
mod failure;
mod head;
mod intake;
mod pieces;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, header, response};
use lifesign_core::{Ages, Hints, Notice, Phase, Watch};
use lifesign_wire::recording::Ending;
use lifesign_wire::{ProviderError, State};

pub use self::end::{AttemptEnd, Cause, ResponseHead};
pub use self::errand::Errand;
pub use self::failure::failure_of;
use self::head::Head;
pub use self::intake::Intake;
pub(crate) use self::pieces::Pieces;
use crate::clock;
pub use crate::guard::Guard;
use crate::guard::{Ask, Woken};
use crate::recorder::Recorder;
use crate::transport::{
    ConnectError, ConnectProgress, Connection, ContentDecoder, Exchange, Step, TransportError,
};

/// One HTTP request under way.
pub struct Attempt<I> {
    guard: Guard,
    link: Link,
    terms: Terms,
    /// What the response's head said, once it is here.
    head: Option<Head>,
    intake: I,
    /// What the watch has to say, until the caller takes it.
    notice: Option<Notice>,
    /// Until when late usage is waited for, once every choice has a finish.
    grace_until: Option<Duration>,
    ended: Option<Box<AttemptEnd>>,
}

/// What an attempt has to say.
#[derive(Debug)]
pub enum AttemptStep<T> {
    /// Something that the intake made of the answer.
    Item(T),
    /// The content has been quiet for long.
    Notice(Notice),
    /// It is over.
    Ended(Box<AttemptEnd>),
}

/// What of the errand is needed after the request was sent.
struct Terms {
    error_body_limit: Duration,
    grace_usage: Duration,
    recorder: Option<Arc<dyn Recorder>>,
}

enum Link {
    Opening(Box<Opening>),
    Exchanging(Box<Exchange>),
    Over,
}

struct Opening {
    request: Request<Bytes>,
    connecting: Pin<Box<dyn Future<Output = Result<Connection, ConnectError>> + Send>>,
    progress: ConnectProgress,
}

impl<I: Intake> Attempt<I> {
    /// Starts an attempt whose watch is already on the guard's monitor.
    pub fn start(errand: Errand, guard: Guard, intake: I) -> Self {
        let Errand {
            transport,
            endpoint,
            fresh,
            request,
            error_body_limit,
            grace_usage,
            recorder,
        } = errand;
        let progress = ConnectProgress::new();
        let connecting = Box::pin({
            let progress = progress.clone();
            async move { transport.open(&endpoint, fresh, &progress).await }
        });
        Self {
            guard,
            link: Link::Opening(Box::new(Opening {
                request,
                connecting,
                progress,
            })),
            terms: Terms {
                error_body_limit,
                grace_usage,
                recorder,
            },
            head: None,
            intake,
            notice: None,
            grace_until: None,
            ended: None,
        }
    }

    /// Polls for what happens next. After the end nothing comes.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<AttemptStep<I::Item>> {
        loop {
            if let Some(item) = self.intake.next_item() {
                return Poll::Ready(AttemptStep::Item(item));
            }
            if let Some(notice) = self.notice.take() {
                return Poll::Ready(AttemptStep::Notice(notice));
            }
            if let Some(end) = self.ended.take() {
                return Poll::Ready(AttemptStep::Ended(end));
            }
            match self.link {
                Link::Opening(_) => ready!(self.poll_opening(cx)),
                Link::Exchanging(_) => ready!(self.poll_exchange(cx)),
                Link::Over => return Poll::Pending,
            }
        }
    }

    /// Takes the headers of the response, once they are here, and returns them with its status.
    ///
    /// What is read of them at the end stays: the provider's id of the request, and its hints.
    pub fn take_headers(&mut self) -> Option<(u16, HeaderMap)> {
        if let Some(head) = &mut self.head {
            return Some((head.status, head.take_headers()));
        }
        // It is over, and what it brought has not been taken yet.
        let head = self.ended.as_mut()?.head.as_mut()?;
        Some((head.status, std::mem::take(&mut head.headers)))
    }

    /// Returns whether it is over, and nobody has taken its end yet.
    pub fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Returns what takes the answer.
    pub fn intake(&self) -> &I {
        &self.intake
    }

    /// Returns what takes the answer.
    pub fn intake_mut(&mut self) -> &mut I {
        &mut self.intake
    }

    /// Ends the attempt because the caller leaves.
    ///
    /// Its end is returned, if it was not over already.
    pub fn cancel(&mut self) -> Option<Box<AttemptEnd>> {
        self.end(Some(Cause::Cancelled));
        self.ended.take()
    }

    fn poll_opening(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Link::Opening(opening) = &mut self.link else {
            return Poll::Ready(());
        };
        let (monitor, clock) = (self.guard.monitor().clone(), self.guard.clock());
        let woken = ready!(self.guard.poll(cx, None, |cx, _| {
            let opened = opening.connecting.as_mut().poll(cx);
            if let Some(stage) = opening.progress.stage() {
                monitor.watch(|watch| watch.handle_connecting(stage, clock.elapsed()));
            }
            opened
        }));
        match woken {
            Woken::Ready(Ok(connection)) => self.send(connection),
            Woken::Ready(Err(error)) => self.end(Some(Cause::Connect(error))),
            Woken::Notice(notice) => self.notice = Some(notice),
            Woken::Cut(cut) => self.end(Some(Cause::Cut(cut))),
            Woken::Deadline => {}
        }
        Poll::Ready(())
    }

    fn send(&mut self, connection: Connection) {
        self.guard.watch(Watch::handle_sending);
        if let Link::Opening(opening) = std::mem::replace(&mut self.link, Link::Over) {
            self.link = Link::Exchanging(Box::new(connection.send(opening.request)));
        }
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
            Woken::Notice(notice) => self.notice = Some(notice),
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
            .then(|| (Vec::new(), now.saturating_add(self.terms.error_body_limit)));
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
        let is_success = error_body.is_none();
        if head.status.is_informational() {
            // Another protocol begins, which has no end that could be waited for.
            self.head = Some(Head::new(head, content, error_body));
            return self.end_by_status();
        }
        let head = self.head.insert(Head::new(head, content, error_body));
        if is_success {
            self.intake.head(head.status, &head.headers);
        }
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
        let decoded = content.decode(bytes, &mut |piece| {
            self.handle_content(&Bytes::copy_from_slice(piece));
        });
        if let Some(head) = &mut self.head {
            head.content = Some(content);
        }
        match decoded {
            Err(_) if self.is_error_status() => self.end_by_status(),
            Err(error) => self.end(Some(Cause::Encoding(error))),
            Ok(()) => {}
        }
    }

    fn handle_content(&mut self, bytes: &Bytes) {
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
        let was_whole = self.intake.is_whole_body();
        if let Err(error) = self.intake.read(bytes, &self.guard) {
            return self.end(Some(Cause::Read(error)));
        }
        if !was_whole && self.intake.is_whole_body() {
            self.guard.watch(Watch::handle_whole_body);
        }
        self.look_at_answer();
    }

    fn look_at_answer(&mut self) {
        match self.intake.state() {
            // Another choice has begun to speak after the others had finished.
            State::Open => self.grace_until = None,
            State::Finished => {
                let grace = self.terms.grace_usage;
                let until = self.guard.now().saturating_add(grace);
                self.grace_until.get_or_insert(until);
            }
            State::Ended => self.complete(),
            State::Failed => {
                let failure = self.intake.failure().cloned();
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
        if let Err(error) = self.intake.end(&self.guard) {
            return self.end(Some(Cause::Read(error)));
        }
        match (self.intake.state(), self.intake.outcome_at_eof(), truncated) {
            (State::Failed, ..) => self.look_at_answer(),
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
        let read = self.intake.end(&self.guard);
        match self.intake.state() {
            State::Ended | State::Failed if read.is_ok() => self.look_at_answer(),
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
            (Link::Exchanging(_) | Link::Opening(_) | Link::Over, _) => {}
        }
        let ending = match cause {
            Some(Cause::Transport(_)) => Ending::Lost,
            _ => Ending::Left,
        };
        self.record(|recorder, at| recorder.end(at, ending));
        let commit = self.intake.commit();
        let whole = cause.is_none();
        let hints = cause
            .as_ref()
            .map_or_else(Hints::default, |cause| self.hints(cause));
        let answer = self.intake.take_answer(whole);
        let (phase, ages) = match readings {
            Some(readings) => (readings.phase, readings.ages),
            None => (Phase::Ended, Ages::default()),
        };
        self.ended = Some(Box::new(AttemptEnd {
            hints,
            commit,
            answer,
            request_id: self.head.as_ref().and_then(Head::request_id),
            phase,
            ages,
            cause,
            head: self.head.take().map(Head::into_response),
        }));
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
        let mut hints = Hints::read(status, headers, error.hints(), clock::timestamp());
        if error.is_final {
            // A gateway above has tried again as often as there was sense in it.
            hints.should_retry = Some(false);
        }
        hints
    }

    fn record(&self, note: impl FnOnce(&dyn Recorder, Duration)) {
        let Some(recorder) = &self.terms.recorder else {
            return;
        };
        let since = self.guard.watch(|watch, now| (watch.tally().sent, now));
        if let Some((sent, now)) = since {
            note(&**recorder, now.saturating_sub(sent.unwrap_or(now)));
        }
    }
}

impl<I> fmt::Debug for Attempt<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt")
            .field("guard", &self.guard)
            .finish_non_exhaustive()
    }
}

/// The most that is read of an error's body.
const ERROR_BODY_BYTES: usize = 64 * 1024;
