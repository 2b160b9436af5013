//! What a benchmark sees that runs many tasks unattended, as programs, against a provider that fails
//! in every way.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::harness::{Program, Provider};
use crate::run::{Place, calls};

/// A way in which a task goes, its true outcome, and the code of the failure behind it.
struct Task {
    script: String,
    outcome: &'static str,
    code: &'static str,
    exit: i32,
    more: Vec<String>,
    /// Whether somebody stops it once its first request has come.
    is_stopped: bool,
}

impl Task {
    fn with(mut self, more: &[&str]) -> Self {
        self.more.extend(more.iter().map(|&word| word.to_owned()));
        self
    }

    fn stopped(mut self) -> Self {
        self.is_stopped = true;
        self
    }
}

fn task(script: impl Into<String>, outcome: &'static str, code: &'static str, exit: i32) -> Task {
    Task {
        script: script.into(),
        outcome,
        code,
        exit,
        more: Vec::new(),
        is_stopped: false,
    }
}

fn tasks() -> Vec<Task> {
    let list = calls(&[("c1", "list", json!({}))]);
    let half = "tool {\"index\":0,\"id\":\"c1\",\"type\":\"function\",\"function\":\
                {\"name\":\"list\",\"arguments\":\"{\"}}";
    let pings = "status 200 sse; repeat 0.03 { comment } forever";
    let overloaded = "status 529 json; error overloaded_error; eof";
    let limited = "status 429 json [retry-after-ms: 10]; error rate_limit_error; eof";
    let failing = "status 500 json; error server_error; eof";
    let read = calls(&[("c1", "read", json!({"path": "Cargo.toml"}))]);
    vec![
        task("answer \"42\"", "completed", "none", 0),
        task(
            format!("attempt 1: {list}\nattempt 2: answer \"42\""),
            "completed",
            "none",
            0,
        ),
        task(
            "attempt 1: hold\nattempt 2: answer \"42\"",
            "completed",
            "none",
            0,
        ),
        task(
            format!("attempt 1: {pings}\nattempt 2: answer \"42\""),
            "completed",
            "none",
            0,
        ),
        task(
            "attempt 1: status 200 sse; text \"4\"; rst\nattempt 2: answer \"2\"",
            "completed",
            "none",
            0,
        ),
        task(
            "attempt 1: status 200 sse; text \"4\"; hold\nattempt 2: answer \"2\"",
            "completed",
            "none",
            0,
        ),
        task(
            format!("attempt 1: status 200 sse; {half}; rst\nattempt 2: answer \"42\""),
            "completed",
            "none",
            0,
        ),
        task(
            format!("attempt 1-2: {overloaded}\nattempt 3: answer \"42\""),
            "completed",
            "none",
            0,
        ),
        task(
            format!("attempt 1: {pings}\nattempt 2: {failing}\nattempt 3: answer \"42\""),
            "completed",
            "none",
            0,
        ),
        task(
            format!(
                "attempt 1: {pings}\nattempt 2: {failing}\nattempt 3: {pings}\n\
                 attempt 4: answer \"42\""
            ),
            "completed",
            "none",
            0,
        ),
        // A compaction that hangs.
        task(
            format!("attempt 1: {read}\nattempt 2: hold\nattempt 3: answer \"42\""),
            "completed",
            "none",
            0,
        )
        .with(&[
            "--context-tokens",
            "900",
            "--set",
            "bounds.whole_call=400ms",
        ]),
        task(
            "attempt 1: answer \"\"\nattempt 2: answer \"42\"",
            "completed",
            "none",
            0,
        ),
        task("answer \"\"", "no_reply", "none", 9),
        task("think \"hm\"; answer \"\"", "no_reply", "none", 9),
        task(
            "text \"4\"; finish \"length\"; done; eof",
            "truncated",
            "none",
            3,
        ),
        task(
            "status 200 sse; text \"4\"; rst",
            "truncated",
            "connection_lost",
            8,
        ),
        task(
            "status 200 sse; text \"4\"; eof",
            "truncated",
            "truncated",
            3,
        ),
        task("status 200 sse; hold", "provider_failed", "raw_silent", 5),
        task(pings, "provider_failed", "heartbeats_only", 5),
        task("status 200 sse; eof", "provider_failed", "empty", 4),
        task(failing, "provider_failed", "provider_error", 4),
        task(overloaded, "provider_failed", "overloaded", 4),
        task(limited, "provider_failed", "rate_limited", 7),
        task(
            "status 429 json [retry-after: 600]; error rate_limit_error; eof",
            "provider_failed",
            "exhausted",
            7,
        ),
        task(
            "status 401 json; error authentication_error; eof",
            "provider_failed",
            "rejected",
            4,
        ),
        task("rst", "provider_failed", "connection_lost", 8),
        task(
            "status 200 sse; repeat 0.02 { text \"4\" } forever",
            "wall_timeout",
            "wall_clock",
            6,
        ),
        task("status 200 sse; hold", "cancelled", "cancelled", 130).stopped(),
        task(
            limited.replace("10]", "4000]"),
            "cancelled",
            "cancelled",
            130,
        )
        .stopped(),
    ]
}

/// A task in which a server's model call drips.
fn sampling(servers: &str) -> Task {
    let ask = calls(&[("c1", "ask", json!({"text": "6 * 7?"}))]);
    let drip = "status 200 sse; repeat 0.03 { comment } forever";
    let script = format!("attempt 1: {ask}\nattempt 2-3: {drip}\nattempt 4: answer \"42\"");
    task(script, "completed", "none", 0).with(&["--mcp", servers])
}

#[test]
fn the_table_of_outcomes_is_the_truth_and_no_fault_of_a_provider_is_a_missing_reply() {
    let place = Place::new();
    let mut tasks = tasks();
    if let Some(servers) = place.servers("tests", &json!({})) {
        tasks.push(sampling(servers.to_str().unwrap()));
    }
    let rounds = TASKS.div_ceil(tasks.len());
    let table = Mutex::new(BTreeMap::<(&str, String), usize>::new());
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= rounds * tasks.len() {
                return;
            }
            let task = &tasks[number % tasks.len()];
            let outcome = play(task);
            *table
                .lock()
                .unwrap()
                .entry((task.outcome, outcome))
                .or_default() += 1;
        }
    };

    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(work);
        }
    });

    let mut expected = BTreeMap::new();
    for task in &tasks {
        *expected
            .entry((task.outcome, task.outcome.to_owned()))
            .or_default() += rounds;
    }
    assert_eq!(expected.len(), 6, "every outcome is among them");
    assert_eq!(table.into_inner().unwrap(), expected);
}

/// Plays a task in a program of its own, and returns the outcome that it tells.
fn play(task: &Task) -> String {
    let provider = Provider::script(&task.script);
    let running = [
        "bounds.raw_silence=400ms",
        "bounds.between_events=400ms",
        "bounds.flat=600ms",
    ]
    .iter()
    .fold(Program::turn(&provider.url()), |turn, set| turn.set(set))
    .args(&["--wall-clock", "5s", "--prompt", "6 * 7?", "--json"])
    .args(&["--tools", "list,read", "--dir", env!("CARGO_MANIFEST_DIR")])
    .args(&task.more)
    .start();
    if task.is_stopped {
        provider.wait_for_request();
        running.signal("INT");
    }
    let ran = running.wait();
    let report = ran.turn_report();
    let code = report["failure"]["code"].as_str().unwrap_or("none");
    assert_eq!(
        (code, ran.code),
        (task.code, task.exit),
        "{}: {report}",
        task.script
    );
    report["outcome"].as_str().unwrap().to_owned()
}

/// Tasks in all, at least: each way is taken as often as any other.
const TASKS: usize = 200;

/// Programs at once.
const AT_ONCE: usize = 8;
