//! The clocks on somebody else's byte stream, in virtual time.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use futures_util::{StreamExt, TryStreamExt, stream};
use lifesign::clock::CallClock;
use lifesign::{WatchBounds, WatchError, Watched, watch};
use lifesign_core::{BoundName, FailureCode, Layer, Origin, Phase, Target, Value, resolve};
use lifesign_wire::Wire;
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use tokio::sync::mpsc;

const TEXT: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";
const COMMENT: &str = ": keepalive\n\n";
const PING: &str = "event: ping\ndata: {\"type\":\"ping\"}\n\n";

type Item = Result<Bytes, io::Error>;

/// A body whose chunks come after a wait each; then it ends.
fn body(
    chunks: impl IntoIterator<Item = (Duration, Item), IntoIter: Send>,
) -> impl Stream<Item = Item> + Send {
    stream::iter(chunks).then(|(wait, item)| async move {
        tokio::time::sleep(wait).await;
        item
    })
}

/// A body that says nothing after `chunks`.
fn silent_after(chunks: &[(u64, &'static str)]) -> impl Stream<Item = Item> + Send {
    let chunks: Vec<_> = chunks
        .iter()
        .map(|(wait, text)| chunk(*wait, text))
        .collect();
    body(chunks).chain(stream::pending())
}

fn chunk(wait: u64, text: &'static str) -> (Duration, Item) {
    (secs(wait), Ok(Bytes::from_static(text.as_bytes())))
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn raw_silence(limit: u64) -> WatchBounds {
    WatchBounds::default().limit(BoundName::RawSilence, secs(limit))
}

/// Asks for the next item and returns whether there is none yet.
async fn is_waiting(stream: &mut (impl Stream + Unpin)) -> bool {
    poll_fn(|cx| Poll::Ready(stream.poll_next_unpin(cx).is_pending())).await
}

/// Tells when it is dropped.
struct Dropped<S>(Pin<Box<S>>, Arc<AtomicBool>);

impl<S> Dropped<S> {
    fn of(stream: S) -> (Self, Arc<AtomicBool>) {
        let flag = Arc::default();
        (Self(Box::pin(stream), Arc::clone(&flag)), flag)
    }
}

impl<S> Drop for Dropped<S> {
    fn drop(&mut self) {
        self.1.store(true, Ordering::Relaxed);
    }
}

impl<S: Stream> Stream for Dropped<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        self.0.as_mut().poll_next(cx)
    }
}

/// A body that the test feeds.
fn fed() -> (mpsc::UnboundedSender<Item>, impl Stream<Item = Item> + Send) {
    let (feed, mut fed) = mpsc::unbounded_channel();
    (feed, stream::poll_fn(move |cx| fed.poll_recv(cx)))
}

#[tokio::test(start_paused = true)]
async fn every_chunk_passes_untouched_however_it_cuts_the_frames() {
    let (head, tail) = TEXT.split_at(17);
    let chunks = [head, "", tail, DONE, "behind the end"].map(Bytes::from);
    let items: Vec<_> = chunks.clone().map(|chunk| (secs(1), Ok(chunk))).into();

    let passed: Vec<_> = watch(body(items), Wire::OPENAI_CHAT, raw_silence(45))
        .try_collect()
        .await
        .unwrap();

    assert_eq!(passed, chunks);
    let places = |chunks: &[Bytes]| {
        chunks
            .iter()
            .map(|chunk| chunk.as_ptr())
            .collect::<Vec<_>>()
    };
    assert_eq!(places(&passed), places(&chunks));
}

#[tokio::test(start_paused = true)]
async fn a_model_may_think_for_45_min_behind_pings_under_patient() {
    let mut layer = Layer::new();
    layer
        .set("profile", Value::Text("patient"), Origin::Call)
        .unwrap();
    let target = Target {
        wire: &Wire::ANTHROPIC.defaults(),
        host: Some("api.anthropic.com"),
        model: None,
    };
    let settings = resolve(&[layer], &target).unwrap();
    let bounds = [
        WatchBounds::from(&settings),
        WatchBounds::default().patient(),
    ];
    for bounds in bounds {
        let clock = CallClock::start();
        let pings = (0..180).map(|_| chunk(15, PING));

        let passed: Vec<_> = watch(body(pings), Wire::ANTHROPIC, bounds)
            .try_collect()
            .await
            .unwrap();

        assert_eq!(passed.len(), 180);
        assert_eq!(clock.elapsed(), secs(45 * 60));
    }
}

#[tokio::test(start_paused = true)]
async fn silence_is_cut_in_time_and_the_stream_inside_is_dropped_first() {
    let clock = CallClock::start();
    let (inside, dropped) = Dropped::of(silent_after(&[(5, TEXT)]));
    let mut bytes = watch(inside, Wire::OPENAI_CHAT, raw_silence(45));

    bytes.next().await.unwrap().unwrap();
    assert!(!dropped.load(Ordering::Relaxed));
    let error = bytes.next().await.unwrap().unwrap_err();

    assert!(dropped.load(Ordering::Relaxed));
    assert_eq!(clock.elapsed(), secs(50));
    let failure = error.failure().unwrap();
    assert_eq!(
        (failure.code, failure.bound, failure.phase, failure.partial),
        (
            FailureCode::RawSilent,
            Some(BoundName::RawSilence),
            Phase::AfterContent,
            true
        )
    );
    assert_eq!((failure.bytes, failure.frames), (TEXT.len() as u64, 1));
    assert_eq!(error.to_string(), failure.message());
    assert!(bytes.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_line_that_only_pings_is_cut_before_content_where_the_wire_shows_work() {
    let clock = CallClock::start();
    let pings = (0..100).map(|_| chunk(10, PING));
    let bounds = WatchBounds::of_host("api.anthropic.com").model("claude");

    let mut bytes = watch(body(pings), Wire::ANTHROPIC, bounds);
    let error = loop {
        if let Err(error) = bytes.next().await.unwrap() {
            break error;
        }
    };

    let failure = error.failure().unwrap();
    assert_eq!(
        (failure.code, failure.bound),
        (FailureCode::HeartbeatsOnly, Some(BoundName::BeforeContent))
    );
    assert_eq!(clock.elapsed(), secs(60));
    assert_eq!(failure.upstream.as_deref(), Some("api.anthropic.com"));
    assert_eq!(failure.model.as_deref(), Some("claude"));
    assert_eq!(io::Error::from(error).kind(), io::ErrorKind::Other);
}

#[tokio::test(start_paused = true)]
async fn max_tokens_gives_a_thinking_block_its_time() {
    const THINKS: &str = "data: {\"type\":\"content_block_start\",\"index\":0,\
        \"content_block\":{\"type\":\"thinking\",\"thinking\":\"\"}}\n\n";
    let cut_after = async |bounds: WatchBounds| {
        let clock = CallClock::start();
        let pings = (0..1_000).map(|_| chunk(10, PING));
        let inside = body([chunk(0, THINKS)].into_iter().chain(pings));
        let cut = watch(inside, Wire::ANTHROPIC, bounds)
            .try_collect::<Vec<_>>()
            .await;
        assert!(cut.is_err());
        clock.elapsed()
    };

    let elapsed = cut_after(WatchBounds::default().max_tokens(8_700)).await;

    assert_eq!(elapsed, secs(100));
}

#[tokio::test(start_paused = true)]
async fn an_hour_of_the_readers_own_is_not_charged() {
    let clock = CallClock::start();
    let mut bytes = watch(
        silent_after(&[(30, TEXT), (30, TEXT)]),
        Wire::OPENAI_CHAT,
        raw_silence(45),
    );

    // Before the first chunk is asked for, too.
    tokio::time::advance(secs(3_600)).await;
    bytes.next().await.unwrap().unwrap();
    tokio::time::advance(secs(3_600)).await;
    bytes.next().await.unwrap().unwrap();
    tokio::time::advance(secs(3_600)).await;
    let error = bytes.next().await.unwrap().unwrap_err();

    assert_eq!(error.failure().unwrap().ages.raw, secs(45));
    assert_eq!(clock.elapsed(), secs(3 * 3_600 + 30 + 30 + 45));
}

#[tokio::test(start_paused = true)]
async fn a_chunk_that_is_there_beats_a_verdict_that_comes_late() {
    let (feed, inside) = fed();
    let mut bytes = watch(inside, Wire::OPENAI_CHAT, raw_silence(45));

    assert!(is_waiting(&mut bytes).await);
    tokio::time::advance(secs(46)).await;
    feed.send(Ok(Bytes::from_static(COMMENT.as_bytes())))
        .unwrap();
    let passed = bytes.next().await.unwrap();

    assert_eq!(passed.unwrap(), COMMENT);
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_slept_gives_the_line_another_chance() {
    let (feed, inside) = fed();
    let mut bytes = watch(inside, Wire::OPENAI_CHAT, raw_silence(45));

    assert!(is_waiting(&mut bytes).await);
    tokio::time::advance(secs(3_600)).await;
    assert!(is_waiting(&mut bytes).await);
    tokio::time::advance(secs(20)).await;
    feed.send(Ok(Bytes::from_static(COMMENT.as_bytes())))
        .unwrap();

    assert_eq!(bytes.next().await.unwrap().unwrap(), COMMENT);
}

#[tokio::test(start_paused = true)]
async fn after_the_terminal_event_no_bound_runs() {
    let behind = body([chunk(0, TEXT), chunk(0, DONE), chunk(86_400, COMMENT)]);
    let bounds = raw_silence(45).limit(BoundName::WallClock, secs(60));

    let passed: Vec<_> = watch(behind, Wire::OPENAI_CHAT, bounds)
        .try_collect()
        .await
        .unwrap();

    assert_eq!(passed.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_whole_json_body_has_the_bounds_of_an_answer_that_is_not_streamed() {
    let clock = CallClock::start();
    let slow = body([
        chunk(0, "{\"id\":"),
        chunk(600, "1"),
        chunk(600, "}"),
        chunk(86_400, "\n"),
    ]);
    let passed: Vec<_> = watch(slow, Wire::OPENAI_CHAT, WatchBounds::default())
        .try_collect()
        .await
        .unwrap();
    assert_eq!(passed.len(), 4);
    assert_eq!(clock.elapsed(), secs(1_200 + 86_400));

    let hung = silent_after(&[(0, "{\"id\":")]);
    let error = watch(hung, Wire::OPENAI_CHAT, WatchBounds::default())
        .try_collect::<Vec<_>>()
        .await
        .unwrap_err();
    assert_eq!(error.failure().unwrap().bound, Some(BoundName::WholeCall));
}

#[tokio::test(start_paused = true)]
async fn of_a_body_of_something_else_bytes_alone_are_told() {
    let drip = body((0..1_000).map(|_| chunk(30, "<p>no</p>")));
    let bounds = WatchBounds::default().limit(BoundName::Flat, secs(300));

    let error = watch(drip, Wire::OPENAI_CHAT, bounds)
        .try_collect::<Vec<_>>()
        .await
        .unwrap_err();

    assert_eq!(error.failure().unwrap().code, FailureCode::BytesOnly);
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_stream_inside_is_passed_on_and_ends_the_clocks() {
    let reset = || io::Error::new(io::ErrorKind::ConnectionReset, "reset by peer");
    let failing = body([chunk(0, TEXT), (secs(1), Err(reset())), chunk(86_400, TEXT)]);
    let mut bytes = watch(failing, Wire::OPENAI_CHAT, raw_silence(45));

    bytes.next().await.unwrap().unwrap();
    let error = bytes.next().await.unwrap().unwrap_err();

    assert!(matches!(error, WatchError::Inner(_)));
    assert_eq!(error.to_string(), "reset by peer");
    assert_eq!(
        io::Error::from(error).kind(),
        io::ErrorKind::ConnectionReset
    );
    assert!(bytes.next().await.unwrap().is_ok());
    assert!(bytes.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn silence_is_a_timeout_to_those_who_know_io_errors_alone() {
    let error = watch(silent_after(&[]), Wire::OPENAI_CHAT, raw_silence(45))
        .try_collect::<Vec<_>>()
        .await
        .unwrap_err();

    let error = io::Error::from(error);

    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert!(
        error.to_string().starts_with("nothing arrived for 45 s"),
        "{error}"
    );
}

#[test]
fn an_error_never_says_the_same_as_its_source() {
    use std::error::Error;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] io::Error);

    let error = WatchError::Inner(Outer(io::Error::other("inner")));

    let mut said = vec![error.to_string()];
    let mut source = error.source();
    while let Some(error) = source {
        said.push(error.to_string());
        source = error.source();
    }
    assert_eq!(said, ["outer", "inner"]);
}

#[tokio::test(start_paused = true)]
async fn notices_and_readings_are_there_for_whoever_wants_them() {
    let notices = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&notices);
    let mut bytes = watch(
        silent_after(&[(0, COMMENT)]),
        Wire::OPENAI_CHAT,
        raw_silence(45),
    )
    .on_notice(move |notice| told.lock().unwrap().push(notice.ages.content));
    let monitor = bytes.monitor();

    bytes.next().await.unwrap().unwrap();
    let waiting = monitor.snapshot().readings.unwrap();
    bytes.next().await.unwrap().unwrap_err();
    let over = monitor.snapshot().readings.unwrap();

    assert_eq!(*notices.lock().unwrap(), [secs(30)]);
    assert_eq!(waiting.phase, Phase::BeforeContent);
    assert!(waiting.heartbeat.is_some());
    assert_eq!((over.phase, over.ages.raw), (Phase::Ended, secs(45)));
}

#[test]
fn the_readme_shows_what_the_documentation_compiles() {
    let lines = |text: &str, before: &str| {
        text.lines()
            .map(|line| line.strip_prefix(before).unwrap_or_default().to_owned())
            .skip_while(|line| !line.starts_with("let bounds = WatchBounds::of_host"))
            .take(3)
            .collect::<Vec<_>>()
    };

    let readme = lines(include_str!("../../../../README.md"), "");
    let documented = lines(include_str!("../../src/tap.rs"), "/// ");

    assert_eq!(readme.len(), 3);
    assert_eq!(readme, documented);
}

#[test]
fn a_watched_stream_can_be_moved_and_sent_to_another_thread() {
    fn takes<T: Send + Unpin + 'static>(_: &T) {}

    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
        .block_on(async {
            let watched: Watched<_> = watch(silent_after(&[]), Wire::OPENAI_CHAT, raw_silence(1));
            takes(&watched);
        });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The verdict does not depend on how the bytes are cut.
    #[test]
    fn any_cut_of_the_same_bytes_is_judged_the_same(cuts in prop::collection::vec(1_usize..40, 1..20)) {
        let stream = [COMMENT, TEXT, COMMENT, TEXT].concat();
        let judged = |chunks: Vec<Bytes>| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .build()
                .unwrap();
            runtime.block_on(async {
                let items: Vec<_> = chunks.into_iter().map(|chunk| (Duration::ZERO, Ok(chunk))).collect();
                let inside = body(items).chain(stream::pending());
                let watched = watch(inside, Wire::OPENAI_CHAT, WatchBounds::default());
                let error = watched.try_collect::<Vec<_>>().await.unwrap_err();
                error.failure().cloned().unwrap()
            })
        };
        let mut rest = Bytes::from(stream);
        let whole = vec![rest.clone()];
        let mut chunks = Vec::new();
        for cut in cuts.into_iter().cycle() {
            if rest.is_empty() {
                break;
            }
            chunks.push(rest.split_to(cut.min(rest.len())));
        }

        let (expected, actual) = (judged(whole), judged(chunks));

        assert_eq!(actual.bound, Some(BoundName::BetweenEvents));
        assert_eq!(actual.frames, 4);
        assert_eq!(
            (actual.code, actual.bytes, actual.frames, actual.ages.output.as_secs()),
            (expected.code, expected.bytes, expected.frames, expected.ages.output.as_secs())
        );
    }
}
