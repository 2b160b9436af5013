//! The journal of a gateway that is killed, or whose disk is full, and what is reported of it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lifesign::clock::now;
use pretty_assertions::assert_eq;
use rusqlite::{Connection, OpenFlags};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::house::{Caller, Gateway, Upstream, chat, eventually, request, upstream};
use crate::harness::{Program, Ran};

/// What a crash may cost: records are written together every 50 ms, and the rest is for a disk that
/// others use too.
const LOSS: Duration = Duration::from_millis(500);

/// Calls that ended whole, with the moment at which their callers knew.
type Whole = Arc<Mutex<Vec<(String, Instant)>>>;

fn with_journal(settings: &str, path: &Path) -> String {
    format!("[journal]\npath = \"{}\"\n{settings}", path.display())
}

/// Calls again and again until the gateway is gone.
async fn load(address: std::net::SocketAddr, whole: Whole) {
    while let Ok(socket) = TcpStream::connect(address).await {
        let mut caller = Caller::new(socket);
        caller.send(&chat("connection: close\r\n", true)).await;
        let Ok(read) = caller.read_to_end().await else {
            return;
        };
        if read.ends_with("0\r\n\r\n") {
            let id = read
                .lines()
                .find_map(|line| line.strip_prefix("x-lifesign-call: "));
            let id = id.unwrap().to_owned();
            whole.lock().unwrap().push((id, now()));
        }
    }
}

fn open(path: &Path) -> Connection {
    Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap()
}

fn number(connection: &Connection, sql: &str) -> i64 {
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

fn report(path: &Path, more: &[&str]) -> Ran {
    Program::new(&["report", "--journal"])
        .args(&[path.as_os_str()])
        .args(more)
        .run()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_journal_survives_twenty_kills_under_load_and_misses_the_last_moment_at_most() {
    let answering = Upstream::answering().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("calls.db");
    let settings = with_journal(&upstream("a", answering.address, ""), &path);
    let mut all = 0;
    for round in 0..20 {
        let gateway = Gateway::start(&settings).await;
        let whole = Whole::default();
        let mut callers = JoinSet::new();
        for _ in 0..8 {
            callers.spawn(load(gateway.address, Arc::clone(&whole)));
        }
        // At whatever instant of a batch.
        sleep(LOSS + Duration::from_millis(100 + fastrand::u64(..200))).await;

        let killed = now();
        gateway.kill().await;

        callers.join_all().await;
        let connection = open(&path);
        let integrity: String = connection
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .unwrap();
        assert_eq!(integrity, "ok", "round {round}");
        let whole = whole.lock().unwrap();
        let must = whole.iter().filter(|(_, ended)| *ended + LOSS < killed);
        let mut find = connection
            .prepare("SELECT count(*) FROM calls JOIN attempts ON call = id WHERE id = ?1 AND ended_at > 0")
            .unwrap();
        let mut seen = 0;
        for (id, ended) in must {
            let found: i64 = find.query_row([id], |row| row.get(0)).unwrap();
            let before = killed - *ended;
            assert_eq!(
                found, 1,
                "{id} ended {before:?} before the kill of round {round}"
            );
            seen += 1;
        }
        assert!(seen > 0, "nothing ended early enough in round {round}");
        all += whole.len();
    }
    let connection = open(&path);
    assert_eq!(
        number(
            &connection,
            "SELECT count(*) FROM runs WHERE stopped_at IS NULL"
        ),
        20
    );
    let kept = number(&connection, "SELECT count(*) FROM ends");
    assert!(
        kept <= i64::try_from(all).unwrap() + 20 * 8,
        "{kept} of {all}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_and_ten_calls_write_one_journal_at_once_and_lose_nothing() {
    let answering = Upstream::answering().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("calls.db");
    let settings = with_journal(&upstream("a", answering.address, ""), &path);
    let gateway = Gateway::start(&settings).await;
    let whole = Whole::default();
    let mut callers = JoinSet::new();
    for _ in 0..8 {
        callers.spawn(load(gateway.address, Arc::clone(&whole)));
    }

    let url = format!("http://{}", answering.address);
    let calls: Vec<_> = (0..10)
        .map(|_| {
            let call = Program::call(&url, "openai-chat").args(&["--journal"]);
            call.args(&[path.as_os_str()]).start()
        })
        .collect();

    for call in calls {
        eventually("a call ends", || call.is_over()).await;
        let ran = call.wait();
        ran.assert_code(0);
        assert!(!ran.stderr.contains("journal"), "{ran:?}");
    }
    gateway.signal("TERM");
    gateway.wait().await.assert_code(0);
    callers.join_all().await;
    let connection = open(&path);
    let of_programs = "SELECT count(*) FROM calls JOIN runs ON runs.id = run
                       WHERE outcome = 'completed' AND stopped_at > 0 AND status IS NULL";
    assert_eq!(number(&connection, of_programs), 10);
    let of_gateway = "SELECT count(*) FROM calls WHERE outcome = 'completed' AND status = 200";
    let told = i64::try_from(whole.lock().unwrap().len()).unwrap();
    let kept = number(&connection, of_gateway);
    assert!(
        told > 0 && (told..=told + 8).contains(&kept),
        "{kept} of {told}"
    );
    assert_eq!(number(&connection, "SELECT count(*) FROM lost"), 0);
}

/// A disk of its own, which nobody but the gateway sees; `None` where this machine allows none.
async fn on_a_small_disk(settings: &str, disk: &Path) -> Option<Gateway> {
    let mount = format!("mount -t tmpfs -o size=512k none {}", disk.display());
    let may = std::process::Command::new("unshare")
        .args(["-m", "sh", "-c", &mount])
        .status();
    if !may.is_ok_and(|status| status.success()) {
        return None;
    }
    let script = format!("{mount} && exec \"$@\"");
    let wrapper = ["unshare", "-m", "sh", "-c", &script, "sh"];
    Some(Gateway::start_as(settings, |program| program.through(&wrapper)).await)
}

async fn ready(gateway: &Gateway) -> Value {
    let ready = gateway.response(&request("GET", "/readyz", "", "")).await;
    assert_eq!(ready.status, 200);
    ready.json()
}

async fn calls_until(gateway: &Gateway, state: &str) -> Value {
    let began = now();
    loop {
        for _ in 0..20 {
            let response = gateway.response(&chat("", true)).await;
            assert_eq!(response.status, 200, "{response:?}");
        }
        let ready = ready(gateway).await;
        if ready["journal"]["state"] == state {
            return ready;
        }
        assert!(began.elapsed() < Duration::from_mins(1), "{ready}");
    }
}

fn count(log: &str, line: &str) -> usize {
    log.lines().filter(|it| it.contains(line)).count()
}

#[tokio::test]
async fn a_full_disk_fails_no_call_and_is_told_by_log_and_readiness_until_there_is_room() {
    let answering = Upstream::answering().await;
    let directory = tempfile::tempdir().unwrap();
    let disk = directory.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let path = disk.join("calls.db");
    let settings = with_journal(&upstream("a", answering.address, ""), &path);
    let Some(gateway) = on_a_small_disk(&settings, &disk).await else {
        eprintln!("skipped: this machine mounts no file system");
        return;
    };
    // As the gateway sees it.
    let root = PathBuf::from(format!("/proc/{}/root", gateway.id()));
    let inside = |path: &Path| root.join(path.strip_prefix("/").unwrap());
    let filler = inside(&disk.join("filler"));
    std::fs::write(&filler, vec![1; 128 << 10]).unwrap();

    let full = calls_until(&gateway, "failing").await;

    let error = full["journal"]["error"].as_str().unwrap();
    assert!(error.contains("full") || error.contains("I/O"), "{error}");
    assert_eq!(full["status"], "ready");
    eventually("the log tells it", || {
        count(&gateway.log(), "the journal cannot be written") == 1
    })
    .await;
    std::fs::remove_file(&filler).unwrap();
    eventually("the log tells that it is over", || {
        count(&gateway.log(), "the journal is written again") == 1
    })
    .await;
    assert_eq!(count(&gateway.log(), "the journal cannot be written"), 1);
    // SQLite follows no path of another's into its own root: it gets a copy, while nobody writes.
    let copy = directory.path().join("copy.db");
    for end in ["", "-wal"] {
        let name = |path: &Path| PathBuf::from(format!("{}{end}", path.display()));
        std::fs::copy(inside(&name(&path)), name(&copy)).unwrap();
    }
    let connection = open(&copy);
    let integrity: String = connection
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(integrity, "ok");
}

/// The same by a limit of the process on the length of its files, which needs nobody's leave.
#[tokio::test]
async fn a_file_that_may_not_grow_fails_no_call() {
    let answering = Upstream::answering().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("calls.db");
    let settings = with_journal(&upstream("a", answering.address, ""), &path);
    let script = "trap '' XFSZ; ulimit -f 400; exec \"$@\"";
    let wrapper = ["sh", "-c", script, "sh"];
    let gateway = Gateway::start_as(&settings, |program| program.through(&wrapper)).await;

    let full = calls_until(&gateway, "failing").await;

    assert_eq!(full["status"], "ready");
    eventually("the log tells it", || {
        count(&gateway.log(), "the journal cannot be written") == 1
    })
    .await;
    gateway.signal("TERM");
    gateway.wait().await.assert_code(0);
}

#[tokio::test]
async fn a_report_names_what_ran_out_where_and_the_setting_to_change() {
    let silent = Upstream::silent().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("calls.db");
    let bounds = "[bounds]\nheaders = \"200ms\"\n[retry]\nattempts = 1\n";
    let settings = with_journal(
        &format!("{bounds}{}", upstream("slow-one", silent.address, "")),
        &path,
    );
    let gateway = Gateway::start(&settings).await;
    let response = gateway.response(&chat("", true)).await;
    assert_eq!(response.status, 504);
    let config = gateway.directory.path().join("gateway.toml");

    // While it writes.
    eventually("the end is in the journal", || {
        path.exists() && number(&open(&path), "SELECT count(*) FROM ends") == 1
    })
    .await;
    let text = report(&path, &["--since", "1h"]);
    let json = report(&path, &["--json", "--code", "raw_silent"]);
    let other = report(&path, &["--upstream", "another"]);
    let named = Program::new(&["report", "--config"])
        .args(&[config.as_os_str()])
        .run();

    text.assert_code(0);
    let line = |start: &str| {
        let mut lines = text.stdout.lines().map(str::trim);
        let line = lines
            .find(|line| line.starts_with(start))
            .map(str::to_owned);
        line.unwrap_or_else(|| panic!("no line {start} in {}", text.stdout))
    };
    assert!(line("1 call since ").ends_with(": 1 failed"));
    let cut = line("headers ");
    let words: Vec<_> = cut.split_whitespace().collect();
    // Nothing ever came, so no setting is named that would only make callers wait for longer.
    let start = "headers 1 slow-one 200 ms - none: nothing completed here; see the upstream ";
    assert!(words.join(" ").starts_with(start), "{cut}");
    assert!(cut.ends_with("gateway.toml:4"), "{cut}");
    let failed = line("raw_silent ");
    assert!(failed.contains("nothing arrived for 200 ms"), "{failed}");
    let report: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(report["v"], 1);
    assert_eq!(report["calls"]["failed"], 1);
    assert_eq!(report["by_bound"][0]["setting"], "bounds.headers");
    assert_eq!(report["silences"][0]["upstream"], "slow-one");
    assert_eq!(other.stdout, "no call in all\n");
    named.assert_code(0);
    assert!(
        named.stdout.starts_with("1 call in all: 1 failed\n"),
        "{}",
        named.stdout
    );
}

#[tokio::test]
async fn a_report_on_a_full_line_names_how_full_it_was_and_what_lets_calls_wait_less() {
    let silent = Upstream::silent().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("calls.db");
    let one = upstream("one", silent.address, "concurrency = 1\nqueue = 0\n");
    let gateway = Gateway::start(&with_journal(&one, &path)).await;
    let _first = gateway.ask().await;
    let lane =
        async || gateway.admin("GET", "/lifesign/upstreams").await.json()["upstreams"][0].clone();
    while lane().await["in_flight"] != 1 {
        sleep(Duration::from_millis(5)).await;
    }

    let refused = gateway.response(&chat("", true)).await;

    assert_eq!(refused.status, 429);
    eventually("the end is in the journal", || {
        path.exists() && number(&open(&path), "SELECT count(*) FROM ends") == 1
    })
    .await;
    let text = report(&path, &[]).stdout;
    let mut lines = text.lines().map(str::trim);
    assert!(lines.any(|line| line.starts_with("What ran out, and the setting behind it ")));
    let cut = lines.find(|line| line.starts_with("queue_full ")).unwrap();
    let words: Vec<_> = cut.split_whitespace().collect();
    let start = "queue_full 1 one 1 under way (upstream.concurrency = 1), 0 in line \
                 (upstream.queue = 0) - upstream.concurrency ";
    assert!(words.join(" ").starts_with(start), "{text}");
    assert!(cut.contains("gateway.toml:"), "{text}");
}

#[test]
fn a_report_that_cannot_be_made_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("calls.db");
    let missing = report(&path, &[]);
    std::fs::write(
        &path,
        "no journal, and long enough to be read as one, if it were one",
    )
    .unwrap();
    let broken = report(&path, &[]);
    let nowhere = Program::new(&["report"]).run();
    let code = report(&path, &["--code", "raw_silence"]);
    let age = report(&path, &["--since", "5"]);

    for (ran, told) in [
        (missing, "there is no such file"),
        (broken, "file is not a database"),
        (nowhere, "error: no journal is named; give --journal FILE"),
        (code, "no failure has the code \"raw_silence\"; accepted: "),
        (age, "has no unit"),
    ] {
        ran.assert_code(2);
        assert!(ran.stderr.contains(told), "{}", ran.stderr);
    }
}
