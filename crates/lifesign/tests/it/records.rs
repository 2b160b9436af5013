//! What a client tells whoever keeps records of its calls.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lifesign::records::{AttemptEnded, CallEnded, CallStarted, CutPoint, Record, Records, WaitFor};
use lifesign::{
    CallEvent, CallRequest, CallStream, Client, Clock, FailureCode, Outcome, Phase, Upstream,
};
use lifesign_standin::Standin;
use lifesign_wire::{Request, Wire};
use pretty_assertions::assert_eq;

/// Keeps what it is told.
#[derive(Default)]
struct Kept(Mutex<Vec<Record>>);

impl Records for Kept {
    fn record(&self, record: &Record) {
        self.0.lock().unwrap().push(record.clone());
    }
}

impl Kept {
    /// Returns what was told of the only call: its start, its attempts, and its one end, in order.
    #[track_caller]
    fn call(&self) -> (CallStarted, Vec<AttemptEnded>, CallEnded) {
        let mut records = self.0.lock().unwrap().clone();
        let Some(Record::Ended(end)) = records.pop() else {
            panic!("no end: {records:?}");
        };
        let mut records = records.into_iter();
        let Some(Record::Started(start)) = records.next() else {
            panic!("no start");
        };
        let attempts = records.map(|record| match record {
            Record::Attempt(attempt) => *attempt,
            other => panic!("{other:?} among attempts"),
        });
        (start, attempts.collect(), *end)
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

/// A client, and what it tells of its calls.
fn client() -> (Client, Arc<Kept>) {
    let kept = Arc::new(Kept::default());
    let client = Client::new().unwrap().with_records(Arc::clone(&kept) as _);
    (client, kept)
}

async fn play(script: &str) -> Standin {
    Standin::script(script).unwrap().start().await.unwrap()
}

fn ask(standin: &Standin, sets: &[(&str, &str)]) -> CallRequest {
    let upstream = Upstream::new(Wire::OPENAI_CHAT, &standin.url())
        .unwrap()
        .with_name("house");
    let mut request = CallRequest::new(upstream, Request::prompt("m", "hello"));
    for (key, value) in sets {
        request = request.set(key, value).unwrap();
    }
    request
}

/// Reads on until there is text.
async fn read_text(call: &mut CallStream) {
    while let Some(item) = call.next().await {
        if matches!(item, Ok(CallEvent::Text(_))) {
            return;
        }
    }
    panic!("no text");
}

#[tokio::test]
async fn a_call_is_told_with_the_gaps_of_every_attempt_and_what_it_waited() {
    let script = "attempt 1: status 200 sse; hold\n\
                  attempt 2+: status 200 sse; role; +0.3 text \"a\"; \
                  usage {\"prompt_tokens\":5,\"completion_tokens\":2}; finish \"stop\"; done; eof";
    let standin = play(script).await;
    let (client, kept) = client();
    let sets = [
        ("bounds.raw_silence", "500ms"),
        ("retry.transport.first_delay", "50ms"),
    ];

    let answered = client.answer(ask(&standin, &sets)).await.unwrap();

    let (start, attempts, end) = kept.call();
    assert_eq!(start.id, answered.id);
    assert_eq!(start.key, None);
    assert_eq!(
        (start.route.as_str(), start.wire.as_str(), start.streamed),
        ("/v1/chat/completions", "openai-chat", true)
    );
    let outcomes: Vec<_> = attempts.iter().map(|it| it.attempt.clone()).collect();
    assert_eq!(outcomes, answered.attempts);
    assert_eq!(end.attempts, outcomes);
    let elapsed_ms = u64::try_from(answered.elapsed.as_millis()).unwrap();
    assert_eq!(end.elapsed_ms, elapsed_ms);
    let [silent, whole] = attempts.as_slice() else {
        panic!("{attempts:?}");
    };
    let failure = silent.failure.as_ref().unwrap();
    assert_eq!(failure.setting.as_deref(), Some("bounds.raw_silence"));
    assert_eq!(silent.cut_point, None);
    let gap = |attempt: &AttemptEnded, clock| attempt.gaps.longest(Phase::BeforeContent, clock);
    assert!(gap(silent, Clock::Raw) >= Duration::from_millis(500));
    assert!((300..500).contains(&gap(whole, Clock::Content).as_millis()));
    assert!(whole.began_ms >= silent.attempt.ended_ms + 50);
    assert_eq!(
        (whole.profile.as_str(), &whole.failure),
        ("progress", &None)
    );
    assert_eq!(end.outcome, Outcome::Completed);
    assert_eq!(end.upstream.as_deref(), Some("house"));
    assert_eq!(end.upstream_model.as_deref(), Some("m"));
    assert_eq!(end.profile.as_deref(), Some("progress"));
    assert_eq!(end.usage.unwrap().output_tokens, Some(2));
    assert_eq!(end.finish_reason.as_deref(), Some("stop"));
    assert_eq!((end.status, end.held_ms), (None, 0));
    assert!((50..500).contains(&end.retry_wait_ms), "{end:?}");
    let [wait] = end.waits.as_slice() else {
        panic!("{:?}", end.waits);
    };
    assert_eq!(
        (wait.wait, wait.why, wait.upstream.as_deref()),
        (WaitFor::Retry, Some(FailureCode::RawSilent), Some("house"))
    );
    // Each is rounded down for itself.
    let waited_ms = wait.ended_ms - wait.began_ms;
    assert!(waited_ms.abs_diff(end.retry_wait_ms) <= 1, "{end:?}");
    assert_eq!(
        (silent.asked.host.as_str(), silent.asked.provider),
        ("127.0.0.1", "openai")
    );
    assert_eq!(whole.answered.finish_reason.as_deref(), Some("stop"));
}

#[tokio::test]
async fn notices_are_told_with_the_attempt_in_which_the_content_was_quiet() {
    let standin = play("status 200 sse; role; repeat 0.05 { comment } x8; answer \"ok\"").await;
    let (client, kept) = client();

    let request = ask(&standin, &[("bounds.notice_after", "150ms")]);
    client.answer(request).await.unwrap();

    let (_, attempts, _) = kept.call();
    let quiet = &attempts[0].quiet;
    assert_eq!(
        quiet.len(),
        usize::try_from(attempts[0].attempt.notices).unwrap()
    );
    assert_eq!((quiet[0].number, quiet[0].phase), (1, Phase::BeforeContent));
    assert!(quiet[0].clocks_ms.content >= Duration::from_millis(150));
}

#[tokio::test]
async fn a_call_that_is_dropped_ends_as_cancelled_and_says_where_the_answer_broke_off() {
    let standin = play("status 200 sse; role; text \"First\"; hold").await;
    let (client, kept) = client();
    let mut call = client.stream(ask(&standin, &[]));
    read_text(&mut call).await;
    assert_eq!(kept.count(), 1, "its start is told at once");

    drop(call);

    let (_, attempts, end) = kept.call();
    assert_eq!(end.outcome, Outcome::Cancelled);
    let [attempt] = attempts.as_slice() else {
        panic!("{attempts:?}");
    };
    let cut = attempt.cut_point.unwrap();
    assert_eq!(
        cut,
        CutPoint {
            bytes: attempt.attempt.bytes,
            frames: 2,
            last_content_ms: cut.last_content_ms,
            sequence: None,
        }
    );
    let first = attempt.attempt.first_content_ms.unwrap();
    assert!(cut.last_content_ms >= first && cut.last_content_ms <= first + 20);
}

#[tokio::test]
async fn a_call_that_is_cancelled_by_word_ends_once() {
    let standin = play("status 200 sse; role; text \"First\"; hold").await;
    let (client, kept) = client();
    let mut call = client.stream(ask(&standin, &[]));
    read_text(&mut call).await;

    let failed = call.cancel().unwrap();

    let (_, attempts, end) = kept.call();
    assert_eq!((attempts.len(), end.outcome), (1, Outcome::Cancelled));
    assert_eq!(end.attempts, failed.attempts);
}

#[tokio::test]
async fn a_call_that_is_dropped_behind_a_hold_tells_how_long_it_waited_there() {
    let script = "status 429 json [retry-after: 20]; error rate_limit_error; eof";
    let standin = play(script).await;
    let (client, kept) = client();
    let mut first = client.stream(ask(&standin, &[]));
    assert!(matches!(
        first.next().await,
        Some(Ok(CallEvent::Retrying { .. }))
    ));
    kept.0.lock().unwrap().clear();
    let mut second = client.stream(ask(&standin, &[]));
    assert!(matches!(
        second.next().await,
        Some(Ok(CallEvent::Holding { .. }))
    ));
    tokio::time::sleep(Duration::from_millis(60)).await;

    drop(second);

    let (_, attempts, end) = kept.call();
    assert_eq!((attempts.len(), end.outcome), (0, Outcome::Cancelled));
    assert!((60..5_000).contains(&end.held_ms), "{end:?}");
    assert_eq!((end.retry_wait_ms, end.profile), (0, None));
}

#[tokio::test]
async fn a_call_that_is_refused_before_anything_is_sent_is_not_told() {
    let standin = play("answer \"ok\"").await;
    let (client, kept) = client();
    let request = ask(&standin, &[("limits.request", "10 B")]);

    let failed = client.answer(request).await.unwrap_err();

    assert_eq!(failed.failure.code.name(), "too_large");
    assert_eq!(kept.count(), 0);
}
