//! What a gateway itself says to its readers, as a gateway above reads it.

use std::time::Duration;

use lifesign_core::{Failure, FailureCode, HeartbeatOrigin, Phase, Progress, Sign};
use lifesign_wire::{
    Answer, Beat, BeatState, ErrorOut, Event, Expect, Forwarded, Oddities, ProviderError,
    ReadLimits, Reader, Sink, State, Wire,
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

#[derive(Default)]
struct Signs(Vec<Sign>);

impl Sink for Signs {
    fn sign(&mut self, sign: Sign) {
        self.0.push(sign);
    }

    fn event(&mut self, _: &Event<'_>) {}
}

/// Reads `frames` one by one, and returns the reader and the signs of each.
fn read(wire: Wire, frames: &[&[u8]]) -> (Reader, Vec<Vec<Sign>>) {
    let mut reader = Reader::new(wire, Expect::Stream, &ReadLimits::default());
    let mut signs = Vec::new();
    for frame in frames {
        let mut of_frame = Signs::default();
        reader.read(frame, &mut of_frame).unwrap();
        signs.push(of_frame.0);
    }
    (reader, signs)
}

/// Returns a first content on `wire`, after which heartbeats pass.
fn content(wire: Wire) -> &'static [u8] {
    match wire.name() {
        "anthropic" => {
            b"data: {\"type\":\"content_block_delta\",\"index\":0,\
              \"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\n"
        }
        "openai-chat" => b"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n",
        _ => {
            b"data: {\"type\":\"response.output_text.delta\",\"sequence_number\":7,\
              \"output_index\":0,\"content_index\":0,\"delta\":\"a\"}\n\n"
        }
    }
}

const FORWARDED: Forwarded<'static> = Forwarded {
    id: Some("c1"),
    model: Some("m"),
    last_sequence: Some(7),
};

fn proxy(upstream_silent: Option<u64>) -> Sign {
    Sign {
        upstream_silent: upstream_silent.map(Duration::from_millis),
        ..Sign::heartbeat(HeartbeatOrigin::Proxy)
    }
}

#[test]
fn every_state_of_a_beat_is_read_back_as_a_proxys() {
    for state in [
        BeatState::Accepted,
        BeatState::Attempt,
        BeatState::Draining,
        BeatState::Holding,
        BeatState::Queued,
        BeatState::RetryWait,
        BeatState::UpstreamQuiet,
        BeatState::UpstreamStarted,
    ] {
        for upstream_silent_ms in [None, Some(45_000)] {
            let comment = Beat {
                upstream: Some("a"),
                upstream_silent_ms,
                ..Beat::new(state)
            }
            .comment();
            for wire in Wire::ALL {
                let (_, signs) = read(wire, &[&comment, &comment, content(wire)]);

                assert_eq!(signs[0], [proxy(upstream_silent_ms)], "{wire} {state:?}");
                assert_eq!(signs[1], [proxy(upstream_silent_ms)], "{wire} {state:?}");
                assert_eq!(signs[2][0].progress, Progress::Output, "{wire} {state:?}");
            }
        }
    }
}

#[test]
fn whatever_a_beats_comment_holds_is_life() {
    let older = br#": {"state":"upstream_started","n":1,"of":4,"backend":"b","regime":"r"}"#;
    for (comment, sign) in [
        (&older[..], proxy(None)),
        (
            br#": {"state":"of another kind","new":[1],"upstream_silent_ms":7}"#,
            proxy(Some(7)),
        ),
        (
            br#": {"state":"queued","upstream_silent_ms":"long"}"#,
            proxy(None),
        ),
        (
            br#": {"state":"queued""#,
            Sign::heartbeat(HeartbeatOrigin::Comment),
        ),
        (br#": {"n":1}"#, Sign::heartbeat(HeartbeatOrigin::Comment)),
    ] {
        for wire in Wire::ALL {
            let frame = [comment, b"\n"].concat();
            assert_eq!(read(wire, &[&frame]).1, [[sign]], "{wire} {comment:?}");
        }
    }
}

#[test]
fn a_beat_that_is_an_event_is_a_heartbeat_and_changes_nothing() {
    for wire in Wire::ALL {
        let beat = wire.beat_event(&FORWARDED).unwrap();

        let (reader, signs) = read(wire, &[content(wire), &beat, &beat, content(wire)]);

        let heartbeat = [Sign::heartbeat(HeartbeatOrigin::Provider)];
        assert_eq!(
            (&signs[1][..], &signs[2][..]),
            (&heartbeat[..], &heartbeat[..]),
            "{wire}"
        );
        assert_eq!(reader.oddities(), Oddities::default(), "{wire}");
        assert_eq!(reader.answer().text, "aa", "{wire}");
        // Ahead of everything it proves no more.
        assert_eq!(read(wire, &[&beat]).1, [heartbeat], "{wire}");
        if let Some(early) = wire.early_beat_event() {
            let (reader, signs) = read(wire, &[&early, content(wire)]);
            assert_eq!(signs[0], heartbeat, "{wire}");
            assert_eq!(reader.oddities(), Oddities::default(), "{wire}");
        }
    }
}

#[test]
fn the_events_of_beats_are_those_that_readers_know() {
    let event = |wire: Wire, forwarded: &Forwarded<'_>| {
        wire.beat_event(forwarded)
            .map(|beat| String::from_utf8(beat).unwrap())
    };
    let nothing = Forwarded::default();

    assert_eq!(
        event(Wire::ANTHROPIC, &nothing).as_deref(),
        Some("event: ping\ndata: {\"type\": \"ping\"}\n\n")
    );
    assert_eq!(
        event(Wire::OPENAI_RESPONSES, &FORWARDED).as_deref(),
        Some("event: keepalive\ndata: {\"type\":\"keepalive\",\"sequence_number\":7}\n\n")
    );
    assert_eq!(event(Wire::OPENAI_RESPONSES, &nothing), None);
    assert_eq!(
        Wire::OPENAI_RESPONSES.early_beat_event().as_deref(),
        Some(&b"event: keepalive\ndata: {\"type\":\"keepalive\"}\n\n"[..])
    );
    assert_eq!(Wire::ANTHROPIC.early_beat_event(), None);
    assert_eq!(
        event(Wire::OPENAI_CHAT, &FORWARDED).as_deref(),
        Some(concat!(
            "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":0,",
            "\"model\":\"m\",\"choices\":[]}\n\n"
        ))
    );
}

/// Returns a failure of `code` and the status that a caller gets for it.
fn failed(wire: Wire, code: FailureCode) -> (Failure, u16) {
    let failure = Failure::new(code, Phase::BeforeContent);
    let status = failure.http_status(wire == Wire::ANTHROPIC).unwrap_or(500);
    (failure, status)
}

/// Returns the data of the first event in `frame`.
fn data(frame: &[u8]) -> Value {
    let text = std::str::from_utf8(frame).unwrap();
    let data = text.lines().find_map(|line| line.strip_prefix("data: "));
    serde_json::from_str(data.unwrap()).unwrap()
}

#[test]
fn every_failure_ends_a_stream_as_one_that_is_final() {
    for wire in Wire::ALL {
        for code in FailureCode::ALL {
            let (failure, status) = failed(wire, code);
            let error = ErrorOut::new(status, &failure);
            let frame = wire.error_frame(&error, &FORWARDED);

            for before in [&b""[..], content(wire)] {
                let (mut reader, _) = read(wire, &[before, &frame]);
                let context = format!("{wire} {code:?}");
                assert_eq!(reader.state(), State::Failed, "{context}");
                let said = reader.failure().unwrap();
                assert!(said.is_final, "{context}");
                assert_eq!(said.message, failure.message(), "{context}");
                let answer = reader.take_answer(false);
                assert_eq!(answer.finish_reason, None, "{context}");
            }
            assert_eq!(data(&frame)["lifesign"]["code"], code.name(), "{wire}");
        }
    }
}

#[test]
fn every_failure_is_a_body_that_is_final() {
    for wire in Wire::ALL {
        for code in FailureCode::ALL {
            let (failure, status) = failed(wire, code);

            let body = wire.error_body(&ErrorOut::new(status, &failure));

            let said = ProviderError::of_body(status, &body);
            assert!(said.is_final, "{wire} {code:?}");
            assert_eq!(said.message, failure.message(), "{wire} {code:?}");
            // Under a status of success it is an error too.
            let mut reader = Reader::new(wire, Expect::Whole, &ReadLimits::default());
            reader.read(&body, &mut Signs::default()).unwrap();
            assert_eq!(reader.state(), State::Failed, "{wire} {code:?}");
        }
    }
}

#[test]
fn only_a_gateway_of_ours_is_final() {
    for body in [
        r#"{"error":{"message":"m"}}"#,
        r#"{"error":{"message":"m"},"lifesign":null}"#,
        r#"{"error":{"message":"lifesign"},"lifesign":"yes"}"#,
    ] {
        assert!(
            !ProviderError::of_body(503, body.as_bytes()).is_final,
            "{body}"
        );
    }
}

#[test]
fn each_wire_has_its_own_words_for_a_failure() {
    use FailureCode as Code;
    for (code, anthropic, (kind, openai_code)) in [
        (Code::RawSilent, "timeout_error", ("timeout", "raw_silent")),
        (Code::WallClock, "timeout_error", ("timeout", "wall_clock")),
        (Code::Connect, "api_error", ("server_error", "connect")),
        (Code::Truncated, "api_error", ("server_error", "truncated")),
        (
            Code::Overloaded,
            "overloaded_error",
            ("overloaded_error", "slow_down"),
        ),
        (
            Code::RateLimited,
            "rate_limit_error",
            ("rate_limit_error", "rate_limit_exceeded"),
        ),
        (
            Code::QueueFull,
            "rate_limit_error",
            ("rate_limit_error", "rate_limit_exceeded"),
        ),
        (
            Code::RefusedSetting,
            "invalid_request_error",
            ("invalid_request_error", "refused_setting"),
        ),
    ] {
        for wire in Wire::ALL {
            let (failure, status) = failed(wire, code);
            let error = ErrorOut::new(status, &failure);
            let body: Value = serde_json::from_slice(&wire.error_body(&error)).unwrap();
            if wire == Wire::ANTHROPIC {
                assert_eq!(body["error"]["type"], anthropic, "{code:?}");
                assert_eq!(body["type"], "error", "{code:?}");
            } else {
                let words = (&body["error"]["type"], &body["error"]["code"]);
                assert_eq!(
                    words,
                    (&json!(kind), &json!(openai_code)),
                    "{wire} {code:?}"
                );
                assert_eq!(body["error"]["param"], Value::Null);
            }
        }
    }
    for (status, anthropic, openai) in [
        (400, "invalid_request_error", "invalid_request_error"),
        (401, "authentication_error", "authentication_error"),
        (403, "permission_error", "permission_error"),
        (404, "not_found_error", "not_found_error"),
        (413, "request_too_large", "invalid_request_error"),
        (422, "invalid_request_error", "invalid_request_error"),
    ] {
        let failure = Failure::new(FailureCode::Rejected, Phase::Queued);
        let error = ErrorOut::new(status, &failure);
        for wire in Wire::ALL {
            let body: Value = serde_json::from_slice(&wire.error_body(&error)).unwrap();
            let expected = if wire == Wire::ANTHROPIC {
                anthropic
            } else {
                openai
            };
            assert_eq!(body["error"]["type"], expected, "{wire} {status}");
        }
    }
}

#[test]
fn the_providers_own_words_are_repeated() {
    let failure = Failure::new(FailureCode::Exhausted, Phase::BeforeContent);
    let said = ProviderError::of_body(
        429,
        br#"{"error":{"message":"no credit","type":"insufficient_quota","code":"no_money"}}"#,
    );
    let error = ErrorOut {
        provider: Some(&said),
        ..ErrorOut::new(429, &failure)
    };
    let inner = |wire: Wire| {
        let body: Value = serde_json::from_slice(&wire.error_body(&error)).unwrap();
        body["error"].clone()
    };

    let openai = json!({
        "message": "no credit", "type": "insufficient_quota", "param": null, "code": "no_money",
    });
    assert_eq!(inner(Wire::OPENAI_CHAT), openai);
    assert_eq!(inner(Wire::OPENAI_RESPONSES), openai);
    // A word that no SDK of the wire knows is not repeated.
    assert_eq!(
        inner(Wire::ANTHROPIC),
        json!({"type": "rate_limit_error", "message": "no credit"})
    );

    let silent = ProviderError::of_body(500, b"");
    let failure = Failure::new(FailureCode::ProviderError, Phase::BeforeContent);
    let error = ErrorOut {
        provider: Some(&silent),
        ..ErrorOut::new(500, &failure)
    };
    let body: Value = serde_json::from_slice(&Wire::ANTHROPIC.error_body(&error)).unwrap();
    assert_eq!(body["error"]["message"], failure.message());
}

#[test]
fn the_number_of_a_last_event_follows_those_before_it() {
    let failure = Failure::new(FailureCode::RawSilent, Phase::AfterContent);
    let error = ErrorOut::new(504, &failure);
    let number = |last_sequence| {
        let forwarded = Forwarded {
            last_sequence,
            ..Forwarded::default()
        };
        let frame = Wire::OPENAI_RESPONSES.error_frame(&error, &forwarded);
        data(&frame)["sequence_number"].clone()
    };

    assert_eq!((number(Some(7)), number(None)), (json!(8), json!(0)));
    assert_eq!(number(Some(u64::MAX)), json!(u64::MAX));
}

#[test]
fn a_partial_goes_with_the_failure_of_a_caller_who_saw_nothing_of_it() {
    let (mut reader, _) = read(
        Wire::OPENAI_CHAT,
        &[concat!(
            r#"data: {"choices":[{"delta":{"content":"half","reasoning_content":"r","tool_calls":"#,
            r#"[{"index":0,"id":"c1","function":{"name":"f","arguments":"{\"a\":"}}]}}]}"#,
            "\n\n",
        )
        .as_bytes()],
    );
    let partial: Answer = reader.take_answer(false);
    let mut failure = Failure::new(FailureCode::Truncated, Phase::AfterContent);
    failure.partial = true;
    for wire in Wire::ALL {
        let lifesign = |partial| {
            let error = ErrorOut {
                partial,
                ..ErrorOut::new(502, &failure)
            };
            let body: Value = serde_json::from_slice(&wire.error_body(&error)).unwrap();
            body["lifesign"].clone()
        };

        assert_eq!(
            lifesign(Some(&partial))["partial"],
            json!({
                "text": "half", "reasoning": "r", "finish_reason": null, "usage": null,
                "tool_calls": [
                    {"id": "c1", "name": "f", "arguments": "{\"a\":", "complete": false},
                ],
            })
        );
        assert_eq!(lifesign(None)["partial"], true);
    }
}
