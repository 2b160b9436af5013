//! Traces of calls, as a collector receives them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lifesign::clock;
use lifesign_gateway::traces::{CollectorUrl, OtlpProtocol, TraceSettings, Traces};
use lifesign_gateway::{CallEnded, Record, Records as _};
use lifesign_standin::Standin;
use lifesign_wire::Wire;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use pretty_assertions::assert_eq;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::collector::{Collector, Mood, Protocol, event, hex, number, said};
use crate::harness::{Ask, Gate, Setup, find, ms, sleep, upstream, wait_until};

async fn standin(script: &str) -> Standin {
    Standin::script(script).unwrap().start().await.unwrap()
}

fn setup(standin: &Standin, collector: &str, protocol: Protocol, more: &str) -> Setup {
    let settings = upstream("up", Wire::OPENAI_CHAT, &standin.url(), more);
    Setup::new(&settings)
        .set(&format!("telemetry.otlp_endpoint={collector}"))
        .set(&format!("telemetry.otlp_protocol={}", protocol.word()))
}

fn ask() -> Ask {
    Ask::stream(Wire::OPENAI_CHAT)
}

fn code(span: &Span) -> StatusCode {
    span.status.clone().unwrap_or_default().code()
}

/// Checks that the first span is a call's and the others are its attempts, inside of it in time.
#[track_caller]
fn assert_tree(spans: &[Span]) {
    let [call, attempts @ ..] = spans else {
        panic!("no span at all");
    };
    assert_eq!(call.kind(), SpanKind::Server);
    for (at, attempt) in attempts.iter().enumerate() {
        assert_eq!(attempt.kind(), SpanKind::Client);
        assert_eq!(attempt.trace_id, call.trace_id);
        assert_eq!(attempt.parent_span_id, call.span_id);
        assert_eq!(
            said(attempt, "lifesign.attempt.number"),
            (at + 1).to_string()
        );
        assert_eq!(
            said(attempt, "lifesign.call.id"),
            said(call, "lifesign.call.id")
        );
        assert!(attempt.start_time_unix_nano >= call.start_time_unix_nano);
        assert!(attempt.end_time_unix_nano >= attempt.start_time_unix_nano);
        assert!(attempt.end_time_unix_nano <= call.end_time_unix_nano);
    }
}

#[tokio::test]
async fn a_call_is_one_span_with_one_for_its_attempt_over_either_protocol() {
    for protocol in Protocol::BOTH {
        let standin = standin("status 200 sse; role; +0.05 answer \"ok\"").await;
        let collector = Collector::start(protocol).await;
        let gate = setup(&standin, &collector.url(), protocol, "")
            .start()
            .await;

        let got = gate.ask(&ask().field("\"max_tokens\":77")).await;

        let ended = gate.only_end().await;
        let spans = collector.spans(2).await;
        assert_tree(&spans);
        let [call, attempt] = &spans[..] else {
            panic!("{spans:#?}");
        };
        assert_eq!((&*call.name, &*attempt.name), ("chat m", "chat m"));
        assert!(call.parent_span_id.is_empty());
        for span in &spans {
            assert_eq!(code(span), StatusCode::Unset);
            assert_eq!(said(span, "gen_ai.operation.name"), "chat");
            assert_eq!(said(span, "gen_ai.provider.name"), "openai");
            assert_eq!(said(span, "gen_ai.request.max_tokens"), "77");
            assert_eq!(said(span, "gen_ai.request.stream"), "true");
            assert_eq!(
                Some(said(span, "gen_ai.response.model")),
                ended.answered_by,
                "{protocol:?}"
            );
            assert!(said(span, "gen_ai.response.finish_reasons").contains("stop"));
        }
        assert_eq!(
            got.header("x-lifesign-call"),
            Some(&*said(call, "lifesign.call.id"))
        );
        let tokens = ended.usage.unwrap().output_tokens.unwrap();
        assert_eq!(
            said(attempt, "gen_ai.usage.output_tokens"),
            tokens.to_string()
        );
        assert_eq!(said(attempt, "server.address"), "127.0.0.1");
        assert_eq!(
            said(attempt, "server.port"),
            standin.address().port().to_string()
        );
        let content: u64 = said(attempt, "lifesign.first_content_ms").parse().unwrap();
        assert!((45..2_000).contains(&content), "{content}");
        assert_eq!(said(call, "http.response.status_code"), "200");
    }
}

#[tokio::test]
async fn what_is_sent_says_which_process_it_is_and_carries_the_headers_that_were_set() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("headers");
    std::fs::write(&file, "api-key=se%20cret,x-team=a\n").unwrap();
    let standin = standin("answer \"ok\"").await;
    for protocol in Protocol::BOTH {
        let collector = Collector::start(protocol).await;
        let setup = setup(&standin, &collector.url(), protocol, "");
        let headers = format!("telemetry.otlp_headers=file:{}", file.display());
        let gate = setup.set(&headers).start().await;

        gate.ask(&ask()).await;

        collector.spans(2).await;
        let sent = collector.headers();
        assert_eq!(sent["api-key"], "se cret");
        assert_eq!(sent["x-team"], "a");
        let requests = collector.requests();
        let resource = requests[0].resource_spans[0].resource.clone().unwrap();
        let says = |key: &str| crate::collector::attribute(&resource.attributes, key);
        assert_eq!(says("service.name").as_deref(), Some("lifesign"));
        let version = Some(env!("CARGO_PKG_VERSION"));
        assert_eq!(says("service.version").as_deref(), version);
        assert!(says("service.instance.id").is_some());
    }
}

#[tokio::test]
async fn each_attempt_is_a_span_and_the_one_that_failed_says_why() {
    let script = "attempt 1: status 500 json; error server_error \"boom: hunter2\"; eof\n\
                  attempt 2: answer \"ok\"";
    let standin = standin(script).await;
    let collector = Collector::start(Protocol::Grpc).await;
    let setup = setup(&standin, &collector.url(), Protocol::Grpc, "");
    let gate = setup.set("retry.transport.first_delay=60ms").start().await;

    gate.ask(&ask()).await;

    let spans = collector.spans(3).await;
    assert_tree(&spans);
    let [call, first, second] = &spans[..] else {
        panic!("{spans:#?}");
    };
    assert_eq!(code(call), StatusCode::Unset);
    assert_eq!(said(call, "lifesign.attempts"), "2");
    assert_eq!(code(first), StatusCode::Error);
    assert_eq!(said(first, "error.type"), "provider_error");
    assert_eq!(said(first, "http.response.status_code"), "500");
    assert_eq!(
        first.status.as_ref().unwrap().message,
        "the provider reports an error of its own (500)"
    );
    assert_eq!(code(second), StatusCode::Unset);
    assert_eq!(said(second, "http.request.resend_count"), "1");
    assert!(first.end_time_unix_nano <= second.start_time_unix_nano);
    let wait = event(call, "lifesign.wait.retry");
    assert!(wait.time_unix_nano >= first.end_time_unix_nano);
    let waited = number(wait, "lifesign.waited_ms");
    assert!((20..2_000).contains(&waited), "{waited}");
    assert!(!format!("{spans:?}").contains("hunter2"));
}

#[tokio::test]
async fn a_cut_and_the_notices_before_it_are_events_of_the_attempt() {
    let standin = standin("status 200 sse; text \"a\"; hold").await;
    let collector = Collector::start(Protocol::Http).await;
    let gate = setup(&standin, &collector.url(), Protocol::Http, "")
        .set("bounds.raw_silence=500ms")
        .set("bounds.notice_after=200ms")
        .start()
        .await;

    gate.ask(&ask()).await;

    let spans = collector.spans(2).await;
    assert_tree(&spans);
    let [call, attempt] = &spans[..] else {
        panic!("{spans:#?}");
    };
    for span in &spans {
        assert_eq!(code(span), StatusCode::Error);
        assert_eq!(said(span, "error.type"), "raw_silent");
    }
    let notices = attempt.events.iter();
    let notices: Vec<_> = notices
        .filter(|event| event.name == "lifesign.notice")
        .collect();
    assert_eq!(notices.len(), 2, "{attempt:#?}");
    let quiet = number(notices[0], "lifesign.clock.content_ms");
    assert!((195..400).contains(&quiet), "{quiet}");
    let cut = event(attempt, "lifesign.cut");
    assert_eq!(cut.time_unix_nano, attempt.end_time_unix_nano);
    assert_eq!(number(cut, "lifesign.limit_ms"), 500);
    assert!(number(cut, "lifesign.clock.raw_ms") >= 500);
    let says = |key: &str| crate::collector::attribute(&cut.attributes, key).unwrap();
    assert_eq!(says("lifesign.bound"), "raw_silence");
    assert_eq!(says("lifesign.setting"), "bounds.raw_silence");
    assert_eq!(says("lifesign.origin"), "call");
    assert!(call.events.iter().all(|it| it.name != "lifesign.cut"));
}

#[tokio::test]
async fn a_turn_that_was_waited_for_is_an_event_of_the_call() {
    let script = "attempt 1: status 200 sse; text \"a\"; +0.2 finish \"stop\"; done; eof\n\
                  attempt 2: answer \"ok\"";
    let standin = standin(script).await;
    let collector = Collector::start(Protocol::Grpc).await;
    let setup = setup(
        &standin,
        &collector.url(),
        Protocol::Grpc,
        "concurrency = 1",
    );
    let gate = setup.start().await;
    let mut first = gate.begin(&ask()).await;
    first.until("\"a\"").await;

    let second = gate.begin(&ask()).await;
    first.rest().await;
    second.rest().await;

    let spans = collector.spans(4).await;
    let waits = spans.iter().filter(|span| !span.events.is_empty());
    let [waited] = waits.collect::<Vec<_>>()[..] else {
        panic!("{spans:#?}");
    };
    let turn = event(waited, "lifesign.wait.turn");
    let took = number(turn, "lifesign.waited_ms");
    assert!((20..2_000).contains(&took), "{took}");
    assert_eq!(said(waited, "lifesign.queued_ms"), took.to_string());
}

#[tokio::test]
async fn a_hold_is_an_event_of_who_raised_it_and_of_who_waited_for_it() {
    let script = "attempt 1: status 429 json [retry-after-ms: 300]; error rate_limit_error; eof\n\
                  attempt 2+: answer \"ok\"";
    let standin = standin(script).await;
    let collector = Collector::start(Protocol::Grpc).await;
    let setup = setup(&standin, &collector.url(), Protocol::Grpc, "");
    let gate = setup.set("retry.attempts=1").start().await;
    assert_eq!(gate.ask(&ask()).await.status, 429);

    assert_eq!(gate.ask(&ask()).await.status, 200);

    let spans = collector.spans(4).await;
    assert_tree(&spans[..2]);
    assert_tree(&spans[2..]);
    let raised = event(&spans[1], "lifesign.hold");
    assert_eq!(number(raised, "lifesign.hold_ms"), 300);
    let waited = event(&spans[2], "lifesign.wait.hold");
    let took = number(waited, "lifesign.waited_ms");
    assert!((100..=400).contains(&took), "{took}");
    let why = crate::collector::attribute(&waited.attributes, "lifesign.why");
    assert_eq!(why.as_deref(), Some("rate_limited"));
    assert!(spans[3].start_time_unix_nano >= waited.time_unix_nano + took * 1_000_000);
}

#[tokio::test]
async fn a_caller_who_leaves_is_told_and_is_no_error() {
    let standin = standin("status 200 sse; text \"a\"; hold").await;
    let collector = Collector::start(Protocol::Http).await;
    let setup = setup(&standin, &collector.url(), Protocol::Http, "");
    let gate = setup.start().await;
    let mut call = gate.begin(&ask()).await;
    call.until("\"a\"").await;

    drop(call);

    let spans = collector.spans(2).await;
    assert_tree(&spans);
    for span in &spans {
        assert_eq!(said(span, "error.type"), "cancelled");
        assert_eq!(code(span), StatusCode::Unset);
    }
    assert_eq!(said(&spans[0], "lifesign.outcome"), "cancelled");
}

#[tokio::test]
async fn a_call_that_nobody_was_asked_for_is_a_span_alone() {
    let standin = standin("answer \"ok\"").await;
    let collector = Collector::start(Protocol::Grpc).await;
    let models = "models = [\"others\"]";
    let gate = setup(&standin, &collector.url(), Protocol::Grpc, models)
        .start()
        .await;

    assert_eq!(gate.ask(&ask()).await.status, 404);

    let spans = collector.spans(1).await;
    assert_tree(&spans);
    assert_eq!(said(&spans[0], "error.type"), "rejected");
    assert_eq!(said(&spans[0], "http.response.status_code"), "404");
}

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[tokio::test]
async fn a_callers_trace_goes_on_through_two_gateways_to_the_provider() {
    let standin = standin("answer \"ok\"").await;
    let collector = Collector::start(Protocol::Grpc).await;
    let inner = setup(&standin, &collector.url(), Protocol::Grpc, "");
    let inner = inner.start().await;
    let outer = upstream("inner", Wire::OPENAI_CHAT, &inner.url(), "");
    let outer = Setup::new(&outer)
        .set(&format!("telemetry.otlp_endpoint={}", collector.url()))
        .set("telemetry.otlp_protocol=grpc")
        .start()
        .await;
    let asked = ask()
        .header("traceparent", PARENT)
        .header("tracestate", "vendor=1,other=2")
        .header("baggage", "user=7");

    outer.ask(&asked).await;

    let spans = collector.spans(4).await;
    let of = |kind, upstream: &str| {
        let mut spans = spans.iter();
        let found = spans
            .find(|span| span.kind() == kind && said(span, "lifesign.upstream.name") == upstream);
        found.unwrap()
    };
    let row = [
        of(SpanKind::Server, "inner"),
        of(SpanKind::Client, "inner"),
        of(SpanKind::Server, "up"),
        of(SpanKind::Client, "up"),
    ];
    assert_eq!(hex(&row[0].parent_span_id), "b7ad6b7169203331");
    for pair in row.windows(2) {
        assert_eq!(pair[1].parent_span_id, pair[0].span_id);
    }
    for span in row {
        assert_eq!(hex(&span.trace_id), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(span.trace_state, "vendor=1,other=2");
    }
    let seen = standin.requests().remove(0);
    let last = format!(
        "00-0af7651916cd43dd8448eb211c80319c-{}-01",
        hex(&row[3].span_id)
    );
    assert_eq!(seen.header("traceparent"), Some(&*last));
    assert_eq!(seen.header("tracestate"), Some("vendor=1,other=2"));
    assert_eq!(seen.header("baggage"), Some("user=7"));
}

#[tokio::test]
async fn a_trace_that_its_caller_does_not_want_is_handed_on_and_not_sent() {
    let standin = standin("answer \"ok\"").await;
    let collector = Collector::start(Protocol::Http).await;
    let setup = setup(&standin, &collector.url(), Protocol::Http, "");
    let gate = setup.start().await;
    let unwanted = PARENT.replace("-01", "-00");

    gate.ask(&ask().header("traceparent", &unwanted)).await;
    gate.ask(&ask()).await;

    // The first would have come with the second.
    collector.spans(2).await;
    let seen = standin.requests().remove(0);
    let handed_on = seen.header("traceparent").unwrap();
    assert_ne!(handed_on, unwanted);
    assert!(handed_on.starts_with("00-0af7651916cd43dd8448eb211c80319c-"));
    assert!(handed_on.ends_with("-00"));
}

#[tokio::test]
async fn without_traces_the_headers_of_a_trace_pass_as_they_are() {
    let standin = standin("answer \"ok\"").await;
    let gate = Gate::start(&upstream("up", Wire::OPENAI_CHAT, &standin.url(), "")).await;

    gate.ask(
        &ask()
            .header("traceparent", PARENT)
            .header("tracestate", "a=1"),
    )
    .await;
    gate.ask(&ask()).await;

    let [with, without] = standin.requests().try_into().unwrap();
    assert_eq!(with.header("traceparent"), Some(PARENT));
    assert_eq!(with.header("tracestate"), Some("a=1"));
    assert_eq!(without.header("traceparent"), None);
    assert!(gate.first_start().trace.is_none());
    let metrics = gate.ask(&Ask::get("/metrics")).await.text();
    assert!(!metrics.contains("lifesign_spans"), "{metrics}");
}

async fn metric(gate: &Gate, series: &str) -> u64 {
    let metrics = gate.ask(&Ask::get("/metrics")).await.text();
    let line = metrics.lines().find_map(|line| line.strip_prefix(series));
    let value = line.unwrap_or_else(|| panic!("no {series} in {metrics}"));
    value.trim().parse().unwrap()
}

async fn eventually(gate: &Gate, series: &str, expected: u64) {
    for _ in 0..4_000 {
        if metric(gate, series).await == expected {
            return;
        }
        sleep(ms(5)).await;
    }
    panic!("{series} is never {expected}");
}

#[tokio::test]
async fn a_collector_that_is_gone_or_hangs_or_refuses_slows_and_fails_no_call() {
    let standin = standin("answer \"ok\"").await;
    for protocol in Protocol::BOTH {
        for mood in [None, Some(Mood::Hang), Some(Mood::Refuse), Some(Mood::Busy)] {
            let collector = Collector::start(protocol).await;
            let url = collector.url();
            match mood {
                Some(mood) => collector.set_mood(mood),
                None => drop(collector),
            }
            let gate = setup(&standin, &url, protocol, "").start().await;
            let began = clock::now();

            for _ in 0..20 {
                let got = gate.ask(&ask()).await;
                assert_eq!((got.status, &*got.answer()), (200, "ok"));
            }

            let took = began.elapsed();
            assert!(took < ms(3_000), "{protocol:?} {mood:?}: {took:?}");
            if mood != Some(Mood::Hang) {
                eventually(&gate, r#"lifesign_traces_state{state="failing"}"#, 1).await;
            }
            if mood == Some(Mood::Refuse) {
                eventually(&gate, r#"lifesign_spans_total{outcome="refused"}"#, 40).await;
            }
        }
    }
}

#[tokio::test]
async fn what_a_collector_did_not_take_goes_to_it_once_it_does() {
    for protocol in Protocol::BOTH {
        let standin = standin("answer \"ok\"").await;
        let collector = Collector::start(protocol).await;
        collector.set_mood(Mood::Busy);
        let setup = setup(&standin, &collector.url(), protocol, "");
        let gate = setup.start().await;
        gate.ask(&ask()).await;
        wait_until(|| collector.asked() == 1).await;
        eventually(&gate, r#"lifesign_traces_state{state="failing"}"#, 1).await;

        collector.set_mood(Mood::Take);

        assert_tree(&collector.spans(2).await);
        eventually(&gate, r#"lifesign_traces_state{state="exporting"}"#, 1).await;
        eventually(&gate, r#"lifesign_spans_total{outcome="exported"}"#, 2).await;
        assert_eq!(
            metric(&gate, r#"lifesign_spans_total{outcome="dropped"}"#).await,
            0
        );
    }
}

/// A collector that had closed its connection was told as one that fails, for the moment until the
/// next try.
#[tokio::test]
async fn a_connection_that_the_collector_has_given_up_is_replaced_unseen() {
    let standin = standin("answer \"ok\"").await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let collector = tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            // It answers once, and goes when it is asked again.
            for answer in ["HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", ""] {
                read_request(&mut socket).await;
                count.fetch_add(1, Ordering::SeqCst);
                socket.write_all(answer.as_bytes()).await.unwrap();
            }
        }
    });
    let gate = setup(&standin, &url, Protocol::Http, "").start().await;
    let exported = r#"lifesign_spans_total{outcome="exported"}"#;
    gate.ask(&ask()).await;
    eventually(&gate, exported, 2).await;

    gate.ask(&ask()).await;

    while metric(&gate, exported).await < 4 {
        let failing = r#"lifesign_traces_state{state="failing"}"#;
        assert_eq!(metric(&gate, failing).await, 0);
        sleep(ms(5)).await;
    }
    assert_eq!(asked.load(Ordering::SeqCst), 3);
    collector.abort();
}

/// Reads a request with a body of a stated length.
async fn read_request(socket: &mut TcpStream) {
    let mut read = Vec::new();
    let mut piece = [0; 4096];
    loop {
        if let Some(end) = find(&read, b"\r\n\r\n") {
            let head = String::from_utf8(read[..end].to_vec()).unwrap();
            let mut lines = head.lines();
            let len = lines.find_map(|line| line.strip_prefix("content-length: "));
            if read.len() >= end + 4 + len.unwrap().parse::<usize>().unwrap() {
                return;
            }
        }
        let len = socket.read(&mut piece).await.unwrap();
        assert_ne!(len, 0, "the exporter left in mid-request");
        read.extend_from_slice(&piece[..len]);
    }
}

#[tokio::test]
async fn the_last_spans_are_sent_before_the_gateway_ends() {
    let standin = standin("answer \"ok\"").await;
    let collector = Collector::start(Protocol::Grpc).await;
    let setup = setup(&standin, &collector.url(), Protocol::Grpc, "");
    let mut gate = setup.start().await;
    gate.ask(&ask()).await;
    gate.only_end().await;

    gate.stopper.drain(ms(1_000));
    gate.stopped().await;

    // Nothing was left for later.
    assert_eq!(collector.all().len(), 2);
}

#[tokio::test]
async fn a_program_sends_traces_of_its_own_accord() {
    let standin = standin("answer \"ok\"").await;
    let collector = Collector::start(Protocol::Http).await;
    let url = CollectorUrl::parse(&collector.url()).unwrap();
    let settings = TraceSettings::new(url, OtlpProtocol::HttpProtobuf)
        .with_resource("service.name=other,deployment.environment.name=test%20bed")
        .unwrap();
    let traces = Arc::new(Traces::start(&settings).unwrap());
    let settings = upstream("up", Wire::OPENAI_CHAT, &standin.url(), "");
    let gate = Setup::new(&settings)
        .start_with(vec![Arc::clone(&traces) as _])
        .await;

    gate.ask(&ask()).await;
    let ended: CallEnded = gate.only_end().await;
    assert!(
        tokio::task::spawn_blocking(move || {
            let is_whole = traces.close();
            // It is too late for more.
            traces.record(&Record::Ended(Box::new(ended)));
            assert_eq!(traces.health().dropped, 1);
            is_whole
        })
        .await
        .unwrap()
    );

    let spans = collector.all();
    assert_eq!(spans.len(), 2);
    let requests = collector.requests();
    let resource = requests[0].resource_spans[0].resource.clone().unwrap();
    let says = |key: &str| crate::collector::attribute(&resource.attributes, key);
    assert_eq!(says("service.name").as_deref(), Some("other"));
    assert_eq!(
        says("deployment.environment.name").as_deref(),
        Some("test bed")
    );
}
