//! What records are as spans, read with the official messages.

use lifesign_core::{Failure, Phase};
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1 as official;
use pretty_assertions::assert_eq;
use prost::Message as _;

use super::*;
use crate::traces::sample::{CALL, PARENT, attempt, cut_failure, ended, started, trace};

/// Returns the span of a record as everybody else reads it.
fn read(record: &Record) -> official::Span {
    assert!(is_seen(record));
    let ours = of(record).unwrap().encode_to_vec();
    official::Span::decode(&*ours).unwrap()
}

fn shown(value: Option<AnyValue>) -> String {
    match value.and_then(|value| value.value) {
        Some(any_value::Value::StringValue(text)) => text,
        Some(any_value::Value::BoolValue(flag)) => flag.to_string(),
        Some(any_value::Value::IntValue(integer)) => integer.to_string(),
        Some(any_value::Value::DoubleValue(double)) => format!("{double}s"),
        Some(any_value::Value::ArrayValue(array)) => {
            let values = array.values.into_iter().map(|value| shown(Some(value)));
            format!("[{}]", values.collect::<Vec<_>>().join(", "))
        }
        other => panic!("{other:?}"),
    }
}

fn lines(attributes: Vec<KeyValue>) -> Vec<String> {
    let attributes = attributes.into_iter();
    attributes
        .map(|KeyValue { key, value, .. }| format!("{key} = {}", shown(value)))
        .collect()
}

/// Returns a moment as milliseconds since the call began.
fn since(nanos: u64) -> u64 {
    (nanos - 1_000_000_000_000) / 1_000_000
}

#[test]
fn a_call_is_a_span_of_a_server_below_its_caller_with_its_waits_as_events() {
    let trace = trace(PARENT);
    let span = read(&Record::Ended(Box::new(ended(trace.clone(), None))));

    assert_eq!(span.name, "chat gpt");
    assert_eq!(span.kind(), official::span::SpanKind::Server);
    assert_eq!(span.trace_id, trace.trace_id.as_bytes());
    assert_eq!(span.span_id, trace.span_id.as_bytes());
    assert_eq!(
        span.parent_span_id,
        trace.parent_span_id.unwrap().as_bytes()
    );
    assert_eq!(span.trace_state, "a=1");
    assert_eq!(span.flags, 0x301);
    assert_eq!(span.status.unwrap_or_default().code, 0);
    assert_eq!(since(span.start_time_unix_nano), 0);
    assert_eq!(since(span.end_time_unix_nano), 6_000);
    assert_eq!(
        lines(span.attributes),
        [
            "http.request.method = POST",
            "url.path = /v1/chat/completions",
            "http.response.status_code = 200",
            "gen_ai.operation.name = chat",
            "gen_ai.request.model = gpt",
            "gen_ai.provider.name = openai",
            "gen_ai.request.stream = true",
            "gen_ai.request.max_tokens = 4096",
            "gen_ai.response.id = answer-1",
            "gen_ai.response.model = gpt-1",
            "gen_ai.response.finish_reasons = [stop]",
            &format!("lifesign.call.id = {CALL}"),
            "lifesign.outcome = completed",
            "lifesign.wire = openai-chat",
            "lifesign.key.name = team",
            "lifesign.upstream.name = first",
            "lifesign.upstream.model = theirs",
            "lifesign.profile = progress",
            "lifesign.attempts = 0",
            "lifesign.queued_ms = 250",
            "lifesign.held_ms = 0",
            "lifesign.retry_wait_ms = 500",
            "lifesign.beats = 2",
            "lifesign.bytes_out = 99",
        ]
    );
    let events = span.events.into_iter();
    let events: Vec<_> = events
        .map(|event| {
            (
                event.name,
                since(event.time_unix_nano),
                lines(event.attributes),
            )
        })
        .collect();
    let attributes = |lines: &[&str]| lines.iter().map(|&it| it.to_owned()).collect();
    assert_eq!(
        events,
        [
            (
                "lifesign.wait.turn".to_owned(),
                1,
                attributes(&["lifesign.waited_ms = 250", "lifesign.upstream.name = first"]),
            ),
            (
                "lifesign.wait.retry".to_owned(),
                300,
                attributes(&[
                    "lifesign.waited_ms = 500",
                    "lifesign.upstream.name = first",
                    "lifesign.why = raw_silent",
                ]),
            ),
        ]
    );
}

#[test]
fn an_attempt_is_a_span_of_a_client_below_its_call_with_what_it_used() {
    let trace = trace(PARENT);
    let attempt = attempt(trace.clone(), None);
    let own = attempt.trace.clone().unwrap().span_id;

    let span = read(&Record::Attempt(Box::new(attempt)));

    assert_eq!(span.name, "chat theirs");
    assert_eq!(span.kind(), official::span::SpanKind::Client);
    assert_eq!(span.trace_id, trace.trace_id.as_bytes());
    assert_eq!(span.span_id, own.as_bytes());
    assert_eq!(span.parent_span_id, trace.span_id.as_bytes());
    assert_eq!(span.flags, 0x101);
    assert_eq!(span.status.unwrap_or_default().code, 0);
    assert_eq!(since(span.start_time_unix_nano), 1_000);
    assert_eq!(since(span.end_time_unix_nano), 5_000);
    assert_eq!(
        lines(span.attributes),
        [
            "server.address = api.example",
            "server.port = 443",
            "http.response.status_code = 200",
            "http.request.resend_count = 1",
            "gen_ai.operation.name = chat",
            "gen_ai.request.model = theirs",
            "gen_ai.provider.name = openai",
            "gen_ai.request.stream = true",
            "gen_ai.request.max_tokens = 4096",
            "gen_ai.response.id = answer-1",
            "gen_ai.response.model = gpt-1",
            "gen_ai.response.finish_reasons = [stop]",
            "gen_ai.response.time_to_first_chunk = 0.5s",
            "gen_ai.usage.input_tokens = 10",
            "gen_ai.usage.output_tokens = 20",
            "gen_ai.usage.reasoning.output_tokens = 5",
            &format!("lifesign.call.id = {CALL}"),
            "lifesign.attempt.number = 2",
            "lifesign.upstream.name = first",
            "lifesign.profile = progress",
            "lifesign.phase = ended",
            "lifesign.request_id = request-1",
            "lifesign.waited_ms = 500",
            "lifesign.sent_ms = 100",
            "lifesign.headers_ms = 200",
            "lifesign.first_byte_ms = 500",
            "lifesign.first_content_ms = 2100",
            "lifesign.bytes = 1000",
            "lifesign.frames = 40",
            "lifesign.heartbeats.provider = 1",
            "lifesign.heartbeats.comment = 2",
            "lifesign.heartbeats.proxy = 3",
            "lifesign.notices = 2",
            "lifesign.late_ms = 0",
            "lifesign.longest_gap.raw_ms = 1600",
            "lifesign.longest_gap.event_ms = 1600",
            "lifesign.longest_gap.content_ms = 1600",
            "lifesign.longest_gap.output_ms = 1600",
        ]
    );
    let [notice] = span.events.try_into().unwrap();
    assert_eq!(notice.name, "lifesign.notice");
    assert_eq!(since(notice.time_unix_nano), 2_000);
    assert_eq!(
        lines(notice.attributes),
        [
            "lifesign.notice.number = 1",
            "lifesign.phase = before_content",
            "lifesign.clock.raw_ms = 900",
            "lifesign.clock.event_ms = 900",
            "lifesign.clock.content_ms = 900",
            "lifesign.clock.output_ms = 900",
        ]
    );
    // Of two notices one was kept.
    assert_eq!(span.dropped_events_count, 1);
}

#[test]
fn a_cut_is_an_error_and_an_event_that_tells_which_setting_to_change() {
    let span = read(&Record::Attempt(Box::new(attempt(
        trace(PARENT),
        Some(&cut_failure()),
    ))));

    let status = span.status.unwrap();
    assert_eq!(status.code(), official::status::StatusCode::Error);
    assert_eq!(status.message, cut_failure().message());
    let cut = &span.events[1];
    assert_eq!(cut.name, "lifesign.cut");
    assert_eq!(since(cut.time_unix_nano), 5_000);
    assert_eq!(
        lines(cut.attributes.clone()),
        [
            "lifesign.bound = raw_silence",
            "lifesign.limit_ms = 1900",
            "lifesign.setting = bounds.raw_silence",
            "lifesign.origin = call",
            "lifesign.phase = after_content",
            "lifesign.code = raw_silent",
            "lifesign.clock.raw_ms = 1900",
            "lifesign.clock.event_ms = 1900",
            "lifesign.clock.content_ms = 1900",
            "lifesign.clock.output_ms = 1900",
        ]
    );
    assert!(lines(span.attributes).contains(&"error.type = raw_silent".to_owned()));
}

#[test]
fn what_cut_a_call_stands_at_the_attempt_or_where_none_was_made_at_the_call() {
    let mut with_attempt = ended(trace(PARENT), Some(&cut_failure()));
    let cut = attempt(trace(PARENT), Some(&cut_failure()));
    with_attempt.attempts = vec![cut.attempt];
    let without = ended(trace(PARENT), Some(&cut_failure()));

    let cuts = |ended: CallEnded| {
        let span = read(&Record::Ended(Box::new(ended)));
        let events = span.events.iter();
        events.filter(|event| event.name == "lifesign.cut").count()
    };

    assert_eq!(cuts(with_attempt), 0);
    assert_eq!(cuts(without), 1);
}

#[test]
fn a_refusal_for_load_with_a_wait_is_a_hold_that_was_raised() {
    let mut failure = Failure::new(FailureCode::RateLimited, Phase::BeforeContent);
    failure.retry_after = Some(Duration::from_secs(7));

    let span = read(&Record::Attempt(Box::new(attempt(
        trace(PARENT),
        Some(&failure),
    ))));

    let hold = &span.events[1];
    assert_eq!(hold.name, "lifesign.hold");
    assert_eq!(
        lines(hold.attributes.clone()),
        [
            "lifesign.hold_ms = 7000",
            "lifesign.upstream.name = first",
            "lifesign.why = rate_limited",
        ]
    );
}

#[test]
fn what_the_caller_did_is_no_error_of_the_gateway() {
    for (code, of_call, of_attempt) in [
        (FailureCode::Cancelled, false, false),
        (FailureCode::Rejected, false, true),
        (FailureCode::ProviderError, true, true),
        (FailureCode::QueueFull, true, true),
    ] {
        let failure = Failure::new(code, Phase::BeforeContent);
        let call = ended(trace(PARENT), Some(&failure));
        let attempt = attempt(trace(PARENT), Some(&failure));

        let call = read(&Record::Ended(Box::new(call)));
        let attempt = read(&Record::Attempt(Box::new(attempt)));

        let is_error = |span: &official::Span| span.status.as_ref().is_some_and(|it| it.code == 2);
        assert_eq!(is_error(&call), of_call, "{code:?}");
        assert_eq!(is_error(&attempt), of_attempt, "{code:?}");
        let named = format!("error.type = {}", code.name());
        assert!(lines(call.attributes).contains(&named));
    }
}

#[test]
fn what_a_provider_says_of_a_request_is_in_no_span() {
    let mut failure = Failure::new(FailureCode::Rejected, Phase::BeforeContent);
    failure.status = Some(400);
    failure.provider_message = Some("no such word: hunter2".to_owned());
    assert!(failure.message().contains("hunter2"));

    let call = Record::Ended(Box::new(ended(trace(PARENT), Some(&failure))));
    let attempt = Record::Attempt(Box::new(attempt(trace(PARENT), Some(&failure))));

    for record in [call, attempt] {
        assert!(!format!("{:?}", read(&record)).contains("hunter2"));
    }
}

#[test]
fn what_is_no_work_of_a_model_is_named_after_its_method_alone() {
    let mut call = ended(trace(PARENT), None);
    call.started.route = "/v1/files/file-abc".to_owned();
    call.started.method = "GET".to_owned();

    let span = read(&Record::Ended(Box::new(call)));

    assert_eq!(span.name, "GET");
    let lines = lines(span.attributes);
    assert!(
        !lines
            .iter()
            .any(|line| line.starts_with("gen_ai.operation"))
    );
    assert!(lines.contains(&"url.path = /v1/files/file-abc".to_owned()));
}

#[test]
fn a_trace_that_begins_here_has_no_parent_and_one_that_nobody_wants_no_span() {
    let own = CallTrace::of(&http::HeaderMap::new());
    let span = read(&Record::Ended(Box::new(ended(own, None))));
    assert!(span.parent_span_id.is_empty());
    assert_eq!(span.flags, 0x101);

    let unsampled = trace(&PARENT.replace("-01", "-00"));
    let mut untraced = ended(unsampled.clone(), None);
    untraced.started.trace = None;
    for record in [
        Record::Ended(Box::new(ended(unsampled.clone(), None))),
        Record::Attempt(Box::new(attempt(unsampled, None))),
        Record::Ended(Box::new(untraced)),
        Record::Started(started(trace(PARENT))),
    ] {
        assert!(!is_seen(&record));
        assert_eq!(of(&record), None);
    }
}
