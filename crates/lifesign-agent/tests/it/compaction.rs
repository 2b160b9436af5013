//! Making room in a context, and what happens where that fails.

use std::sync::Arc;
use std::time::Duration;

use lifesign::BoundName;
use lifesign_agent::{AgentEvent, Entry, Purpose, Said, Transcript};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::harness::{Case, Tools, calls};

#[tokio::test]
async fn a_compaction_that_hangs_is_given_up_at_its_bound_and_old_results_are_left_out() {
    let tools = Arc::new(Tools::default());
    let script = three_looks("attempt 4: hold\nattempt 5: answer \"ok\"");
    let played = Case::new(&script)
        .tools(&tools)
        .set("bounds.whole_call", "200ms")
        .set("bounds.headers", "5s")
        .set("bounds.raw_silence", "20s")
        .with(|builder| builder.context_tokens(1_600))
        .play()
        .await;

    assert_eq!(played.outcome(), ("completed", 0), "{:?}", played.report);
    assert!(
        (200..3_000).contains(&played.report.times_ms.elapsed),
        "{:?}",
        played.report.times_ms
    );
    let counts = played.report.counts;
    assert_eq!((counts.compactions, counts.elisions > 0), (0, true));
    assert!(
        played
            .sent(4)
            .to_string()
            .contains("[left out to save room: 1000 characters")
    );
    let why = played.events.iter().find_map(|event| match event {
        AgentEvent::Elided { failure, .. } => Some((failure.code.name(), failure.bound)),
        _ => None,
    });
    assert_eq!(why, Some(("raw_silent", Some(BoundName::WholeCall))));
    played.assert_sound();
}

/// The wall clock of the one call was taken for that of the turn, and ended it.
#[tokio::test]
async fn a_compaction_that_runs_out_of_its_own_wall_clock_does_not_end_the_turn() {
    let tools = Arc::new(Tools::default());
    let script = three_looks("attempt 4: hold\nattempt 5: answer \"ok\"");
    let played = Case::new(&script)
        .tools(&tools)
        .set("bounds.raw_silence", "20s")
        .set("bounds.wall_clock", "400ms")
        .with(|builder| {
            builder
                .context_tokens(1_600)
                .wall_clock(Duration::from_secs(30))
        })
        .play()
        .await;

    assert_eq!(played.outcome(), ("completed", 0), "{:?}", played.report);
    assert!(played.report.counts.elisions > 0);
    let why = played.events.iter().find_map(|event| match event {
        AgentEvent::Elided { failure, .. } => Some(failure.code.name()),
        _ => None,
    });
    assert_eq!(why, Some("wall_clock"));
    played.assert_sound();
}

/// The model was asked for the same summary in each round, which cost each time and was not told.
#[tokio::test]
async fn a_compaction_that_failed_is_told_and_made_again_only_when_the_context_has_grown() {
    let tools = Arc::new(Tools::default());
    let look = |id: &str, len: usize| calls(&[(id, "look", json!({"pad": "x".repeat(len)}))]);
    let script = format!(
        "attempt 1: {}\nattempt 2: {}\nattempt 3: {}\n\
         attempt 4: status 500 json; error server_error; eof\n\
         attempt 5: {}\nattempt 6: {}\nattempt 7: {}\n\
         attempt 8: answer \"the sum of it\"\nattempt 9: answer \"ok\"",
        look("c1", 2_000),
        look("c2", 2_000),
        look("c3", 2_000),
        look("c4", 200),
        look("c5", 200),
        look("c6", 400),
    );
    let played = Case::new(&script)
        .tools(&tools)
        .with(|builder| builder.context_tokens(1_600))
        .play()
        .await;

    assert_eq!(played.outcome(), ("completed", 0), "{:?}", played.report);
    let purposes: Vec<_> = played
        .events
        .iter()
        .filter_map(|event| match event {
            AgentEvent::CallBegan { purpose, .. } => Some(*purpose == Purpose::Compaction),
            _ => None,
        })
        .collect();
    let expected = [false, false, false, true, false, false, false, true, false];
    assert_eq!(purposes, expected);
    // There was nothing to leave out, and that is told once.
    let told: Vec<_> = played
        .events
        .iter()
        .filter_map(|event| match event {
            AgentEvent::Elided { failure, results } => Some((failure.code.name(), *results)),
            _ => None,
        })
        .collect();
    assert_eq!(told, [("provider_error", 0)]);
    assert_eq!(played.report.counts.compactions, 1);
    played.assert_sound();
}

/// Results that had been left out came back in the request for the next summary.
#[tokio::test]
async fn a_summary_is_made_without_what_was_left_out() {
    let tools = Arc::new(Tools::default());
    let script = three_looks(&format!(
        "attempt 4: status 500 json; error server_error; eof\n\
         attempt 5: {}\nattempt 6: answer \"the sum of it\"\nattempt 7: answer \"ok\"",
        look("c4"),
    ));
    let played = Case::new(&script)
        .tools(&tools)
        .with(|builder| builder.context_tokens(1_600))
        .play()
        .await;

    assert_eq!(played.outcome(), ("completed", 0), "{:?}", played.report);
    assert_eq!(
        (
            played.report.counts.elisions,
            played.report.counts.compactions
        ),
        (2, 1)
    );
    let asked = played.sent(5);
    let results: Vec<_> = asked["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    let left_out = "[left out to save room: 1000 characters of this result]";
    assert_eq!(results, [left_out; 2]);
    played.assert_sound();
}

#[tokio::test]
async fn a_compaction_sums_up_what_was_said_long_ago() {
    let tools = Arc::new(Tools::default());
    let script = three_looks("attempt 4: answer \"the sum of it\"\nattempt 5: answer \"ok\"");
    let played = Case::new(&script)
        .tools(&tools)
        .with(|builder| builder.context_tokens(1_600))
        .play()
        .await;

    assert_eq!(played.outcome(), ("completed", 0));
    let counts = played.report.counts;
    assert_eq!(
        (counts.compactions, counts.elisions, counts.rounds),
        (1, 0, 4)
    );
    assert_eq!(played.sent(3)["stream"], false);
    let sent = played.sent(4);
    let first = sent["messages"][0]["content"].as_str().unwrap();
    assert!(
        first.contains("the sum of it") && first.ends_with("go"),
        "{first}"
    );
    assert!(!sent.to_string().contains("\"c1\""), "{sent}");
    // Whoever reads along reads the answer alone.
    let shown: String = played
        .events
        .iter()
        .filter_map(|event| match event {
            AgentEvent::Call(lifesign::CallEvent::Text(text)) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(shown, "ok");
    let purposes = played.events.iter().filter(|event| {
        matches!(
            event,
            AgentEvent::CallBegan {
                purpose: Purpose::Compaction,
                ..
            }
        )
    });
    assert_eq!(purposes.count(), 1);
    played.assert_sound();
}

/// A summary that ended with a question was asked for in a message of its own, and the chat templates
/// of some models refuse a user who speaks twice.
#[tokio::test]
async fn a_summary_that_ends_with_a_question_is_asked_for_in_the_same_message() {
    let transcript = long_talk().await;
    let played = Case::new("attempt 1: answer \"the sum of it\"\nattempt 2: answer \"ok\"")
        .with(|builder| builder.context_tokens(1_600).transcript(transcript))
        .play()
        .await;

    assert_eq!(played.outcome(), ("completed", 0), "{:?}", played.report);
    assert_eq!(played.report.counts.compactions, 1);
    let asked = &played.sent(0)["messages"][2]["content"];
    let asked = asked.as_str().unwrap();
    assert!(asked.starts_with("second\n\nSum up"), "{asked}");
    played.assert_sound();
}

/// The person was told that the answer had been coming.
#[tokio::test]
async fn a_turn_that_runs_out_of_time_in_a_summary_does_not_say_that_its_answer_was_coming() {
    let transcript = long_talk().await;
    // Some servers stream whatever was asked for.
    let script = r#"status 200 sse; repeat 0.02 { delta {"content":"word "} } forever"#;
    let played = Case::new(script)
        .with(|builder| {
            builder
                .context_tokens(1_600)
                .transcript(transcript)
                .wall_clock(Duration::from_millis(300))
        })
        .play()
        .await;

    assert_eq!(played.outcome(), ("wall_timeout", 6), "{:?}", played.report);
    assert_eq!(
        played.report.sentence.as_deref(),
        Some("The 300 ms you allowed ran out before the answer began; ask for less or allow more.")
    );
    assert_eq!(played.report.text, "");
    played.assert_sound();
}

/// Returns a script in which the model looks three times, until its context is nearly full, and then.
fn three_looks(then: &str) -> String {
    let [first, second, third] = ["c1", "c2", "c3"].map(look);
    format!("attempt 1: {first}\nattempt 2: {second}\nattempt 3: {third}\n{then}")
}

fn look(id: &str) -> String {
    calls(&[(id, "look", json!({"say": "x".repeat(1_000)}))])
}

/// Returns a conversation that leaves no room for a third turn, and ends with what the model said.
async fn long_talk() -> Transcript {
    let mut transcript = Transcript::in_memory();
    let said = Said {
        text: "x".repeat(4_000),
        ..Said::default()
    };
    for entry in [
        user(1, "first"),
        Entry::Answer(said.clone()),
        user(2, "second"),
        Entry::Answer(said),
    ] {
        transcript.append(entry).await.unwrap();
    }
    transcript
}

fn user(turn: u32, text: &str) -> Entry {
    Entry::User {
        turn,
        text: text.to_owned(),
    }
}
