//! Programs that die in the middle of a turn, and the next that goes on with it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use lifesign::{Client, Upstream, Wire};
use lifesign_agent::tools::{ProgressSink, ToolCall, ToolFuture, ToolResult, ToolSpec, Toolbox};
use lifesign_agent::{Agent, Entry, Transcript, TurnOutcome, TurnReport};
use lifesign_standin::Standin;
use pretty_assertions::assert_eq;
use serde_json::json;
use tempfile::TempDir;

use crate::harness::{Case, Tools, calls};
use crate::wire_rules::assert_accepted;

/// A tool that writes a line into a file and does not come back while another file is missing.
struct Scribe(PathBuf);

impl Toolbox for Scribe {
    fn tools(&self) -> Vec<ToolSpec> {
        vec![ToolSpec {
            name: "write".to_owned(),
            description: None,
            parameters: json!({"type": "object"}),
            timeout: None,
            is_parallel: false,
        }]
    }

    fn call(&self, call: ToolCall, _: ProgressSink) -> ToolFuture<'_> {
        Box::pin(async move {
            let path = self.0.join("written");
            let before = fs::read_to_string(&path).unwrap_or_default();
            fs::write(&path, format!("{before}{}\n", call.id)).unwrap();
            while call.arguments["hangs"] == true && !self.0.join("go").exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            ToolResult::ok("written")
        })
    }
}

fn agent(dir: &Path, url: &str, transcript: Transcript) -> Agent {
    let upstream = Upstream::new(Wire::OPENAI_CHAT, url).unwrap();
    Agent::builder(Client::new().unwrap(), upstream, "m")
        .tools(Arc::new(Scribe(dir.to_owned())))
        .transcript(transcript)
        .build()
        .unwrap()
}

/// Starts this test's own program again, which then has the turn of [`be_the_child`].
fn start_child(test: &str, dir: &Path, url: &str) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env("LIFESIGN_TEST_CHILD", dir)
        .env("LIFESIGN_TEST_URL", url)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Has a turn, if this program is the child of another that kills it.
async fn be_the_child() -> bool {
    let Some(dir) = env::var_os("LIFESIGN_TEST_CHILD").map(PathBuf::from) else {
        return false;
    };
    let url = env::var("LIFESIGN_TEST_URL").unwrap();
    let transcript = Transcript::create(dir.join("talk.jsonl")).unwrap();
    agent(&dir, &url, transcript)
        .turn("go")
        .report()
        .await
        .unwrap();
    true
}

async fn until(mut holds: impl FnMut() -> bool) {
    for _ in 0..2_000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("what was waited for did not happen");
}

async fn resume(dir: &TempDir, url: &str) -> (TurnReport, Transcript) {
    let path = dir.path().join("talk.jsonl");
    let (transcript, _) = Transcript::open(&path).unwrap();
    let mut agent = agent(dir.path(), url, transcript);
    let report = agent.resume().unwrap().report().await.unwrap();
    drop(agent);
    (report, Transcript::open(&path).unwrap().0)
}

#[tokio::test]
async fn a_program_killed_while_a_tool_runs_does_not_run_it_again() {
    if be_the_child().await {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let script = format!(
        "attempt 1: text \"I write.\"; {}\nattempt 2: answer \"Done.\"",
        calls(&[
            ("c1", "write", json!({"hangs": true})),
            ("c2", "write", json!({}))
        ])
    );
    let standin = Standin::script(&script).unwrap().start().await.unwrap();
    let test = "resume::a_program_killed_while_a_tool_runs_does_not_run_it_again";
    let mut child = start_child(test, dir.path(), &standin.url());
    until(|| dir.path().join("written").exists()).await;

    child.kill().unwrap();
    child.wait().unwrap();
    let (report, transcript) = resume(&dir, &standin.url()).await;

    // The first had run and is told as unknown; the second had not, and runs now.
    let written = fs::read_to_string(dir.path().join("written")).unwrap();
    assert_eq!(written, "c1\nc2\n");
    assert_eq!(
        (report.outcome, report.text.as_str()),
        (TurnOutcome::Completed, "Done.")
    );
    let body = assert_accepted(&transcript, Wire::OPENAI_CHAT);
    let messages = body["messages"].as_array().unwrap();
    assert_eq!(messages[1]["content"], "I write.");
    assert!(
        messages[2]["content"]
            .as_str()
            .unwrap()
            .contains("is unknown")
    );
    assert_eq!(messages[3]["content"], "written");
    assert_eq!(messages.len(), 5);
}

#[tokio::test]
async fn a_program_killed_while_the_model_answers_asks_again_and_loses_nothing_else() {
    if be_the_child().await {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let script = format!(
        "attempt 1: {}\nattempt 2: text \"Half of\"; hold\nattempt 3: answer \"Done.\"",
        calls(&[("c1", "write", json!({}))])
    );
    let standin = Standin::script(&script).unwrap().start().await.unwrap();
    let test = "resume::a_program_killed_while_the_model_answers_asks_again_and_loses_nothing_else";
    let mut child = start_child(test, dir.path(), &standin.url());
    assert!(standin.wait_for_requests(2, Duration::from_secs(10)).await);

    child.kill().unwrap();
    child.wait().unwrap();
    let (report, _) = resume(&dir, &standin.url()).await;

    assert_eq!(
        fs::read_to_string(dir.path().join("written")).unwrap(),
        "c1\n"
    );
    assert_eq!((report.outcome, report.turn), (TurnOutcome::Completed, 1));
    let requests = standin.requests();
    assert_eq!(
        requests[1].json()["messages"],
        requests[2].json()["messages"]
    );
}

/// Whatever line the program dies behind, each tool runs once at most, what was said stays, and the
/// turn comes to its end.
#[tokio::test]
async fn a_turn_goes_on_from_behind_any_line() {
    let tools = Arc::new(Tools::default());
    let look = |first: &str, second: &str| {
        calls(&[(first, "look", json!({})), (second, "write", json!({}))])
    };
    let half = "status 200 sse; text \"Nearly \"; cut";
    let script = format!(
        "attempt 1: {}\nattempt 2: {}\nattempt 3: {half}\nattempt 4: answer \"done.\"",
        look("c1", "c2"),
        look("c3", "c4")
    );
    let whole = Case::new(&script).tools(&tools).play().await;
    let entries = whole.entries().to_vec();
    assert_eq!(entries.len(), 15);

    for len in 2..entries.len() {
        let known = &entries[..len];
        let mut transcript = Transcript::in_memory();
        for entry in &known[1..] {
            transcript.append(entry.clone()).await.unwrap();
        }
        let tools = Arc::new(Tools::default());
        let standin = Standin::script("answer \"all is done.\"")
            .unwrap()
            .start()
            .await
            .unwrap();
        let upstream = Upstream::new(Wire::OPENAI_CHAT, &standin.url()).unwrap();
        let mut agent = Agent::builder(Client::new().unwrap(), upstream, "m")
            .tools(tools.clone())
            .transcript(transcript)
            .build()
            .unwrap();

        let report = agent.resume().unwrap().report().await.unwrap();

        assert_eq!(report.outcome, TurnOutcome::Completed, "behind {len} lines");
        let begun = known.iter().filter_map(|entry| match entry {
            Entry::ToolBegan { id, .. } => Some(id.clone()),
            _ => None,
        });
        let begun: Vec<_> = begun.collect();
        for asked in tools.asked() {
            assert!(
                !begun.iter().any(|id| asked.starts_with(id)),
                "{asked} ran twice"
            );
        }
        assert_eq!(&agent.transcript().entries()[1..len], &known[1..]);
        let is_answered =
            matches!(known.last(), Some(Entry::Answer(said)) if said.tool_calls.is_empty());
        assert_eq!(
            standin.requests().len(),
            usize::from(!is_answered),
            "behind {len} lines"
        );
        for wire in Wire::ALL {
            assert_accepted(agent.transcript(), wire);
        }
        assert!(agent.resume().is_none());
    }
}

#[tokio::test]
async fn a_turn_that_was_dropped_is_closed_by_the_next_and_the_model_is_told() {
    let script = "attempt 1: hold\nattempt 2: answer \"ok\"";
    let standin = Standin::script(script).unwrap().start().await.unwrap();
    let upstream = Upstream::new(Wire::OPENAI_CHAT, &standin.url()).unwrap();
    let mut agent = Agent::builder(Client::new().unwrap(), upstream, "m")
        .build()
        .unwrap();
    {
        let mut turn = agent.turn("go");
        let read = async { while turn.next().await.is_some() {} };
        tokio::select! {
            () = read => panic!("the turn ended"),
            came = standin.wait_for_requests(1, Duration::from_secs(10)) => assert!(came),
        }
    }
    assert!(agent.transcript().standing().is_open);

    let report = agent.turn("again").report().await.unwrap();

    assert_eq!((report.outcome, report.turn), (TurnOutcome::Completed, 2));
    let left = standin
        .wait_for_peer_closed(0, Duration::from_secs(1))
        .await;
    assert!(left.is_some());
    let said = standin.requests()[1].json()["messages"][0]["content"].clone();
    assert_eq!(
        said,
        "go\n\n[The last turn was interrupted before its answer was complete. A reply may still be \
         given if one is owed.]\n\nagain"
    );
}

#[tokio::test]
async fn reminders_are_counted_over_the_whole_exchange() {
    let whole = Case::new("answer \"\"").play().await;
    let entries = whole.entries();
    let second = entries
        .iter()
        .position(|entry| matches!(entry, Entry::Nudge { .. }))
        .unwrap()
        + 3;
    let mut transcript = Transcript::in_memory();
    for entry in &entries[1..second] {
        transcript.append(entry.clone()).await.unwrap();
    }
    let upstream = Upstream::new(Wire::OPENAI_CHAT, &whole.standin.url()).unwrap();
    let mut agent = Agent::builder(Client::new().unwrap(), upstream, "m")
        .transcript(transcript)
        .build()
        .unwrap();

    let report = agent.resume().unwrap().report().await.unwrap();

    // Two were given before the program died.
    assert_eq!(
        (report.outcome, report.counts.nudges),
        (TurnOutcome::NoReply, 1)
    );
}
