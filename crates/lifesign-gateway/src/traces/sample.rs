//! Records of a call, for tests.

use std::time::Duration;

use jiff::Timestamp;
use lifesign::Outcome;
use lifesign::trace_context::{AttemptTrace, CallTrace, SpanId};
use lifesign_core::{
    Ages, AttemptRecord, BoundName, Failure, FailureCode, FailureReport, Gaps, Heartbeats, Origin,
    Phase, Tally, Usage,
};

use crate::records::{
    Answered, Asked, AttemptEnded, BeatForms, CallEnded, CallStarted, Quiet, Wait, WaitFor,
};

pub(super) const CALL: &str = "01890000-0000-7000-8000-000000000001";
pub(super) const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

pub(super) fn trace(parent: &str) -> CallTrace {
    let mut headers = http::HeaderMap::new();
    headers.insert("traceparent", parent.parse().unwrap());
    headers.insert("tracestate", "a=1".parse().unwrap());
    CallTrace::of(&headers)
}

pub(super) fn started(trace: CallTrace) -> CallStarted {
    CallStarted {
        id: CALL.to_owned(),
        at: Timestamp::from_second(1_000).unwrap(),
        key: Some("team".to_owned()),
        method: "POST".to_owned(),
        route: "/v1/chat/completions".to_owned(),
        wire: "openai-chat".to_owned(),
        model: Some("gpt".to_owned()),
        max_tokens: Some(4_096),
        streamed: true,
        trace: Some(Box::new(trace)),
    }
}

fn usage() -> Usage {
    Usage {
        input_tokens: Some(10),
        output_tokens: Some(20),
        cached_input_tokens: None,
        reasoning_tokens: Some(5),
    }
}

pub(super) fn ended(trace: CallTrace, failure: Option<&Failure>) -> CallEnded {
    let outcome = failure.map(|failure| failure.code.into());
    CallEnded {
        started: started(trace),
        outcome: outcome.unwrap_or(Outcome::Completed),
        failure: failure.map(FailureReport::from),
        upstream: Some("first".to_owned()),
        provider: Some("openai"),
        upstream_model: Some("theirs".to_owned()),
        profile: Some("progress".to_owned()),
        answered_by: Some("gpt-1".to_owned()),
        answer_id: Some("answer-1".to_owned()),
        finish_reason: Some("stop".to_owned()),
        usage: Some(usage()),
        attempts: Vec::new(),
        status: Some(200),
        elapsed_ms: 6_000,
        queued_ms: 250,
        held_ms: 0,
        retry_wait_ms: 500,
        waits: vec![
            Wait {
                wait: WaitFor::Turn,
                upstream: Some("first".to_owned()),
                why: None,
                began_ms: 1,
                ended_ms: 251,
            },
            Wait {
                wait: WaitFor::Retry,
                upstream: Some("first".to_owned()),
                why: Some(FailureCode::RawSilent),
                began_ms: 300,
                ended_ms: 800,
            },
        ],
        beats: 2,
        beat_forms: BeatForms::default(),
        bytes_out: 99,
    }
}

/// The second attempt, which began at 1 s, was sent at 1.1 s, brought content at 3.1 s and ended at
/// 5 s.
pub(super) fn attempt(trace: CallTrace, failure: Option<&Failure>) -> AttemptEnded {
    let ms = Duration::from_millis;
    let tally = Tally {
        bytes: 1_000,
        frames: 40,
        heartbeats: Heartbeats {
            provider: 1,
            comment: 2,
            proxy: 3,
        },
        notices: 2,
        sent: Some(ms(1_100)),
        headers: Some(ms(1_200)),
        first_byte: Some(ms(1_500)),
        first_content: Some(ms(3_100)),
        ended: Some(ms(5_000)),
        longest_gap: Ages::of(|_| ms(1_600)),
        ..Tally::default()
    };
    let mut record = AttemptRecord::new(2, "first", Phase::Ended, &tally, ms(500));
    record.status = Some(200);
    record.request_id = Some("request-1".to_owned());
    if let Some(failure) = failure {
        record = record.failed(failure);
    }
    record.usage = Some(usage());
    AttemptEnded {
        call: CALL.to_owned(),
        call_at: Timestamp::from_second(1_000).unwrap(),
        at: Timestamp::from_second(1_005).unwrap(),
        attempt: record,
        route: "/v1/chat/completions".to_owned(),
        began_ms: 1_000,
        model: Some("theirs".to_owned()),
        profile: "progress".to_owned(),
        failure: failure.map(FailureReport::from),
        cut_point: None,
        gaps: Gaps::default(),
        asked: Asked {
            provider: "openai",
            host: "api.example".to_owned(),
            port: 443,
            method: "POST".to_owned(),
            streamed: true,
            max_tokens: Some(4_096),
        },
        answered: Answered {
            id: Some("answer-1".to_owned()),
            model: Some("gpt-1".to_owned()),
            finish_reason: Some("stop".to_owned()),
        },
        quiet: vec![Quiet {
            at_ms: 2_000,
            number: 1,
            phase: Phase::BeforeContent,
            clocks_ms: Ages::of(|_| ms(900)),
        }],
        trace: Some(AttemptTrace {
            span_id: SpanId::random(),
            call: trace,
        }),
    }
}

pub(super) fn cut_failure() -> Failure {
    let mut failure = Failure::new(FailureCode::RawSilent, Phase::AfterContent);
    failure.bound = Some(BoundName::RawSilence);
    failure.limit = Some(Duration::from_millis(1_900));
    failure.origin = Some(Origin::Call);
    failure.status = Some(200);
    failure.request_id = Some("request-1".to_owned());
    failure.ages = Ages::of(|_| Duration::from_millis(1_900));
    failure
}
