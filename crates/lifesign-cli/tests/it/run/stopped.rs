//! Somebody stops the turn, wherever it stands: what had come is kept, and the result is there.

use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::{Program, Provider, Ran, Running, wait_until};
use crate::run::{Place, calls};

fn start(provider: &Provider, place: &Place, more: &[&str]) -> Running {
    Program::turn(&provider.url())
        .args(&["--prompt", "go", "--json", "--transcript"])
        .args(&[place.path("talk.jsonl")])
        .args(more)
        .start()
}

/// Asserts that the turn was cancelled, and that the transcript says so.
#[track_caller]
fn assert_cancelled(ran: &Ran, place: &Place, text: &str) -> Value {
    ran.assert_code(130);
    let report = ran.turn_report();
    assert_eq!(report["outcome"], "cancelled");
    assert_eq!(report["failure"]["code"], "cancelled");
    assert_eq!(report["text"], text);
    let transcript = place.text("talk.jsonl");
    let last = transcript.lines().last().unwrap();
    assert!(
        last.contains("\"ended\"") && last.contains("\"cancelled\""),
        "{last}"
    );
    report
}

#[test]
fn before_content() {
    let provider = Provider::script("hold");
    let place = Place::new();
    let running = start(&provider, &place, &[]);
    provider.wait_for_request();

    running.signal("INT");

    assert_cancelled(&running.wait(), &place, "");
    provider.assert_left();
}

#[test]
fn in_the_middle_of_an_answer() {
    let provider = Provider::script(
        "status 200 sse; role; text \"Once \"; text \"upon\"; repeat 0.02 { comment } forever",
    );
    let place = Place::new();
    let running = start(&provider, &place, &[]);
    provider.wait_for_writes(8);

    running.signal("TERM");

    assert_cancelled(&running.wait(), &place, "Once upon");
    provider.assert_left();
    assert_eq!(
        place.entries("talk.jsonl"),
        ["begin", "user", "partial", "ended"]
    );
}

/// Sends `signal` while a program of the tool `run` runs, and waits until that is gone too.
fn assert_stopped_in_a_tool(signal: &str) {
    let command = "echo $$ > id; sleep 60";
    let provider = Provider::script(&calls(&[("c1", "run", json!({"command": command}))]));
    let place = Place::new();
    let dir = place.0.path().to_str().unwrap();
    let running = start(
        &provider,
        &place,
        &["--tools", "run", "--shell", "--dir", dir],
    );
    wait_until("the tool runs", || place.text("id").ends_with('\n'));

    running.signal(signal);

    let report = assert_cancelled(&running.wait(), &place, "");
    assert!(report["times_ms"]["tools"].as_u64().unwrap() > 0);
    assert_eq!(
        place.entries("talk.jsonl"),
        [
            "begin",
            "user",
            "answer",
            "tool_began",
            "tool_ended",
            "ended"
        ]
    );
    let stat = format!("/proc/{}/stat", place.text("id").trim());
    wait_until("the tool is gone", || {
        std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "))
    });
}

#[test]
fn while_a_tool_runs() {
    assert_stopped_in_a_tool("INT");
}

/// The program died of it, and what a tool had started went on.
#[cfg(target_os = "linux")]
#[test]
fn by_a_terminal_that_goes_away_while_a_tool_runs() {
    assert_stopped_in_a_tool("HUP");
}

#[test]
fn while_a_server_is_at_a_call() {
    let place = Place::new();
    let Some(servers) = place.servers("tests", &json!({})) else {
        return;
    };
    let wait = calls(&[("c1", "wait", json!({"file": place.path("began")}))]);
    let provider = Provider::script(&wait);
    let running = start(&provider, &place, &["--mcp", servers.to_str().unwrap()]);
    wait_until("the tool runs", || place.text("began") == "began\n");

    running.signal("INT");

    assert_cancelled(&running.wait(), &place, "");
}

#[test]
fn while_a_limit_is_waited_out() {
    let provider =
        Provider::script("status 429 json [retry-after: 20]; error rate_limit_error; eof");
    let place = Place::new();
    let running = start(&provider, &place, &[]);
    provider.wait_for_request();

    running.signal("INT");

    let report = assert_cancelled(&running.wait(), &place, "");
    assert_eq!(report["counts"]["attempts"], 1);
    assert_eq!(provider.requests().len(), 1);
}

#[test]
fn before_there_is_a_task() {
    let provider = Provider::script("answer \"ok\"");
    let running = Program::turn(&provider.url()).start_between_idlers();
    wait_until("it listens", || running.hears_interrupts());

    running.signal("INT");

    running.wait().assert_code(130).assert_said("cancelled: ");
    assert!(provider.requests().is_empty());
}

#[test]
fn while_a_server_does_not_come_up() {
    let place = Place::new();
    let server =
        json!({"command": "sh", "args": ["-c", "echo $$ > id; sleep 60"], "cwd": place.0.path()});
    let servers = place.write(
        "mcp.json",
        &json!({"mcpServers": {"slow": server}}).to_string(),
    );
    let provider = Provider::script("answer \"ok\"");
    let running = start(&provider, &place, &["--mcp", servers.to_str().unwrap()]);
    wait_until("the server runs", || place.text("id").ends_with('\n'));

    running.signal("INT");

    let ran = running.wait();
    ran.assert_code(130);
    assert_eq!(ran.turn_report()["outcome"], "cancelled");
    let stat = format!("/proc/{}/stat", place.text("id").trim());
    wait_until("the server is gone", || {
        std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "))
    });
    assert!(provider.requests().is_empty());
}

/// Servers had as long as they liked, whatever the turn was allowed.
#[test]
fn by_its_wall_clock_while_a_server_does_not_come_up() {
    let place = Place::new();
    let server = json!({"command": "sleep", "args": ["60"]});
    let config = json!({"mcpServers": {"slow": server}}).to_string();
    let servers = place.write("mcp.json", &config);
    let provider = Provider::script("answer \"ok\"");
    let limit = ["--wall-clock", "300ms", "--mcp", servers.to_str().unwrap()];

    let ran = start(&provider, &place, &limit).wait();

    ran.assert_code(6);
    let report = ran.turn_report();
    assert_eq!(report["outcome"], "wall_timeout");
    assert_eq!(report["failure"]["setting"], "--wall-clock");
    assert_eq!(
        report["failure"]["message"],
        "the time for the turn ran out while its tool servers were starting (--wall-clock = 300 ms, \
         call)"
    );
    assert_eq!(
        report["sentence"],
        "The 300 ms you allowed ran out before the answer began; ask for less or allow more."
    );
    assert_eq!(
        (&report["turn"], &report["counts"]["turns"]),
        (&json!(0), &json!(0))
    );
    assert!(ran.took < Duration::from_secs(5), "{:?}", ran.took);
    assert!(provider.requests().is_empty());
}

/// A turn whose servers take long to start has less time left.
#[test]
fn by_its_wall_clock_that_began_before_its_servers() {
    let place = Place::new();
    let Some(servers) = place.servers("tests", &json!({"env": {"STARTS_AFTER": "2"}})) else {
        return;
    };
    let provider = Provider::script("hold");
    let limit = ["--wall-clock", "4s", "--mcp", servers.to_str().unwrap()];

    let ran = start(&provider, &place, &limit).wait();

    ran.assert_code(6);
    let report = ran.turn_report();
    assert_eq!(report["failure"]["limit_ms"], 4_000);
    let elapsed = report["times_ms"]["elapsed"].as_u64().unwrap();
    assert!(elapsed < 2_500, "{elapsed}");
}

#[test]
fn whom_we_wait_for_is_told() {
    let place = Place::new();
    let server = json!({"command": "sleep", "args": ["60"]});
    let config = json!({"mcpServers": {"slow": server}}).to_string();
    let running = Program::turn("http://127.0.0.1:9")
        .args(&["--prompt", "go", "--mcp"])
        .args(&[place.write("mcp.json", &config)])
        .start();

    let told = running.wait_for_note("waiting for tool servers to start: ");

    assert_eq!(told, "slow");
    running.signal("INT");
    running.wait().assert_code(130).assert_said("cancelled: ");
}

#[test]
fn a_second_signal_does_not_wait_for_a_server_that_does_not_end() {
    let place = Place::new();
    let Some(servers) = place.servers("tests", &json!({"env": {"STAYS": "1"}})) else {
        return;
    };
    let provider = Provider::script("hold");
    let quickest = (0..3)
        .map(|_| {
            let talk = Place::new();
            let sent = provider.requests().len();
            let running = start(&provider, &talk, &["--mcp", servers.to_str().unwrap()]);
            wait_until("a request", || provider.requests().len() > sent);
            running.signal("INT");
            running.wait_for_output("cancelled");
            running.signal("INT");
            let ran = running.wait();
            assert_cancelled(&ran, &talk, "");
            ran.took
        })
        .min();

    assert!(quickest.unwrap() < Duration::from_secs(1), "{quickest:?}");
}
