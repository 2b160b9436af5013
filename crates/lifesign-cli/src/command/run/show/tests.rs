//! What is told of a turn, in virtual time.

use std::time::Duration;

use lifesign::clock::CallClock;
use lifesign::{Doing, Failure, FailureCode, GiveUp, Monitor, Phase, ToolCall};
use lifesign_agent::tools::{ToolProgress, ToolResult};
use lifesign_agent::{AgentEvent, Means, Purpose, TurnOutcome, TurnReport};
use lifesign_core::{Bounds, CallShape, Watch};
use lifesign_wire::Wire;
use pretty_assertions::assert_eq;
use tokio::time::advance;

use super::lines;
use super::now::Now;
use super::*;

/// A call that has sent its request and waits for the response.
fn waiting_call() -> Monitor {
    let shape = CallShape {
        streamed: true,
        max_tokens: None,
        wire: Wire::OPENAI_CHAT.defaults(),
    };
    let monitor = Monitor::new(CallClock::start(), 4);
    let mut watch = Watch::new(&Bounds::default(), &shape, Duration::ZERO, Duration::ZERO);
    watch.handle_sending(Duration::ZERO);
    watch.handle_sent(Duration::ZERO);
    monitor.begin_attempt(1, watch);
    monitor
}

fn began(purpose: Purpose, monitor: &Monitor) -> AgentEvent {
    AgentEvent::CallBegan {
        purpose,
        monitor: monitor.clone(),
    }
}

fn call_of_tool(name: &str) -> ToolCall {
    ToolCall {
        id: "c1".to_owned(),
        name: name.to_owned(),
        arguments: "{\"path\":\n\"a\x1b[2J\"}".to_owned(),
        complete: true,
        ..ToolCall::default()
    }
}

fn told(now: &Now) -> String {
    now.status().fitting(102)
}

#[tokio::test(start_paused = true)]
async fn a_silent_call_is_told_with_its_clocks_and_what_will_cut_it() {
    let mut now = Now::start();
    advance(Duration::from_secs(2)).await;
    now.handle(began(Purpose::Answer, &waiting_call()));
    advance(Duration::from_secs(40)).await;

    assert_eq!(
        told(&now),
        "   42s  attempt 1  no response yet  cut in 20s by before_content  bytes 40s  events 40s  content 40s"
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_is_told_by_what_it_waits_for() {
    let monitor = waiting_call();
    let mut now = Now::start();
    now.handle(began(Purpose::Recovery, &monitor));
    advance(Duration::from_secs(5)).await;

    for (doing, expected) in [
        (Doing::Queued, "  5.0s  going on  waiting in line"),
        (
            Doing::Holding {
                until: Duration::from_secs(65),
            },
            "  5.0s  going on  on hold, 60s more",
        ),
        (
            Doing::RetryWait {
                until: Duration::from_secs(13),
            },
            "  5.0s  going on  attempt 2 in 8.0s",
        ),
    ] {
        monitor.set_doing(doing);

        assert_eq!(told(&now), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn what_has_come_last_of_a_call_is_told_apart() {
    let monitor = waiting_call();
    let mut now = Now::start();
    now.handle(began(Purpose::Answer, &monitor));
    monitor.watch(|watch| {
        watch.handle_headers(Duration::ZERO);
        watch.handle_bytes(10, Duration::ZERO);
        let sign = lifesign_core::Sign::of(lifesign_core::Progress::Reasoning);
        watch.handle_frame(sign, Duration::ZERO);
    });

    for (event, expected) in [
        (CallEvent::Reasoning("Hm.".to_owned()), "thinking"),
        (CallEvent::Text("Hi".to_owned()), "answering"),
    ] {
        now.handle(AgentEvent::Call(event));

        assert!(told(&now).contains(expected), "{}", told(&now));
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_is_told_for_as_long_as_it_runs_with_what_it_says() {
    let mut now = Now::start();
    now.handle(AgentEvent::ToolBegan {
        call: call_of_tool("re\x1b[2Jad"),
    });
    advance(Duration::from_secs(12)).await;
    now.handle(AgentEvent::ToolProgress {
        id: "c1".to_owned(),
        progress: ToolProgress {
            done: Some(3.0),
            total: Some(10.0),
            message: Some("half\r\nway\x07".to_owned()),
        },
    });

    assert_eq!(
        told(&now),
        "   12s  re [2Jad running 12s  3 of 10: half way"
    );
    assert_eq!(now.status().fitting(30), "   12s  re [2Jad running 12s");

    let result = ToolResult::ok("");
    now.handle(AgentEvent::ToolEnded {
        id: "c1".to_owned(),
        name: "read".to_owned(),
        result,
        elapsed: Duration::from_secs(12),
    });
    assert_eq!(told(&now), "   12s  working");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_will_be_sent_again_says_when() {
    let mut now = Now::start();
    now.handle(AgentEvent::Resending {
        failure: Box::new(Failure::new(FailureCode::Overloaded, Phase::BeforeContent)),
        resend: 1,
        wait: Duration::from_mins(2),
    });
    advance(Duration::from_secs(15)).await;

    assert_eq!(told(&now), "   15s  sent again in 105s");

    now.handle(began(Purpose::Answer, &waiting_call()));
    assert!(told(&now).contains("no response yet"), "{}", told(&now));
}

#[test]
fn what_is_left_out_for_want_of_a_summary_is_told_as_many_as_it_is() {
    let told = |results| {
        let failure = Box::new(Failure::new(FailureCode::RawSilent, Phase::BeforeContent));
        let line = lines::of(&AgentEvent::Elided { failure, results }).unwrap();
        line.split_once("); ").unwrap().1.to_owned()
    };

    assert_eq!(told(0), "there is no tool result to leave out");
    assert_eq!(told(1), "the oldest tool result is left out");
    assert_eq!(told(12), "the oldest 12 tool results are left out");
}

#[test]
fn a_turn_that_is_stopped_says_so_whatever_it_was_doing() {
    let mut now = Now::start();
    now.handle(began(Purpose::Answer, &waiting_call()));

    now.stop();

    assert_eq!(told(&now), "  0.0s  stopping; Ctrl-C ends it at once");
}

/// After a resume nothing is known of a call but what its event says.
#[test]
fn a_tool_that_never_began_is_told_by_the_name_that_the_model_gave() {
    let line = lines::of(&AgentEvent::ToolEnded {
        id: "c1".to_owned(),
        name: "fly".to_owned(),
        result: ToolResult::error("There is no tool `fly`."),
        elapsed: Duration::ZERO,
    });

    assert_eq!(line.unwrap(), "tool fly failed: There is no tool `fly`.");
}

/// "Not repeated" stood above "asking the model to go on".
#[test]
fn an_answer_that_broke_off_is_not_said_to_be_given_up() {
    let mut failure = Failure::new(FailureCode::ConnectionLost, Phase::AfterContent);
    failure.give_up = Some(GiveUp::Committed);

    let line = lines::of(&AgentEvent::BrokeOff {
        failure: Box::new(failure),
        text_bytes: 9,
    });

    assert_eq!(
        line.unwrap(),
        "the answer broke off after 9 bytes of text: the connection to the provider was lost in the \
         middle of the answer"
    );
}

#[test]
fn what_a_person_should_know_is_a_line() {
    let line = |event: AgentEvent| lines::of(&event);
    let failure = |code| Box::new(Failure::new(code, Phase::AfterContent));

    assert_eq!(
        line(AgentEvent::ToolBegan {
            call: call_of_tool("read")
        })
        .unwrap(),
        "tool read: {\"path\": \"a [2J\"}"
    );
    assert_eq!(
        line(AgentEvent::ToolEnded {
            id: "c9".to_owned(),
            name: "read".to_owned(),
            result: ToolResult::ok("one\ntwo"),
            elapsed: Duration::from_millis(1_240),
        })
        .unwrap(),
        "tool read ended after 1.2 s: one two"
    );
    assert_eq!(
        line(AgentEvent::Recovering {
            recovery: 1,
            of: 3,
            means: Means::Request
        })
        .unwrap(),
        "asking the model to go on, recovery 1 of 3"
    );
    assert_eq!(
        line(AgentEvent::Nudged {
            rule: NudgeRule::Empty,
            nudge: 2,
            of: 3
        })
        .unwrap(),
        "the answer was empty, reminder 2 of 3"
    );
    assert_eq!(
        line(AgentEvent::BrokeOff {
            failure: failure(FailureCode::Cancelled),
            text_bytes: 3
        }),
        None
    );
    assert!(
        line(AgentEvent::BrokeOff {
            failure: failure(FailureCode::ConnectionLost),
            text_bytes: 3
        })
        .unwrap()
        .starts_with("the answer broke off after 3 bytes of text: ")
    );
    assert_eq!(line(AgentEvent::Began { turn: 1 }), None);
}

#[test]
fn the_end_says_why_there_is_no_answer_and_nothing_where_there_is_one() {
    let mut failure = Failure::new(FailureCode::RawSilent, Phase::BeforeContent);
    failure.limit = Some(Duration::from_secs(45));
    let failed = TurnReport {
        outcome: TurnOutcome::ProviderFailed,
        ..TurnReport::unbegun(&failure)
    };

    let lines = lines::of_end(&failed);

    assert!(lines[0].starts_with("provider_failed: "), "{lines:?}");
    assert!(lines[1].starts_with("  what was seen: "), "{lines:?}");
    let cancelled = TurnReport::unbegun(&Failure::new(FailureCode::Cancelled, Phase::Queued));
    assert_eq!(
        lines::of_end(&cancelled),
        ["cancelled: You stopped the answer before it was complete."]
    );
    let answered = TurnReport {
        sentence: None,
        failure: None,
        outcome: TurnOutcome::Completed,
        ..cancelled
    };
    assert!(lines::of_end(&answered).is_empty());
}
