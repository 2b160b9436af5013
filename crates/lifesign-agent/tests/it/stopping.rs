//! Turns that somebody stops, wherever they are.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use lifesign::{CallEvent, Client, Upstream, Wire};
use lifesign_agent::tools::{ProgressSink, ToolCall, ToolFuture, ToolResult, ToolSpec, Toolbox};
use lifesign_agent::{Agent, AgentEvent, Cancel, Counts, Entry, Resend, TurnReport};
use lifesign_standin::Standin;
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::harness::{Case, NOTHING, PINGS, Played, Tools, assert_ended, attempts, calls, flat};
use crate::official;
use crate::wire_rules::assert_accepted;

/// Where a turn is stopped, and what is kept of it.
struct Stopped {
    at: &'static str,
    case: Case,
    kept: Vec<&'static str>,
    counts: Counts,
}

fn stopped(at: &'static str, case: Case, kept: &[&'static str], counts: Counts) -> Stopped {
    Stopped {
        at,
        case,
        kept: kept.to_vec(),
        counts,
    }
}

/// A case in which no bound can run out before somebody stops it.
fn case(script: &str) -> Case {
    Case::new(script).set("bounds.raw_silence", "20s")
}

const fn is_text(event: &AgentEvent) -> bool {
    matches!(event, AgentEvent::Call(CallEvent::Text(_)))
}

/// Whether it is a wait for another attempt that nobody would sit out.
fn is_long_wait(event: &AgentEvent) -> bool {
    matches!(event, AgentEvent::Call(CallEvent::Retrying { wait, .. }) if wait.as_secs() > 10)
}

/// What is counted where a turn is stopped while its first tool runs.
const IN_A_TOOL: Counts = Counts {
    turns: 1,
    rounds: 1,
    calls: 1,
    attempts: 1,
    tool_calls: 1,
    ..NOTHING
};

/// What is kept of it.
const STOPPED_TOOL: [&str; 3] = [
    "answer [c1]",
    "began c1",
    "ran! c1: This call was stopped on",
];

/// Where the provider has to see that nobody is there any more.
fn under_way() -> Vec<Stopped> {
    let tools = || Arc::new(Tools::default());
    let half = "status 200 sse; tool {\"index\":0,\"id\":\"c1\",\"type\":\"function\",\
                \"function\":{\"name\":\"write\",\"arguments\":\"{\"}}; hold";
    let look = |id: &str| calls(&[(id, "look", json!({"say": "x".repeat(1_000)}))]);
    let looked = "ran c1: xxxxxxxxxxxxxxxxxxxxxxxx";
    vec![
        stopped(
            "before any byte",
            case("hold").cancel_at_request(1),
            &[],
            attempts(1),
        ),
        stopped(
            "between heartbeats",
            case(PINGS).cancel_when(|event| {
                matches!(event, AgentEvent::Call(CallEvent::Heartbeat { .. }))
            }),
            &[],
            attempts(1),
        ),
        stopped(
            "after content",
            case("status 200 sse; text \"and \"; hold").cancel_when(is_text),
            &["partial and "],
            attempts(1),
        ),
        stopped(
            "under a wall clock",
            case("status 200 sse; text \"and \"; hold")
                .with(|builder| builder.wall_clock(Duration::from_secs(20)))
                .cancel_when(is_text),
            &["partial and "],
            attempts(1),
        ),
        stopped(
            "in a second attempt",
            case("attempt 1: status 500 json; error server_error; eof\nattempt 2: hold")
                .cancel_at_request(2),
            &[],
            attempts(2),
        ),
        stopped(
            "in a recovery from a reset",
            case("attempt 1: status 200 sse; text \"and \"; rst\nattempt 2: hold")
                .cancel_at_request(2),
            &["partial and "],
            Counts {
                calls: 2,
                recoveries: 1,
                ..attempts(2)
            },
        ),
        stopped(
            "in a tool call that arrives",
            case(half)
                .tools(&tools())
                .cancel_when(|event| matches!(event, AgentEvent::Call(CallEvent::ToolCall(_)))),
            &["partial [c1]"],
            attempts(1),
        ),
        stopped(
            "in a compaction",
            case(&format!(
                "attempt 1: {}\nattempt 2: {}\nattempt 3: {}\nattempt 4: hold",
                look("c1"),
                look("c1"),
                look("c1")
            ))
            .tools(&tools())
            .with(|builder| builder.context_tokens(1_600))
            .cancel_at_request(4),
            &[
                "answer [c1]",
                "began c1",
                looked,
                "answer [c1]",
                "began c1",
                looked,
                "answer [c1]",
                "began c1",
                looked,
            ],
            Counts {
                rounds: 3,
                calls: 4,
                tool_calls: 3,
                ..attempts(4)
            },
        ),
    ]
}

/// Where nothing is under way at the provider.
fn between() -> Vec<Stopped> {
    let error = "status 500 json; error server_error; eof";
    let refused = "status 429 json [retry-after: 30]; error rate_limit_error; eof";
    let storm = format!(
        "attempt 1-3: status 429 json [retry-after-ms: 10]; error rate_limit_error; eof\n\
         attempt 4+: {refused}"
    );
    let is_retry =
        |event: &AgentEvent| matches!(event, AgentEvent::Call(CallEvent::Retrying { .. }));
    let mut retries = 0;
    let is_second = move |event: &AgentEvent| {
        retries += u32::from(is_retry(event));
        retries == 2
    };
    let resend = Arc::new(Resend(vec![Duration::from_secs(20)]));
    vec![
        stopped(
            "in the wait for a retry",
            case(refused).cancel_when(is_long_wait),
            &[],
            attempts(1),
        ),
        stopped(
            "in a storm of 429",
            case(&storm).cancel_when(is_long_wait),
            &[],
            attempts(4),
        ),
        stopped(
            "in the wait for an overloaded server",
            case("status 529 json [retry-after: 30]; error overloaded_error; eof")
                .cancel_when(is_long_wait),
            &[],
            attempts(1),
        ),
        stopped(
            "after a cut",
            flat(Case::new(PINGS)).cancel_when(is_retry),
            &[],
            attempts(1),
        ),
        stopped(
            "after a cut and another failure",
            flat(Case::new(&format!(
                "attempt 1: {PINGS}\nattempt 2+: {error}"
            )))
            .cancel_when(is_second),
            &[],
            attempts(2),
        ),
        stopped(
            "before the turn is sent again",
            case(error)
                .with(|builder| builder.policy(resend))
                .cancel_when(|event| matches!(event, AgentEvent::Resending { .. })),
            &[],
            Counts {
                resends: 1,
                ..attempts(3)
            },
        ),
        stopped(
            "in a tool",
            case(&calls(&[("c1", "hang", json!({}))]))
                .tools(&Arc::new(Tools::default()))
                .cancel_when(|event| matches!(event, AgentEvent::ToolBegan { .. })),
            &STOPPED_TOOL,
            IN_A_TOOL,
        ),
    ]
}

/// Wherever a turn is stopped, it ends at once, keeps what had come, and blames nobody.
#[tokio::test]
async fn a_turn_can_be_stopped_anywhere() {
    let mut bodies = Vec::new();
    for case in under_way() {
        let at = case.at;
        let played = play(case, &mut bodies).await;

        let last = played.standin.requests().len() - 1;
        let left = played
            .standin
            .wait_for_peer_closed(last, Duration::from_secs(1));
        assert!(left.await.is_some(), "{at}: the provider is still working");
    }
    for case in between() {
        play(case, &mut bodies).await;
    }

    official::assert_taken(bodies);
}

async fn play(case: Stopped, bodies: &mut Vec<(Wire, serde_json::Value)>) -> Played {
    let at = case.at;
    let played = case.case.play().await;

    assert_ended(
        &played,
        ("cancelled", 130),
        "cancelled",
        "it was stopped on purpose.",
        "You stopped the answer before it was complete",
    );
    let mut kept = vec!["user go"];
    kept.extend(case.kept);
    kept.push("ended cancelled");
    assert_eq!(played.short(), kept, "{at}");
    assert_eq!(played.counts(), case.counts, "{at}");
    assert!(
        played.report.times_ms.elapsed < 2_000,
        "{at}: {:?}",
        played.report.times_ms
    );
    let talk = played.agent.transcript();
    bodies.extend(Wire::ALL.map(|wire| (wire, assert_accepted(talk, wire))));
    bodies.extend(played.bodies());
    played
}

/// A tool that stops the turn just when it has done its work.
#[derive(Default)]
struct Stopper {
    cancel: OnceLock<Cancel>,
    ran: Mutex<Vec<String>>,
}

impl Toolbox for Stopper {
    fn tools(&self) -> Vec<ToolSpec> {
        vec![ToolSpec {
            name: "step".to_owned(),
            description: None,
            parameters: json!({"type": "object"}),
            timeout: None,
            is_parallel: false,
        }]
    }

    fn call(&self, call: ToolCall, _: ProgressSink) -> ToolFuture<'_> {
        Box::pin(async move {
            self.cancel.get().unwrap().cancel();
            self.ran.lock().unwrap().push(call.id);
            ToolResult::ok("done")
        })
    }
}

/// The result was in hand and was kept, but the tool behind it ran as well, after the stop.
#[tokio::test]
async fn no_tool_begins_once_the_turn_is_stopped() {
    let script = calls(&[("c1", "step", json!({})), ("c2", "step", json!({}))]);
    let standin = Standin::script(&script).unwrap().start().await.unwrap();
    let upstream = Upstream::new(Wire::OPENAI_CHAT, &standin.url()).unwrap();
    let tools = Arc::new(Stopper::default());
    let mut agent = Agent::builder(Client::new().unwrap(), upstream, "m")
        .tools(Arc::clone(&tools) as _)
        .build()
        .unwrap();
    let turn = agent.turn("go");
    tools.cancel.set(turn.canceller()).unwrap();

    let report = turn.report().await.unwrap();

    assert_eq!(report.outcome.name(), "cancelled");
    assert_eq!(*tools.ran.lock().unwrap(), ["c1"]);
    assert_eq!(
        (report.counts.tool_calls, report.counts.tool_failures),
        (1, 0)
    );
    let told: Vec<_> = agent
        .transcript()
        .entries()
        .iter()
        .filter_map(|entry| match entry {
            Entry::ToolEnded(ran) => Some(ran.text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(told, ["done", "This call was not run."]);
}

/// Stops a turn in which a tool hangs, and returns how it ended and what the model is told of the tool.
async fn stopped_in_a_tool(stop: fn(&Cancel)) -> (TurnReport, String) {
    let script = calls(&[("c1", "hang", json!({}))]);
    let standin = Standin::script(&script).unwrap().start().await.unwrap();
    let upstream = Upstream::new(Wire::OPENAI_CHAT, &standin.url()).unwrap();
    let mut agent = Agent::builder(Client::new().unwrap(), upstream, "m")
        .tools(Arc::new(Tools::default()))
        .build()
        .unwrap();
    let mut turn = agent.turn("go");
    let cancel = turn.canceller();
    let report = loop {
        match turn.next().await.unwrap().unwrap() {
            AgentEvent::ToolBegan { .. } => stop(&cancel),
            AgentEvent::Ended(report) => break *report,
            _ => {}
        }
    };
    drop(turn);
    let entries = agent.transcript().entries().iter();
    let mut told = entries.filter_map(|entry| match entry {
        Entry::ToolEnded(ran) => Some(ran.text.clone()),
        _ => None,
    });
    (report, told.next().unwrap())
}

#[tokio::test]
async fn a_turn_that_is_stopped_in_a_tool_says_so() {
    let (report, told) = stopped_in_a_tool(Cancel::cancel).await;

    assert_eq!(
        report.failure.unwrap().message,
        "the turn was stopped while tool `hang` ran"
    );
    assert!(
        told.starts_with("This call was stopped on purpose"),
        "{told}"
    );
}

/// A reader that had gone was told of as somebody who had stopped the turn on purpose.
#[tokio::test]
async fn a_turn_whose_answer_nobody_takes_was_stopped_by_nobody() {
    let (report, told) = stopped_in_a_tool(Cancel::abandon).await;

    assert_eq!(
        (report.outcome.name(), report.exit_code()),
        ("cancelled", 130)
    );
    assert_eq!(
        report.sentence.as_deref(),
        Some(
            "The answer was given up because nobody was taking it any more; what had come is kept."
        )
    );
    assert_eq!(
        report.note.as_deref(),
        Some(
            "[The last turn ended before its answer was complete: nobody took the answer any more. A \
             reply may still be given if one is owed.]"
        )
    );
    assert_eq!(
        report.failure.unwrap().message,
        "the turn was stopped while tool `hang` ran: nobody took the answer any more"
    );
    assert!(told.contains("since nobody took the answer"), "{told}");
}

#[cfg(feature = "mcp")]
mod mcp {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::mcp::asker::asking;

    /// The tool of a server is told to stop, and so is the model call that the server asked for.
    #[tokio::test]
    async fn a_turn_can_be_stopped_while_a_server_is_at_it() {
        let mut bodies = Vec::new();
        for tool in ["hang", "ask"] {
            let asking = Arc::new(asking("role; repeat 0.05 { ping } forever", "20s").await);
            let seen = Arc::clone(&asking);
            let server = Arc::clone(&asking.server);
            let case = case(&calls(&[("c1", tool, json!({}))]))
                .with(move |builder| builder.tools(server))
                .cancel_on(async move {
                    match tool {
                        "ask" => {
                            let came = seen.provider.wait_for_requests(1, Duration::from_secs(10));
                            assert!(came.await, "the server has asked for nothing");
                        }
                        _ => tokio::time::sleep(Duration::from_millis(250)).await,
                    }
                });

            play(stopped(tool, case, &STOPPED_TOOL, IN_A_TOOL), &mut bodies).await;

            let asked = asking.provider.requests().len();
            assert_eq!(asked, usize::from(tool == "ask"));
            if tool == "ask" {
                let left = asking
                    .provider
                    .wait_for_peer_closed(0, Duration::from_millis(500));
                assert!(left.await.is_some(), "the model call goes on");
            }
        }

        official::assert_taken(bodies);
    }
}
