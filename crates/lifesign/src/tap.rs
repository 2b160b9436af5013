//! The clocks on somebody else's byte stream.
//!
//! Whoever has a client already keeps it: the stream hands out the same chunks, and the watch sees
//! each of them on its way. Nothing is decoded for its words and nothing is kept but a frame that
//! straddles two chunks.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use lifesign_core::{Cut, Failure, Notice, Watch};
use lifesign_wire::{SignReader, Wire};

use crate::clock::CallClock;
use crate::guard::{Guard, Woken};
use crate::monitor::{Doing, Monitor};

pub use self::bounds::WatchBounds;
pub use self::error::WatchError;

mod bounds;
mod error;

/// Puts the clocks on `stream`, the body of a response that somebody else's client has received.
///
/// `wire` says what to look for in the bytes. They must be decoded already where they are
/// compressed; in what is not of the wire nothing is seen but that bytes arrive. `bounds` are
/// [`WatchBounds`], [`Bounds`](lifesign_core::Bounds) or [`Settings`](lifesign_core::Settings); by
/// default they are those of an upstream that nothing is known of.
///
/// The clocks start now, as if the request had been sent now. From then on the stream is judged as
/// an attempt of a [`Client`](crate::Client) is; see [`Watched`].
///
/// This example shows the body of a reqwest response.
///
/// ```
/// use futures_util::TryStreamExt;
/// use lifesign::WatchBounds;
/// use lifesign::Wire;
///
/// # async fn example(response: reqwest::Response) -> std::io::Result<()> {
/// let bounds = WatchBounds::of_host("api.openai.com").model("gpt-5").max_tokens(32_000);
/// let mut bytes = lifesign::watch(response.bytes_stream(), Wire::OPENAI_CHAT, bounds);
/// while let Some(chunk) = bytes.try_next().await? { /* as before */ }
/// # Ok(())
/// # }
/// ```
pub fn watch<S>(stream: S, wire: Wire, bounds: impl Into<WatchBounds>) -> Watched<S> {
    let terms = bounds.into().terms(wire);
    let clock = CallClock::start();
    let began = clock.elapsed();
    let mut watch = Watch::new(&terms.bounds, &terms.shape, began, Duration::ZERO);
    // The response is there, so its request has been sent, and nobody has asked for its body yet.
    watch.handle_sent(began);
    watch.handle_headers(began);
    watch.handle_pause(began);
    let monitor = Monitor::new(clock, 1);
    monitor.begin_attempt(1, watch);
    Watched {
        stream: Some(Box::pin(stream)),
        guard: Guard::new(clock, monitor),
        reader: SignReader::new(wire, terms.limits),
        paused: true,
        on_notice: None,
        upstream: terms.upstream,
        model: terms.model,
    }
}

/// A byte stream under the clocks, made by [`watch`].
///
/// It hands out every chunk as it is. When a bound runs out it drops the stream inside, which
/// closes the connection, then yields [`WatchError::Cut`] and ends. An error of the stream inside
/// is passed on as [`WatchError::Inner`].
///
/// What has arrived is read before a verdict, and a wake-up that was late is excused. Between a
/// chunk and the next poll every clock but the wall's stands still: the reader's pause is not the
/// upstream's silence. After the answer's terminal event, or an error in its place, no bound runs
/// any more, however long the body stays open.
///
/// Poll it on a tokio runtime whose time is enabled.
pub struct Watched<S> {
    /// Gone once it has ended or was cut.
    stream: Option<Pin<Box<S>>>,
    guard: Guard,
    reader: SignReader,
    /// Whether the consumer has not asked for the next chunk yet.
    paused: bool,
    on_notice: Option<OnNotice>,
    upstream: Option<String>,
    model: Option<String>,
}

type OnNotice = Box<dyn FnMut(Notice) + Send>;

impl<S> Watched<S> {
    /// Calls `tell` whenever the content has been quiet for long. It must not block.
    #[must_use]
    pub fn on_notice(mut self, tell: impl FnMut(Notice) + Send + 'static) -> Self {
        self.on_notice = Some(Box::new(tell));
        self
    }

    /// Returns a view of the clocks, for somebody who is not reading the stream.
    pub fn monitor(&self) -> Monitor {
        self.guard.monitor().clone()
    }

    fn handle_chunk(&mut self, chunk: &[u8]) {
        let Self { guard, reader, .. } = self;
        guard.watch(|watch, now| {
            watch.handle_bytes(chunk.len(), now);
            let was_whole = reader.is_whole_body();
            reader.read(chunk, |sign| watch.handle_frame(sign, now));
            if !was_whole && reader.is_whole_body() {
                watch.handle_whole_body(now);
            }
            if reader.is_over() {
                watch.handle_ended(now);
            }
        });
    }

    fn handle_end(&mut self) {
        self.guard.watch(Watch::handle_ended);
        self.guard.monitor().set_doing(Doing::Ended);
    }

    /// Drops the stream inside and returns why.
    fn handle_cut(&mut self, cut: &Cut) -> Box<Failure> {
        self.stream = None;
        self.handle_end();
        let mut failure = Failure::of_cut(cut);
        failure.upstream.clone_from(&self.upstream);
        failure.model.clone_from(&self.model);
        if let Some(tally) = self.guard.watch(|watch, _| watch.tally()) {
            failure.partial = tally.first_content.is_some();
            failure.bytes = tally.bytes;
            failure.frames = tally.frames;
            failure.heartbeats = tally.heartbeats;
        }
        Box::new(failure)
    }
}

impl<S, B, E> Stream for Watched<S>
where
    S: Stream<Item = Result<B, E>>,
    B: AsRef<[u8]>,
{
    type Item = Result<B, WatchError<E>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if std::mem::take(&mut this.paused) {
            this.guard.watch(Watch::handle_resume);
        }
        let item = loop {
            let Some(stream) = &mut this.stream else {
                return Poll::Ready(None);
            };
            let polled = this
                .guard
                .poll(cx, None, |cx, _| stream.as_mut().poll_next(cx));
            match ready!(polled) {
                Woken::Ready(item) => break item,
                Woken::Cut(cut) => {
                    let failure = this.handle_cut(&cut);
                    return Poll::Ready(Some(Err(WatchError::Cut(failure))));
                }
                Woken::Notice(notice) => {
                    if let Some(tell) = &mut this.on_notice {
                        tell(notice);
                    }
                }
                // None was given.
                Woken::Deadline => {}
            }
        };
        match &item {
            Some(Ok(chunk)) => this.handle_chunk(chunk.as_ref()),
            // Whether anything comes after an error is for the stream inside to say.
            Some(Err(_)) => this.handle_end(),
            None => {
                this.handle_end();
                this.stream = None;
            }
        }
        this.guard.watch(Watch::handle_pause);
        this.paused = true;
        Poll::Ready(item.map(|item| item.map_err(WatchError::Inner)))
    }
}

impl<S> fmt::Debug for Watched<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched")
            .field("monitor", self.guard.monitor())
            .finish_non_exhaustive()
    }
}
