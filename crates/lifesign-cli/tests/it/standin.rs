//! `lifesign standin`: a provider for whoever has no Rust.

use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::harness::{Program, Provider, Running};

#[test]
fn a_scenario_is_played_and_logged_until_it_is_interrupted() {
    let (standin, url) = listening(&["--scenario", "happy", "--speed", "10"]);

    let ran = Program::call(&url, "openai-chat").run();
    assert_eq!(ran.stdout, "The tide turns twice a day.\n");
    standin.wait_for_output("the peer closed the connection");
    standin.signal("INT");
    let log = standin.wait();

    log.assert_code(0);
    for line in [
        "POST /v1/chat/completions HTTP/1.1, attempt 1",
        "status 200",
        "ended properly",
    ] {
        assert!(log.stdout.contains(line), "no `{line}` in {log:?}");
    }
}

#[test]
fn the_log_is_for_programs_too() {
    let (standin, url) = listening(&["--scenario", "wrong-key", "--json"]);

    Program::call(&url, "anthropic").run().assert_code(4);
    standin.wait_for_output("peer_closed");
    standin.signal("INT");
    let log = standin.wait();

    let events: Vec<Value> = log
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let happened: Vec<&str> = events
        .iter()
        .map(|event| event["event"].as_str().unwrap())
        .filter(|event| *event != "wrote")
        .collect();
    assert_eq!(
        happened,
        ["connected", "request", "status", "ended", "peer_closed"]
    );
}

#[test]
fn a_script_comes_from_standard_input_and_its_wire_is_chosen() {
    let program = Program::new(&["standin", "--script", "-", "--wire", "anthropic"]);
    let standin = program.input(b"answer \"piped\"\n").start();
    let url = url_of(&standin);

    let ran = Program::call(&format!("{url}/some/where"), "anthropic").run();

    assert_eq!((ran.code, ran.stdout.as_str()), (0, "piped\n"));
}

#[test]
fn without_anything_to_play_every_scenario_is_below_its_name() {
    let (standin, url) = listening(&["--speed", "10"]);
    standin.wait_for_note(&format!("each scenario at {url}/NAME/v1"));

    let base = format!("{url}/happy/v1");
    let ran = Program::call(&base, "openai-responses").run();
    assert_eq!(ran.stdout, "The tide turns twice a day.\n");
    let base = format!("{url}/wrong-key/v1");
    Program::call(&base, "anthropic").run().assert_code(4);
    standin.signal("TERM");
    standin.wait().assert_code(0);
}

#[test]
fn a_call_on_the_wrong_wire_is_unreadable_and_is_not_tried_again() {
    let (_standin, url) = listening(&["--scenario", "happy", "--wire", "openai-chat"]);

    let ran = Program::call(&url, "anthropic").json().run();

    ran.assert_code(4);
    let report = ran.report();
    assert_eq!(report["failure"]["code"], "unreadable");
    assert_eq!(report["attempts"].as_array().unwrap().len(), 1);
}

#[test]
fn a_place_that_is_taken_is_named() {
    let taken = Provider::scenario("happy");
    let place = taken.url().replace("http://", "");

    let ran = Program::new(&["standin", "--scenario", "happy", "--listen", &place]).run();

    let port = place.rsplit(':').next().unwrap();
    ran.assert_refused(&format!(
        "--listen: port {port} of 127.0.0.1 is in use; accepted: a port that nobody listens at, or \
         0 for any that is free"
    ));
}

/// A client that spoke TLS to the plain port waited for ever, as the stand-in did for a request.
#[test]
fn a_client_that_speaks_tls_to_a_plain_port_is_sent_away_with_a_line_in_the_log() {
    let (standin, url) = listening(&["--scenario", "happy"]);
    let url = url.replace("http://", "https://");

    let ran = Program::call(&url, "anthropic").json().run();

    ran.assert_code(8);
    assert_eq!(ran.report()["failure"]["stage"], "tls");
    standin.wait_for_output("a TLS hello came to a plain port; http, not https, is spoken here");
}

#[track_caller]
fn listening(words: &[&str]) -> (Running, String) {
    let standin = Program::new(&["standin"]).args(words).start();
    let url = url_of(&standin);
    (standin, url)
}

#[track_caller]
fn url_of(standin: &Running) -> String {
    let rest = standin.wait_for_note("listening at ");
    rest.split(';').next().unwrap().to_owned()
}
