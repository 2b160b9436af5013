//! `lifesign top` against a gateway: once as a table, and on a terminal that `script` makes.

use pretty_assertions::assert_eq;
use serde_json::Value;

use super::house::{CONTENT, Gateway, Upstream, chat_of, eventually, upstream};
use crate::harness::{Program, Ran, signal};
use crate::screen::Screen;

fn top(url: &str, words: &[&str]) -> Program {
    Program::new(&["top", url]).args(words)
}

async fn run(program: Program) -> Ran {
    // The gateway's upstream runs on this runtime.
    tokio::task::spawn_blocking(move || program.run())
        .await
        .unwrap()
}

#[tokio::test]
async fn once_prints_the_calls_and_upstreams_as_they_stand_and_json_is_what_the_gateway_says() {
    let speaking = Upstream::saying(&[CONTENT]).await;
    let gateway = Gateway::start(&upstream("house", speaking.address, "")).await;
    let mut caller = gateway.connect().await;
    // A name that would clear the screen of whoever looks.
    let model = r"m\u001b[2J";
    caller.send(&chat_of(model, "", true)).await;
    caller.until(CONTENT).await;
    let url = format!("http://{}", gateway.address);

    let once = run(top(&url, &["--once"])).await;
    let piped = run(top(&url, &[])).await;
    let json = run(top(&url, &["--json"])).await;

    once.assert_code(0);
    assert_eq!(once.stderr, "");
    let mut rows = once.stdout.lines();
    let row = rows.find(|line| line.starts_with("  answering"));
    let row = row.unwrap_or_else(|| panic!("{}", once.stdout));
    assert!(row.contains("house") && row.contains("[2J"), "{row}");
    assert!(!once.stdout.contains('\x1b'), "{:?}", once.stdout);
    assert!(piped.stdout.contains("answering"), "{}", piped.stdout);
    let told: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(
        (&told["v"], told["calls"].as_array().unwrap().len()),
        (&Value::from(1), 1)
    );
    assert_eq!(json.stdout.trim_end().lines().count(), 1);
}

#[tokio::test]
async fn a_unix_socket_is_asked_as_a_port_is() {
    let silent = Upstream::silent().await;
    let directory = tempfile::tempdir().unwrap();
    let socket = format!("unix:{}", directory.path().join("gateway.sock").display());
    let settings = upstream("house", silent.address, "");
    let _gateway =
        Gateway::start_as(&settings, |program| program.args(&["--listen", &socket])).await;

    let once = run(top(&socket, &["--once"])).await;

    once.assert_code(0);
    assert!(once.stdout.contains("house"), "{}", once.stdout);
}

#[tokio::test]
async fn who_is_not_there_or_refuses_is_told_with_what_helps() {
    let silent = Upstream::silent().await;
    let key = "[serve]\nadmin_key = { env = \"TOP_KEY\" }\n";
    let settings = format!("{key}{}", upstream("house", silent.address, ""));
    let secret = "an-admin-key-of-some-length";
    let gateway = Gateway::start_as(&settings, |program| program.env("TOP_KEY", secret)).await;
    let url = format!("http://{}", gateway.address);
    let file = gateway.directory.path().join("admin.key");
    std::fs::write(&file, format!("{secret}\n")).unwrap();
    let file = file.to_str().unwrap();

    let gone = run(top("http://127.0.0.1:9", &["--once"])).await;
    let unnamed = run(top("127.0.0.1", &["--once"])).await;
    let keyless = run(top(&url, &["--once"])).await;
    let wrong = run(top(&url, &["--once"]).env("LIFESIGN_ADMIN_KEY", "another")).await;
    let other = Upstream::answering().await;
    let other = run(top(&format!("http://{}", other.address), &["--once"])).await;
    let by_file = run(top(&url, &["--once", "--admin-key-file", file])).await;
    let by_env = run(top(&url, &["--once"]).env("LIFESIGN_ADMIN_KEY", secret)).await;

    gone.assert_code(8)
        .assert_said("error: the gateway at http://127.0.0.1:9: ")
        .assert_said("hint: check the address, and whether `lifesign serve` runs there");
    unnamed.assert_code(2).assert_said("URL: \"127.0.0.1\" ");
    keyless
        .assert_code(4)
        .assert_said("it refuses (403): the admin key is needed here")
        .assert_said("hint: give its admin key (serve.admin_key) with --admin-key-file");
    wrong
        .assert_code(4)
        .assert_said("hint: the key that was shown is not its admin key");
    assert!(!wrong.stderr.contains("another"), "{wrong:?}");
    other
        .assert_code(4)
        .assert_said("what it says cannot be read by this program")
        .assert_said("hint: check that the address is that of a gateway");
    assert_eq!(
        (by_file.code, by_env.code),
        (0, 0),
        "{by_file:?} {by_env:?}"
    );
}

#[tokio::test]
async fn a_call_is_shown_and_cancelled_and_the_terminal_is_as_it_was() {
    let speaking = Upstream::saying(&[CONTENT]).await;
    let gateway = Gateway::start(&upstream("house", speaking.address, "")).await;
    let mut caller = gateway.ask().await;
    caller.until(CONTENT).await;
    let Some(mut screen) = Top::start(&format!("http://{}", gateway.address)) else {
        return;
    };

    screen.shows("answering").await;
    screen.press("c").await;
    screen.shows("y/n").await;
    screen.press("y").await;
    screen.shows("cancelled").await;
    assert_eq!(gateway.ended(1).await, ["cancelled"]);
    assert!(caller.response().await.body.contains("data: {\"error\""));
    screen.press("q").await;

    screen.ends_restored().await;
}

#[tokio::test]
async fn a_gateway_that_is_started_anew_is_found_again_and_a_signal_restores_the_terminal() {
    let silent = Upstream::silent().await;
    let settings = upstream("house", silent.address, "");
    let gateway = Gateway::start(&settings).await;
    let address = gateway.address.to_string();
    let Some(mut screen) = Top::start(&format!("http://{address}")) else {
        return;
    };
    screen.press("2").await;
    screen.shows("house").await;

    gateway.kill().await;
    screen.shows("answer:").await;
    let _again =
        Gateway::start_as(&settings, |program| program.args(&["--listen", &address])).await;
    screen.shows("anew").await;
    signal(screen.id(), "TERM");

    screen.ends_restored().await;
}

/// A terminal on which it runs, beside an upstream that runs here.
struct Top(Screen);

impl Top {
    /// Starts it; `None` where this machine makes no terminal.
    fn start(url: &str) -> Option<Self> {
        Screen::start(110, &format!("top {url}"), &[]).map(Self)
    }

    /// Waits until a word is drawn. Blanks are not, where there are some already.
    async fn shows(&self, word: &str) {
        eventually(word, || self.0.text().contains(word)).await;
    }

    /// Presses keys, once the program has the terminal.
    async fn press(&mut self, keys: &str) {
        self.shows(TAKEN).await;
        self.0.press(keys);
    }

    /// Returns the number of the program's process.
    fn id(&self) -> u32 {
        self.0.id()
    }

    /// Waits for the end of the program, and looks at what it leaves behind.
    async fn ends_restored(mut self) {
        eventually("it ends", || self.0.is_over()).await;
        self.0.assert_left(0);
        let text = self.0.text();
        assert!(text.contains(GIVEN_BACK), "{text:?}");
        assert!(
            text.rfind("\x1b[?25h") > text.rfind("\x1b[?25l"),
            "no cursor"
        );
    }
}

/// What a terminal is told when its whole screen is taken, and given back.
const TAKEN: &str = "\x1b[?1049h";
const GIVEN_BACK: &str = "\x1b[?1049l";
