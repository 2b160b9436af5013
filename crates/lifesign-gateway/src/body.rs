//! The body of a response: what the call brings, and beats where it brings nothing.

use std::collections::VecDeque;
use std::fmt;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Response;
use http_body::{Frame, SizeHint};
use lifesign_wire::Forwarded;

use crate::beats::{BeatClock, beat};
use crate::call::{Call, Fault, Item};
use crate::readers::Form;
use crate::relay::Manner;
use crate::reply;
use crate::seam::Seam;
use crate::server::{Peer, Stage};
use crate::watching::Watching;

/// The body of a response.
pub(crate) struct Body(Kind);

enum Kind {
    /// All of it is here.
    Full(Option<Bytes>),
    /// It comes as the call goes on.
    Live(Box<Conversation>),
    /// It comes for as long as somebody watches.
    Watching(Box<Watching>),
}

impl Body {
    /// Returns a response that is all here.
    pub(crate) fn whole(response: Response<Bytes>) -> Response<Self> {
        response.map(|bytes| Self(Kind::Full((!bytes.is_empty()).then_some(bytes))))
    }

    /// Returns the body of a response that goes on.
    pub(crate) fn watching(watching: Box<Watching>) -> Self {
        Self(Kind::Watching(watching))
    }

    fn live(conversation: Box<Conversation>) -> Self {
        Self(Kind::Live(conversation))
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").finish_non_exhaustive()
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let frame = match &mut self.0 {
            Kind::Full(bytes) => bytes.take().map(Ok),
            Kind::Live(conversation) => ready!(conversation.poll_bytes(cx)),
            Kind::Watching(watching) => ready!(watching.poll_event(cx)).map(Ok),
        };
        Poll::Ready(frame.map(|frame| frame.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Kind::Full(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Full(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Kind::Live(_) | Kind::Watching(_) => SizeHint::default(),
        }
    }
}

/// The answer broke off, and there are no words for that in what was begun: the connection has to
/// show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer broke off")]
pub(crate) struct Broken;

/// A call and the response that it becomes.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says of one thing whether it has happened yet"
)]
pub(crate) struct Conversation {
    call: Call,
    peer: Arc<Peer>,
    beats: BeatClock,
    /// What waits to be sent.
    ready: VecDeque<Bytes>,
    /// Whether frames of the answer went out.
    has_passed: bool,
    /// Whether they ended in the end marker of their wire, if it has one.
    has_ended: bool,
    seam: Seam,
    is_over: bool,
    /// Whether the connection is to show that the answer broke off.
    is_broken: bool,
    /// Whether what was handed over could be written before that.
    has_paused: bool,
    in_vain: InVain,
}

/// In which poll of the connection's task there was nothing more.
///
/// hyper asks for more behind whatever it was given, and once again before it waits. Whatever ends a
/// wait wakes the task, and that is another poll; within one it need not be looked for twice.
#[derive(Debug, Default)]
struct InVain {
    call: Option<NonZeroU32>,
    beat: Option<NonZeroU32>,
}

impl Conversation {
    pub(crate) fn new(call: Call, peer: Arc<Peer>, beats: BeatClock) -> Box<Self> {
        Box::new(Self {
            call,
            peer,
            beats,
            ready: VecDeque::new(),
            has_passed: false,
            has_ended: false,
            seam: Seam::default(),
            is_over: false,
            is_broken: false,
            has_paused: false,
            in_vain: InVain::default(),
        })
    }

    /// Returns the response once its status is known, or its first beat is due.
    pub(crate) async fn open(self: Box<Self>) -> Response<Body> {
        let mut conversation = Some(self);
        std::future::poll_fn(|cx| {
            let Some(mut opening) = conversation.take() else {
                return Poll::Pending;
            };
            match opening.poll_item(cx) {
                Poll::Ready(item) => Poll::Ready(opening.respond(item)),
                Poll::Pending => {
                    if opening.poll_opens(cx).is_ready() {
                        return Poll::Ready(opening.open_early());
                    }
                    conversation = Some(opening);
                    Poll::Pending
                }
            }
        })
        .await
    }

    fn poll_item(&mut self, cx: &mut Context<'_>) -> Poll<Item> {
        if self.peer.stage() >= Stage::Ending && !self.call.has_ended() {
            return Poll::Ready(self.call.end_drained());
        }
        self.call.poll_next(cx)
    }

    /// Returns ready when the first beat opens the response.
    fn poll_opens(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.call.order().opens_at {
            Some(_) => self.beats.poll_due(cx),
            None => Poll::Pending,
        }
    }

    fn respond(mut self: Box<Self>, item: Item) -> Response<Body> {
        let response = match item {
            Item::Head => reply::passing(&mut self.call),
            Item::Bytes(bytes) => {
                // Room for that alone: what comes later mostly goes out at once.
                self.ready = VecDeque::from([self.pass(bytes)]);
                reply::stream(&mut self.call)
            }
            Item::Done => match self.call.order().manner {
                Manner::Frames => reply::stream(&mut self.call),
                _ => reply::passing(&mut self.call),
            },
            Item::Whole(body) => {
                let response = reply::whole(&mut self.call, body.clone());
                self.note(response.status().as_u16(), body.len());
                return Body::whole(response);
            }
            Item::Failed(fault) => {
                let response = reply::failure(&self.call, &fault);
                self.note(response.status().as_u16(), 0);
                return Body::whole(response);
            }
        };
        self.call.set_open(response.status().as_u16(), false);
        response.map(|_| Body::live(self))
    }

    fn open_early(mut self: Box<Self>) -> Response<Body> {
        let response = match self.beats.form() {
            Form::Space => reply::early_json(&self.call),
            Form::Comment | Form::Event | Form::EarlyEvent => reply::early_stream(&self.call),
        };
        self.call.set_open(response.status().as_u16(), true);
        let beat = self.make_beat();
        self.ready.push_back(beat);
        response.map(|_| Body::live(self))
    }

    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Broken>>> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(bytes)));
            }
            if self.is_broken {
                return self.poll_break(cx);
            }
            if self.is_over {
                return Poll::Ready(None);
            }
            let poll = self.peer.poll_number();
            let is_in_vain = poll.is_some() && self.in_vain.call == poll;
            let item = if is_in_vain {
                Poll::Pending
            } else {
                self.poll_item(cx)
            };
            let Poll::Ready(item) = item else {
                self.in_vain.call = poll;
                return self.poll_beat(cx).map(|beat| Some(Ok(beat)));
            };
            match item {
                Item::Head => {}
                Item::Bytes(bytes) => {
                    let bytes = self.pass(bytes);
                    if !bytes.is_empty() {
                        return Poll::Ready(Some(Ok(bytes)));
                    }
                }
                Item::Done => {
                    self.is_over = true;
                    if self.call.order().manner == Manner::Frames {
                        self.ready.extend(self.seam.end());
                    }
                }
                Item::Whole(body) => {
                    self.is_over = true;
                    let body = match self.call.order().manner {
                        Manner::Frames => self.as_events(&body),
                        _ => body,
                    };
                    self.call.times_mut().bytes_out += body.len() as u64;
                    self.ready.push_back(body);
                }
                Item::Failed(fault) => {
                    self.is_over = true;
                    match self.last_words(&fault) {
                        Ok(words) => {
                            let words = words.map(|words| self.seam.ours(words));
                            self.ready.extend(words);
                        }
                        Err(Broken) => self.is_broken = true,
                    }
                }
            }
        }
    }

    /// Breaks the connection off behind what was handed over: hyper writes what it has only where
    /// it finds nothing else to do.
    fn poll_break(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Broken>>> {
        if std::mem::replace(&mut self.has_paused, true) {
            return Poll::Ready(Some(Err(Broken)));
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn poll_beat(&mut self, cx: &mut Context<'_>) -> Poll<Bytes> {
        let poll = self.peer.poll_number();
        let is_in_vain = poll.is_some() && self.in_vain.beat == poll;
        if is_in_vain || !self.beats_now() {
            return Poll::Pending;
        }
        if self.beats.poll_due(cx).is_pending() {
            self.in_vain.beat = poll;
            return Poll::Pending;
        }
        Poll::Ready(self.make_beat())
    }

    /// Returns whether beats may stand between the bytes of this answer.
    fn beats_now(&self) -> bool {
        match self.call.order().manner {
            Manner::Frames => true,
            Manner::Assembled | Manner::Whole => self.beats.form() == Form::Space,
            Manner::Plain | Manner::Collected => false,
        }
    }

    fn make_beat(&mut self) -> Bytes {
        let beat = beat(
            &mut self.call,
            self.beats.seq(),
            self.beats.form(),
            self.has_passed,
        );
        self.call.note_beat(&beat);
        self.seam.ours(beat)
    }

    /// Returns how a stream ends that has failed.
    fn last_words(&self, fault: &Fault) -> Result<Option<Bytes>, Broken> {
        let order = self.call.order();
        match order.manner {
            Manner::Frames if self.provider_has_spoken(fault) => Ok(self.missing_end()),
            Manner::Frames => {
                let forwarded = Forwarded {
                    id: Some(self.call.id()),
                    model: order.model.as_deref(),
                    last_sequence: self.call.last_sequence(),
                };
                Ok(Some(reply::error_frame(order.wire, fault, &forwarded)))
            }
            // A body that is JSON, with only white space out.
            Manner::Assembled | Manner::Whole => Ok(Some(reply::error_body(order.wire, fault))),
            Manner::Plain | Manner::Collected => Err(Broken),
        }
    }

    /// Returns whether the provider's own error went out, so that ours would be a second.
    fn provider_has_spoken(&self, fault: &Fault) -> bool {
        self.has_passed && fault.is_committed && fault.has_error_frame
    }

    /// Returns the end marker that some readers wait for, where the provider has left it out
    /// behind its error.
    fn missing_end(&self) -> Option<Bytes> {
        let marker = self.end_marker().filter(|_| !self.has_ended)?;
        Some(format!("data: {marker}\n\n").into())
    }

    fn end_marker(&self) -> Option<&'static str> {
        self.call.order().wire.habits().end_marker
    }

    /// Returns a whole answer as the events of a stream that has begun, without the one that starts
    /// it if an earlier attempt's went out as a beat.
    fn as_events(&self, body: &Bytes) -> Bytes {
        let wire = self.call.order().wire;
        match wire.events_of_whole(body) {
            Some(events) if self.call.start_is_out() => behind_first(events.into()),
            Some(events) => events.into(),
            // It was read as an answer, so that this cannot be; say so rather than nothing.
            None => reply::unreadable_frame(wire),
        }
    }

    fn pass(&mut self, bytes: Bytes) -> Bytes {
        self.has_passed = true;
        let marker = self.end_marker();
        let ends = |marker: &str| bytes.trim_ascii_end().ends_with(marker.as_bytes());
        self.has_ended = marker.is_some_and(ends);
        self.beats.note_sent();
        self.call.times_mut().bytes_out += bytes.len() as u64;
        self.seam.theirs(bytes)
    }

    fn note(&mut self, status: u16, len: usize) {
        let times = self.call.times_mut();
        times.status = Some(status);
        times.bytes_out += len as u64;
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        if self.peer.is_stalled() {
            self.call.set_stalled();
        }
    }
}

/// Returns the events behind the first.
fn behind_first(mut events: Bytes) -> Bytes {
    let end = events.windows(2).position(|pair| pair == b"\n\n");
    events.split_off(end.map_or(0, |end| end + 2))
}

impl fmt::Debug for Conversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conversation")
            .field("call", &self.call)
            .finish_non_exhaustive()
    }
}
