//! Beats as coding agents need them, told apart by what they call themselves.

use lifesign_wire::Wire;
use pretty_assertions::assert_eq;

use crate::harness::{Ask, Got};
use crate::play::{Case, Played};

const CODEX: &str = "codex_exec/0.171.0 (Debian 12.0.0; x86_64) xterm (codex_exec; 0.171.0)";
const CLAUDE_CODE: &str = "claude-cli/2.1.332 (external, sdk-cli)";
const KEEPALIVE: &str = "event: keepalive\ndata: {\"type\":\"keepalive\"}\n\n";
const PING: &str = "event: ping\ndata: {\"type\": \"ping\"}\n\n";

/// Silence of 30 s ahead of everything and again before the last words, a beat every 10 s.
async fn play(wire: Wire, script: &str, agent: &str) -> Played {
    Case::new(script)
        .wire(wire)
        .speed(100.0)
        .ask(Ask::stream(wire).header("user-agent", agent))
        .seconds("beats.every", 10.0)
        .set("bounds=off")
        .play()
        .await
}

const SCRIPT: &str =
    "status 200 sse; +35 role; text \"a\"; +35 text \"b\"; finish \"stop\"; done; eof";

fn pieces(got: &Got) -> Vec<&str> {
    let pieces = got.pieces.iter();
    pieces
        .map(|(_, piece)| std::str::from_utf8(piece).unwrap())
        .collect()
}

/// Its idle timer knows nothing but events with data, and runs from the headers on.
#[tokio::test]
async fn codex_is_sent_events_ahead_of_the_first_and_in_the_middle() {
    let played = play(Wire::OPENAI_RESPONSES, SCRIPT, CODEX).await;

    assert_eq!(played.code(), "completed");
    assert_eq!(played.got.beats(), Vec::<serde_json::Value>::new());
    let pieces = pieces(&played.got);
    let early = pieces.iter().take_while(|piece| **piece == KEEPALIVE);
    assert_eq!(early.count(), 3);
    // In the middle the last number is repeated.
    let at = pieces.iter().position(|it| it.contains("\"delta\":\"a\""));
    let (before, after) = pieces.split_at(at.unwrap() + 1);
    let number = before.last().unwrap().rsplit("\"sequence_number\":").next();
    let number = number.unwrap().split(['}', ',']).next().unwrap();
    let beat = format!(
        "event: keepalive\ndata: {{\"type\":\"keepalive\",\"sequence_number\":{number}}}\n\n"
    );
    assert_eq!(after[..3], [&*beat; 3]);
    let answer = played.got.text().replace(KEEPALIVE, "").replace(&beat, "");
    assert_eq!(answer, played.direct().await.text());
}

/// Events that are held are none that the reader has seen.
#[tokio::test]
async fn no_event_of_ours_has_a_number_before_one_of_the_answer_has_passed() {
    let wire = Wire::OPENAI_RESPONSES;
    let script = "status 200 sse; role; +35 text \"a\"; finish \"stop\"; done; eof";
    let played = play(wire, script, CODEX).await;
    assert_eq!(pieces(&played.got)[..3], [KEEPALIVE; 3]);

    let quiet = |script| {
        let case = Case::new(script).wire(wire).speed(100.0).attempts(1);
        case.seconds("beats.every", 10.0)
            .set("beats.form=event")
            .set("bounds=off")
            .play()
    };
    let played = quiet(script).await;
    assert_eq!(played.code(), "completed");
    assert_eq!(played.got.beats().len(), 3);
    assert_eq!(
        played.got.without_beats(),
        played.direct().await.text(),
        "an event went ahead of response.created"
    );

    let cut = quiet("status 200 sse; role; +25 cut").await;
    assert_eq!(cut.got.error_frame(wire)["sequence_number"], 0);
}

/// An event ahead of `response.created` breaks the readers of the SDKs.
#[tokio::test]
async fn another_reader_of_responses_is_sent_comments() {
    let played = play(Wire::OPENAI_RESPONSES, SCRIPT, "OpenAI/Python 2.9.0").await;

    assert_eq!(played.got.beats().len(), 6);
    assert!(!played.got.text().contains("keepalive"));
}

/// Its timer starts anew at an event of the answer, which the start is; a ping is any byte to it.
#[tokio::test]
async fn claude_code_is_sent_the_start_as_a_beat_once_there_is_one() {
    let script = "status 200 sse; +25 role; +30 text \"a\"; finish \"stop\"; done; eof";
    let played = play(Wire::ANTHROPIC, script, CLAUDE_CODE).await;

    assert_eq!(played.code(), "completed");
    let pieces = pieces(&played.got);
    // Ahead of the start, which comes with the third beat, nothing but comments.
    assert!(pieces[..2].iter().all(|piece| piece.starts_with(": {")));
    assert!(
        pieces[2].starts_with("event: message_start\n"),
        "{pieces:?}"
    );
    assert_eq!(pieces[3..5], [PING; 2]);
    let starts = played.got.text().matches("event: message_start").count();
    assert_eq!(starts, 1);
    assert_eq!(
        played.got.without_beats().replace(PING, ""),
        played.direct().await.text()
    );
}
