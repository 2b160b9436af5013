//! Every way in which a provider fails, and all that a turn makes of it: its transcript, its counts, its
//! note, its sentence and its exit code, on every wire.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use lifesign::Wire;
use lifesign_agent::Counts;
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::harness::{Case, NOTHING, PINGS, Played, Tools, attempts, calls, flat, noted};
use crate::official;
use crate::wire_rules::assert_accepted;

/// A way, and what comes of it.
struct Row {
    name: &'static str,
    case: Case,
    outcome: (&'static str, u8),
    code: &'static str,
    transcript: Vec<&'static str>,
    /// Without heartbeats, of which there may be any number.
    counts: Counts,
    note: Option<&'static str>,
    sentence: Option<&'static str>,
    /// What has to be there while it is played.
    held: Vec<Box<dyn Any>>,
}

/// Answers that break off, each further on than the one before.
fn again_and_again(ending: &str) -> String {
    let words = ["one", "two", "three", "four"];
    let attempts = words.iter().enumerate().map(|(at, word)| {
        let attempt = at + 1;
        format!("attempt {attempt}: status 200 sse; text \"{word} \"; {ending}\n")
    });
    attempts.collect()
}

/// What a provider counts whose context is nearly full.
const USAGE: &str = "usage {\"prompt_tokens\":1400,\"completion_tokens\":100}";

const FOUR_PARTS: [&str; 5] = [
    "user go",
    "partial one ",
    "partial ... two ",
    "partial ... three ",
    "partial ... four ",
];

/// What is counted where an answer broke off, and three times more.
const FOUR_CALLS: Counts = Counts {
    turns: 1,
    calls: 4,
    attempts: 4,
    recoveries: 3,
    ..NOTHING
};

fn failing(
    name: &'static str,
    case: Case,
    outcome: (&'static str, u8),
    code: &'static str,
    note: &'static str,
    sentence: &'static str,
) -> Row {
    Row {
        name,
        case,
        outcome,
        code,
        transcript: vec!["user go"],
        counts: attempts(1),
        note: Some(note),
        sentence: Some(sentence),
        held: Vec::new(),
    }
}

fn completing(name: &'static str, case: Case, transcript: &[&'static str], counts: Counts) -> Row {
    Row {
        name,
        case,
        outcome: ("completed", 0),
        code: "none",
        transcript: transcript.to_vec(),
        counts: Counts { turns: 1, ..counts },
        note: None,
        sentence: None,
        held: Vec::new(),
    }
}

fn rows() -> Vec<Row> {
    let error = "status 500 json; error server_error \"Out of cheese\"; eof";
    let storm = "status 429 json [retry-after-ms: 20]; error rate_limit_error \"Slow down, you are over 5 \
                 per minute\"; eof";
    let half = json!({
        "index": 0, "id": "c1", "type": "function",
        "function": {"name": "write", "arguments": "{\"say\":\"o"},
    });
    let half = format!("status 200 sse; text \"I write. \"; tool {half}; cut");
    let whole = calls(&[("c2", "write", json!({"say": "ok"}))]);
    let look = |id: &str| calls(&[(id, "look", json!({"say": "x".repeat(1_000)}))]);
    let tools = || Arc::new(Tools::default());
    let heartbeats_only = |name, script: &str, attempts_made| Row {
        counts: attempts(attempts_made),
        ..failing(
            name,
            flat(Case::new(script)),
            ("provider_failed", 5),
            "heartbeats_only",
            "the call timed out; only heartbeats came. The call was made again and failed again.",
            "The line to the model's server was alive for 150 ms, but no answer came over it; trying again may help.",
        )
    };
    vec![
        Row {
            counts: attempts(3),
            ..failing(
                "no raw progress before content",
                Case::new("status 200 sse; hold"),
                ("provider_failed", 5),
                "raw_silent",
                "the call timed out; nothing came. The call was made again and failed again.",
                "The model's server went quiet for 150 ms; trying again may help.",
            )
        },
        heartbeats_only("pings and no semantic event", PINGS, 2),
        Row {
            transcript: FOUR_PARTS.to_vec(),
            counts: FOUR_CALLS,
            ..failing(
                "content then silence",
                Case::new(&again_and_again("hold")),
                ("provider_failed", 5),
                "raw_silent",
                "the call timed out in the middle of the answer; nothing came after that.",
                "The model's server went quiet for 150 ms in the middle of the answer; what had come is kept.",
            )
        },
        Row {
            counts: attempts(3),
            ..failing(
                "provider error before content",
                Case::new(error),
                ("provider_failed", 4),
                "provider_error",
                "the model's server reported a fault of its own (Out of cheese). The call was made again \
                 and failed again.",
                "The model's server had a fault of its own; trying again may help.",
            )
        },
        Row {
            counts: attempts(7),
            ..failing(
                "retry budget exhausted",
                Case::new("status 529 json; error overloaded_error \"Overloaded\"; eof"),
                ("provider_failed", 4),
                "overloaded",
                "the model's server was overloaded. The call was made again and failed again.",
                "The model's server has more to do than it can; try again in a while.",
            )
        },
        Row {
            transcript: vec!["user go", "partial and so on "],
            ..failing(
                "wall clock expired",
                Case::new("status 200 sse; text \"and so on \"; hold")
                    .set("bounds.raw_silence", "20s")
                    .with(|builder| builder.wall_clock(Duration::from_millis(300))),
                ("wall_timeout", 6),
                "wall_clock",
                "the time allowed for the turn ran out.",
                "The 300 ms you allowed ran out while the answer was still coming; ask for less or allow more.",
            )
        },
        Row {
            counts: attempts(6),
            ..failing(
                "429 storm",
                Case::new(storm),
                ("provider_failed", 7),
                "rate_limited",
                "requests came faster than the provider allows (Slow down, you are over 5 per minute). \
                 The call was made again and failed again.",
                "Requests came faster than the provider allows; try again in 20 ms.",
            )
        },
        heartbeats_only(
            "cut twice",
            &format!("attempt 1-2: {PINGS}\nattempt 3: answer \"too late\""),
            2,
        ),
        completing(
            "cut, other failure, cut",
            flat(Case::new(&format!(
                "attempt 1: {PINGS}\nattempt 2: {error}\nattempt 3: {PINGS}\nattempt 4: answer \"here\""
            ))),
            &["user go", "answer here"],
            Counts {
                rounds: 1,
                ..attempts(4)
            },
        ),
        heartbeats_only(
            "cut, other failure, cut, cut",
            &format!("attempt 1: {PINGS}\nattempt 2: {error}\nattempt 3+: {PINGS}"),
            4,
        ),
        completing(
            "tool call cut in half",
            Case::new(&format!(
                "attempt 1: {half}\nattempt 2: {whole}\nattempt 3: answer \"Written.\""
            ))
            .tools(&tools()),
            &[
                "user go",
                "partial I write. [c1]",
                "answer ... [c2]",
                "began c2",
                "ran c2: ok",
                "answer Written.",
            ],
            Counts {
                rounds: 2,
                calls: 3,
                attempts: 3,
                recoveries: 1,
                tool_calls: 1,
                ..NOTHING
            },
        ),
        Row {
            transcript: vec![
                "user go",
                "partial I write. [c1]",
                "partial ... [c1]",
                "partial ... [c1]",
                "partial ... [c1]",
            ],
            counts: FOUR_CALLS,
            ..failing(
                "tool call cut in half again and again",
                Case::new(&half).tools(&tools()),
                ("truncated", 8),
                "connection_lost",
                "the connection to the model's server was lost in the middle of the answer.",
                "The connection broke in the middle of the answer; what had come is kept.",
            )
        },
        Row {
            transcript: FOUR_PARTS.to_vec(),
            counts: FOUR_CALLS,
            ..failing(
                "partial then reset",
                Case::new(&again_and_again("rst")),
                ("truncated", 8),
                "connection_lost",
                "the connection to the model's server was lost in the middle of the answer.",
                "The connection broke in the middle of the answer; what had come is kept.",
            )
        },
        completing(
            "compaction that hangs",
            Case::new(&format!(
                "attempt 1: {}\nattempt 2: {}\nattempt 3: {USAGE}; {}\nattempt 4: hold\nattempt 5: answer \"ok\"",
                look("c1"),
                look("c2"),
                look("c3")
            ))
            .tools(&tools())
            .set("bounds.whole_call", "200ms")
            .set("bounds.headers", "5s")
            .set("bounds.raw_silence", "5s")
            .with(|builder| builder.context_tokens(1_600)),
            &[
                "user go",
                "answer [c1]",
                "began c1",
                "ran c1: xxxxxxxxxxxxxxxxxxxxxxxx",
                "answer [c2]",
                "began c2",
                "ran c2: xxxxxxxxxxxxxxxxxxxxxxxx",
                "answer [c3]",
                "began c3",
                "ran c3: xxxxxxxxxxxxxxxxxxxxxxxx",
                "elided [4, 7]",
                "answer ok",
            ],
            Counts {
                rounds: 4,
                calls: 5,
                attempts: 5,
                elisions: 2,
                tool_calls: 3,
                ..NOTHING
            },
        ),
    ]
}

/// A tool's server asks for a model call whose answer drips in until its time is up: that is the
/// tool's result, and the turn goes on.
#[cfg(feature = "mcp")]
async fn sampling_that_drips() -> Row {
    let asking = crate::mcp::asker::asking("repeat 0.03 { text \"x\" } forever", "300ms").await;
    let server = Arc::clone(&asking.server);
    let script = format!(
        "attempt 1: {}\nattempt 2: answer \"ok\"",
        calls(&[("c1", "ask", json!({}))])
    );
    Row {
        held: vec![Box::new(asking)],
        ..completing(
            "sampling request that drips",
            Case::new(&script).with(move |builder| builder.tools(server)),
            &[
                "user go",
                "answer [c1]",
                "began c1",
                "ran c1: failed: The 300 ms you a",
                "answer ok",
            ],
            Counts {
                rounds: 2,
                calls: 2,
                attempts: 2,
                tool_calls: 1,
                ..NOTHING
            },
        )
    }
}

#[tokio::test]
async fn each_way_in_which_a_provider_fails_is_told_as_what_it_was() {
    let mut all: Vec<(Wire, Row)> = Vec::new();
    for wire in Wire::ALL {
        all.extend(rows().into_iter().map(|row| (wire, row)));
        #[cfg(feature = "mcp")]
        all.push((wire, sampling_that_drips().await));
    }

    let mut bodies = Vec::new();
    let mut playing = futures_util::stream::iter(all)
        .map(|(wire, row)| play(wire, row))
        .buffer_unordered(4);
    while let Some(played) = playing.next().await {
        let talk = played.agent.transcript();
        bodies.extend(Wire::ALL.map(|wire| (wire, assert_accepted(talk, wire))));
        bodies.extend(played.bodies());
    }

    official::assert_taken(bodies);
}

/// What is to be seen of a turn that has ended.
#[derive(Debug, PartialEq)]
struct Seen {
    outcome: (&'static str, u8),
    code: &'static str,
    transcript: Vec<String>,
    counts: Counts,
    note: Option<String>,
    sentence: Option<String>,
}

async fn play(wire: Wire, row: Row) -> Played {
    let name = row.name;
    let played = row.case.wire(wire).play().await;
    drop(row.held);

    let mut transcript: Vec<_> = row.transcript.iter().map(|&line| line.to_owned()).collect();
    transcript.push(format!("ended {}", row.outcome.0));
    let expected = Seen {
        outcome: row.outcome,
        code: row.code,
        transcript,
        counts: row.counts,
        note: row.note.map(noted),
        sentence: row.sentence.map(str::to_owned),
    };
    let report = &played.report;
    let seen = Seen {
        outcome: played.outcome(),
        code: played.code(),
        transcript: played.short(),
        counts: played.counts(),
        note: report.note.clone(),
        sentence: report.sentence.clone(),
    };
    assert_eq!(seen, expected, "{name} on {wire}");
    played.assert_sound();
    played
}
