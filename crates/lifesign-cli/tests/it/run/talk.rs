//! A talk on a terminal that `script` makes.

use std::fs;
use std::path::Path;
use std::process::Command;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{Place, calls};
use crate::harness::{Provider, signal, wait_until};
use crate::screen::Screen;

/// A talk with the model `m`.
struct Talk {
    screen: Screen,
    /// How much of what was shown has been waited for.
    looked: usize,
}

impl Talk {
    /// Starts one in this place, where its history is kept too; `None` where this machine makes no
    /// terminal.
    fn start(provider: &Provider, place: &Place, words: &str) -> Option<Self> {
        Self::on(80, provider, place, words)
    }

    fn on(columns: u16, provider: &Provider, place: &Place, words: &str) -> Option<Self> {
        let words = format!(
            "run --base-url {} --wire openai-chat --model m --set retry.attempts=1 {words}",
            provider.url()
        );
        let home = place.path("");
        let home = home.to_str().unwrap();
        let screen = Screen::start(columns, &words, &[("HOME", home)])?;
        Some(Self { screen, looked: 0 })
    }

    /// Waits until the terminal gets `text`, behind what was waited for before.
    #[track_caller]
    fn shows(&mut self, text: &str) {
        let mut end = None;
        let what = format!("{text:?} after {}", self.looked);
        wait_until(&what, || {
            let shown = self.screen.text();
            let at = shown.get(self.looked..).and_then(|shown| shown.find(text));
            end = at.map(|at| self.looked + at + text.len());
            end.is_some()
        });
        self.looked = end.unwrap();
    }

    /// Waits for the prompt, and presses keys.
    #[track_caller]
    fn press(&mut self, keys: &str) {
        self.shows(PROMPT);
        self.screen.press(keys);
    }

    /// Waits for the prompt, and says `text`.
    #[track_caller]
    fn say(&mut self, text: &str) {
        self.press(&format!("{text}\r"));
    }

    /// Waits for the end; returns everything that was shown.
    #[track_caller]
    fn ends(mut self, code: u8) -> String {
        wait_until("the talk ends", || self.screen.is_over());
        self.screen.assert_left(code);
        self.screen.text()
    }

    /// Leaves at the prompt; returns everything that was shown.
    #[track_caller]
    fn leave(mut self) -> String {
        self.press(CTRL_D);
        self.ends(0)
    }
}

/// Returns what the person is heard to say in request `number`, counted from 0.
fn heard(provider: &Provider, number: usize) -> Vec<String> {
    let body = provider.requests()[number].json();
    let messages = body["messages"].as_array().unwrap().iter();
    let said = messages.filter(|message| message["role"] == "user");
    said.map(|message| message["content"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn what_is_said_is_answered_and_leaving_is_no_failure() {
    let provider = Provider::script("answer \"The tide turns.\"");
    let place = Place::new();
    let Some(mut talk) = Talk::start(&provider, &place, "") else {
        return;
    };

    talk.say("hello");
    talk.shows("The tide turns.\r\n");
    talk.say("and then?");
    talk.shows("The tide turns.\r\n");
    talk.leave();

    assert_eq!(heard(&provider, 1), ["hello", "and then?"]);
}

#[test]
fn silence_is_told_on_one_row_also_in_the_middle_of_an_answer() {
    let provider = Provider::script(
        "status 200 sse; role; repeat 0.1 { ping } x6; text \"Half \"; +1.6 answer \"whole\"",
    );
    let place = Place::new();
    let Some(mut talk) = Talk::start(&provider, &place, "") else {
        return;
    };

    talk.say("hello");
    talk.shows("Half ");
    talk.shows("whole");
    let shown = talk.leave();

    let (before, after) = shown.split_once("Half ").unwrap();
    let rows: Vec<&str> = before.split("\r\x1b[2K").skip(1).collect();
    assert!(rows.len() >= 3, "{before:?}");
    for row in &rows {
        assert!(row.chars().count() < 80 && !row.contains('\n'), "{row:?}");
    }
    assert!(
        rows.iter()
            .any(|row| row.contains("attempt 1  no content yet  cut in 9m59s by raw")),
        "{rows:?}"
    );
    // Below the words, whose row and column the cursor keeps, and gone before the next ones.
    let (below, _) = after.split_once("whole").unwrap();
    assert!(
        below.starts_with("\x1bD\x1b[A\x1b7\x1b[B\r\x1b[2K"),
        "{below:?}"
    );
    assert!(below.contains("  answering  "), "{below:?}");
    assert!(below.ends_with("\x1b8\x1b[J"), "{below:?}");
}

#[test]
fn ctrl_c_stops_the_turn_and_the_talk_goes_on_with_what_had_come() {
    let provider = Provider::script(
        "attempt 1:\nstatus 200 sse; role; text \"Half an\"; hold\nattempt 2:\nanswer \"Whole.\"",
    );
    let place = Place::new();
    let Some(mut talk) = Talk::start(&provider, &place, "") else {
        return;
    };

    talk.say("hello");
    talk.shows("Half an");
    talk.screen.press(CTRL_C);
    talk.shows("cancelled: You stopped the answer before it was complete.\r\n");
    provider.assert_left();
    talk.say("go on");
    talk.shows("the model is told: [The last turn ended before its answer was complete: it was");
    talk.shows("Whole.\r\n");
    talk.leave();

    let body = provider.requests()[1].json();
    let text = body["messages"].to_string();
    assert!(text.contains("Half an"), "{text}");
    let said = heard(&provider, 1).pop().unwrap();
    assert!(
        said.contains("it was stopped on purpose") && said.ends_with("go on"),
        "{said}"
    );
}

#[test]
fn ctrl_c_at_the_prompt_says_how_to_leave_and_sends_nothing() {
    let provider = Provider::script("answer \"Hello.\"");
    let place = Place::new();
    let Some(mut talk) = Talk::start(&provider, &place, "") else {
        return;
    };

    talk.press("half a line");
    talk.shows("half a line");
    talk.screen.press(CTRL_C);
    talk.shows("Ctrl-D or /quit leaves.\r\n");
    talk.say("/quit");
    talk.ends(0);

    assert!(provider.requests().is_empty());
}

#[test]
fn what_was_said_in_another_talk_is_a_key_away() {
    let provider = Provider::script("answer \"Hello.\"");
    let place = Place::new();
    let Some(mut talk) = Talk::start(&provider, &place, "") else {
        return;
    };
    talk.say("the first words");
    talk.shows("Hello.");
    talk.leave();

    let mut talk = Talk::start(&provider, &place, "").unwrap();
    talk.press("\x1b[A\r");
    talk.shows("Hello.");
    talk.leave();

    assert_eq!(heard(&provider, 1), ["the first words"]);
    let file = place.path(".local/state/lifesign/history");
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_history_is_kept_where_it_is_wanted_or_nowhere() {
    let provider = Provider::script("answer \"Hello.\"");
    let place = Place::new();
    let file = place.path("words");
    let Some(mut talk) = Talk::start(&provider, &place, "--history off") else {
        return;
    };
    talk.say("a secret");
    talk.shows("Hello.");
    talk.leave();

    let words = format!("--history {}", file.display());
    let mut talk = Talk::start(&provider, &place, &words).unwrap();
    talk.say("no secret");
    talk.shows("Hello.");
    talk.leave();

    assert!(!place.path(".local").exists());
    let kept = place.text("words");
    assert!(
        kept.contains("no secret") && !kept.contains("a secret"),
        "{kept}"
    );
}

#[test]
fn a_history_that_cannot_be_kept_is_said_once_and_keeps_nobody_from_talking() {
    let provider = Provider::script("answer \"Hello.\"");
    let place = Place::new();
    let file = place.write("file", "");
    let words = format!("--history {}/history", file.display());
    let Some(mut talk) = Talk::start(&provider, &place, &words) else {
        return;
    };

    talk.say("hello");
    talk.shows("Hello.");
    let shown = talk.leave();

    assert_eq!(
        shown.matches("note: what you say is not kept in").count(),
        1,
        "{shown}"
    );
}

#[test]
fn a_failed_turn_says_why_and_the_talk_goes_on() {
    let provider = Provider::script(
        "attempt 1:\nstatus 529 json; error overloaded_error \"Over\\u001b[31mloaded\"; eof\n\
         attempt 2:\nanswer \"Hello.\"",
    );
    let place = Place::new();
    let Some(mut talk) = Talk::start(&provider, &place, "") else {
        return;
    };

    talk.say("hello");
    talk.shows("provider_failed: ");
    talk.shows("what was seen: ");
    talk.say("again");
    talk.shows("Hello.");
    let shown = talk.leave();

    assert!(!shown.contains("\x1b[31m"), "{shown:?}");
}

#[test]
fn nothing_that_a_model_or_a_tool_says_commands_the_terminal() {
    let title = "\x1b]0;mine\x07";
    let call = calls(&[("c1", "read", json!({"path": "evil", "note": title}))]);
    let again = calls(&[("c2", "read", json!({"path": "evil"}))]);
    let provider = Provider::script(&format!(
        "attempt 1:\nstatus 200 sse; role; {call}\nattempt 2:\nstatus 200 sse; role; {again}\n\
         attempt 3:\nanswer \"It says \\u001b[31mred\\u001b]0;mine\\u0007.\""
    ));
    let place = Place::new();
    place.write("evil", &format!("so\x1b[2J{title}\r\nlong"));
    let words = format!("--tools read --dir {}", place.path("").display());
    let Some(mut talk) = Talk::on(200, &provider, &place, &words) else {
        return;
    };

    talk.say("read it");
    talk.shows("tool read: {\"path\":\"evil\"}\r\n");
    talk.shows("tool read ended after ");
    talk.shows("long\r\n");
    talk.shows("It says [31mred]0;mine.\r\n");
    let shown = talk.leave();

    for command in ["\x1b[31m", "\x1b]0;", "\x1b[2J", "\x07"] {
        assert!(!shown.contains(command), "{shown:?}");
    }
}

#[test]
fn a_terminal_that_cannot_wipe_a_row_is_given_no_row_to_wipe() {
    let shown = |terminal: &str| {
        let provider = Provider::script(
            "status 200 sse; repeat 0.1 { comment } x8; text \"Hello.\"; finish stop; done; eof",
        );
        let words = format!(
            "run --base-url {} --wire openai-chat --prompt go",
            provider.url()
        );
        let mut screen = Screen::start(80, &words, &[("TERM", terminal)])?;
        wait_until("the turn ends", || screen.is_over());
        screen.assert_left(0);
        Some(screen.text())
    };
    let (Some(dumb), Some(able)) = (shown("dumb"), shown("xterm")) else {
        return;
    };

    assert!(able.contains("\x1b[2K"), "{able:?}");
    assert!(
        !dumb.contains('\x1b') && dumb.contains("Hello."),
        "{dumb:?}"
    );
}

#[test]
fn commands_are_answered_here_and_never_said() {
    let provider = Provider::script("answer \"Hello.\"");
    let place = Place::new();
    let words = format!("--tools list,read --dir {}", place.path("").display());
    let Some(mut talk) = Talk::start(&provider, &place, &words) else {
        return;
    };

    talk.say("/nope");
    talk.shows("There is no /nope; there are /help, /tools, /status, /resume, /quit.");
    talk.say("/help");
    talk.shows("/status");
    talk.say("/tools");
    talk.shows("list  ");
    talk.shows("read  ");
    talk.say("/status");
    talk.shows("no turn has ended yet");
    talk.say("/resume");
    talk.shows("No turn is open");
    assert!(provider.requests().is_empty());
    talk.say("hello");
    talk.shows("Hello.");
    talk.say("/status");
    talk.shows("turn 1 completed after ");
    talk.shows("1 call, 1 attempt");
    talk.say("/quit");
    talk.ends(0);

    assert_eq!(heard(&provider, 0), ["hello"]);
}

#[test]
fn lines_that_belong_together_are_one_message() {
    let provider = Provider::script("answer \"Hello.\"");
    let place = Place::new();
    let Some(mut talk) = Talk::start(&provider, &place, "") else {
        return;
    };

    talk.press("one\\\r");
    talk.shows("one\\");
    talk.screen.press("two\r");
    talk.shows("Hello.");
    talk.press("\x1b[200~cc \\\r  a.c\rmake\x1b[201~\r");
    talk.shows("Hello.");
    talk.leave();

    assert_eq!(heard(&provider, 0), ["one\ntwo"]);
    assert_eq!(heard(&provider, 1)[1], "cc \\\n  a.c\nmake");
}

#[test]
fn a_turn_whose_program_died_is_offered_and_gone_on_with() {
    let provider = Provider::script("attempt 1:\nhold\nattempt 2:\nanswer \"Here I am.\"");
    let place = Place::new();
    let words = format!("--transcript {}", place.path("talk.jsonl").display());
    let Some(mut talk) = Talk::start(&provider, &place, &words) else {
        return;
    };
    talk.say("are you there?");
    provider.wait_for_request();
    signal(talk.screen.id(), "KILL");
    talk.shows("over=137=");
    drop(talk);

    let mut talk = Talk::start(&provider, &place, &words).unwrap();
    talk.shows("m at ");
    talk.shows("1 turn so far");
    talk.shows("The last turn did not end. /resume goes on with it");
    talk.say("/resume");
    talk.shows("Here I am.");
    talk.leave();

    assert_eq!(heard(&provider, 1), ["are you there?"]);
    let entries = place.entries("talk.jsonl");
    assert_eq!(entries, ["begin", "user", "resumed", "answer", "ended"]);
}

#[test]
fn a_turn_that_waits_for_a_limit_says_until_when_and_asks_nobody_before() {
    let provider =
        Provider::script("status 429 json [retry-after: 7200]; error rate_limit_error; eof");
    let place = Place::new();
    let Some(mut talk) = Talk::start(&provider, &place, "") else {
        return;
    };

    talk.say("are you there?");
    talk.shows("alert: the provider asks for a wait of 2 h");
    talk.shows("The last turn waits for a limit that is reset at 20");
    talk.say("/resume");
    talk.shows("The last turn waits for a limit that is reset at 20");
    talk.leave();

    assert_eq!(heard(&provider, 0), ["are you there?"]);
    provider.request();
}

#[test]
fn whoever_asks_it_to_terminate_gets_a_closed_transcript_and_the_terminal_back() {
    let provider = Provider::script("status 200 sse; role; text \"Half\"; hold");
    let place = Place::new();
    let words = format!("--transcript {}", place.path("talk.jsonl").display());
    let Some(mut talk) = Talk::start(&provider, &place, &words) else {
        return;
    };

    talk.say("hello");
    talk.shows("Half");
    signal(talk.screen.id(), "TERM");
    talk.ends(130);

    let text = place.text("talk.jsonl");
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&last["type"], &last["outcome"]),
        (&json!("ended"), &json!("cancelled"))
    );

    let mut talk = Talk::start(&provider, &place, &words).unwrap();
    talk.press("half a line");
    talk.shows("half a line");
    signal(talk.screen.id(), "TERM");
    let shown = talk.ends(0);

    // Pasted text is no longer marked.
    assert!(
        shown.rfind("\x1b[?2004l") > shown.rfind("\x1b[?2004h"),
        "{shown:?}"
    );
}

/// A terminal that goes away ended the program at once: the transcript stayed open, the terminal, where
/// it was still there, as the editor had made it.
#[cfg(target_os = "linux")]
#[test]
fn a_hangup_closes_the_transcript_and_gives_the_terminal_back() {
    let provider = Provider::script("status 200 sse; role; text \"Half\"; hold");
    let place = Place::new();
    let words = format!("--transcript {}", place.path("talk.jsonl").display());
    let Some(mut talk) = Talk::start(&provider, &place, &words) else {
        return;
    };

    talk.say("hello");
    talk.shows("Half");
    signal(talk.screen.id(), "HUP");
    talk.ends(130);
    assert_eq!(place.entries("talk.jsonl").last().unwrap(), "ended");

    let mut talk = Talk::start(&provider, &place, &words).unwrap();
    talk.press("half a line");
    talk.shows("half a line");
    signal(talk.screen.id(), "HUP");
    talk.ends(0);
}

/// Bytes of another encoding ended the talk, and a conversation without a file was lost.
#[test]
fn what_is_no_text_is_not_sent_and_the_talk_goes_on() {
    let provider = Provider::script("answer \"Hello.\"");
    let place = Place::new();
    let Some(mut talk) = Talk::start(&provider, &place, "") else {
        return;
    };

    talk.shows(PROMPT);
    talk.screen.press(b"caf\xe9 \xff noir\r");
    talk.shows("That is no text in UTF-8. Nothing of it was sent.");
    talk.say("hello");
    talk.shows("Hello.");
    talk.leave();

    assert_eq!(provider.requests().len(), 1);
    assert_eq!(heard(&provider, 0), ["hello"]);
}

/// A shell gives a program that is called back the modes that it likes itself: lines would have been
/// read whole, and shown twice.
#[cfg(target_os = "linux")]
#[test]
fn a_terminal_that_a_shell_has_had_is_taken_again() {
    let provider = Provider::script("answer \"Hello.\"");
    let place = Place::new();
    let Some(mut talk) = Talk::start(&provider, &place, "") else {
        return;
    };
    talk.press("half");
    talk.shows("half");
    let id = talk.screen.id();
    let terminal = fs::read_link(format!("/proc/{id}/fd/0")).unwrap();
    let stty = |word: &str| {
        let ran = Command::new("stty")
            .arg("-F")
            .args([&terminal, Path::new(word)])
            .output();
        String::from_utf8(ran.unwrap().stdout).unwrap()
    };

    signal(id, "STOP");
    wait_until("it stands still", || {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
        stat.contains(") T ")
    });
    stty("sane");
    signal(id, "CONT");
    talk.shows("\r\n> half");
    let modes = stty("-a");
    talk.screen.press(" a line\r");
    talk.shows("Hello.");
    talk.leave();

    assert!(
        modes.contains("-icanon") && modes.contains("-echo "),
        "{modes}"
    );
    assert_eq!(heard(&provider, 0), ["half a line"]);
}

/// What the editor draws before it takes keys.
const PROMPT: &str = "\x1b[K> ";

const CTRL_C: &str = "\x03";

const CTRL_D: &str = "\x04";
