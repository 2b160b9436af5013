//! `--journal`: every call of a turn is found in the file, also of one that is killed.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::{Program, Provider};
use crate::run::{Place, calls};

fn report(place: &Place) -> Value {
    let ran = Program::new(&["report", "--json", "--journal"])
        .args(&[place.path("calls.db")])
        .run();
    ran.assert_code(0);
    serde_json::from_str(&ran.stdout).unwrap()
}

#[test]
fn each_round_and_each_attempt_is_written_down() {
    let place = Place::new();
    let provider = Provider::script(&format!(
        "attempt 1: status 500 json; error server_error; eof\nattempt 2: {}\nattempt 3: answer \"ok\"",
        calls(&[("c1", "list", json!({}))])
    ));

    let ran = Program::turn(&provider.url())
        .args(&["--prompt", "go", "--tools", "list", "--dir"])
        .args(&[place.0.path()])
        .args(&["--journal".as_ref(), place.path("calls.db").as_os_str()])
        .run();

    ran.assert_code(0);
    let told = report(&place);
    assert_eq!(told["calls"]["completed"], 2, "{told}");
    assert_eq!(told["by_upstream"][0]["attempts"], 3, "{told}");
}

#[test]
fn a_turn_that_is_stopped_leaves_its_call_as_cancelled() {
    let place = Place::new();
    let provider = Provider::script("status 200 sse; role; text \"First\"; hold");
    let running = Program::turn(&provider.url())
        .args(&["--prompt", "go"])
        .args(&["--journal".as_ref(), place.path("calls.db").as_os_str()])
        .start();
    running.wait_for_output("First");

    running.signal("INT");

    running.wait().assert_code(130);
    assert_eq!(report(&place)["calls"]["cancelled"], 1);
}
