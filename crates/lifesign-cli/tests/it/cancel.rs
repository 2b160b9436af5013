//! The caller leaves: by a signal, or by no longer reading.

use std::time::Duration;

use crate::harness::{Program, Provider};

#[test]
fn an_interrupted_call_keeps_its_part_and_leaves_the_provider() {
    let provider = Provider::script(ENDLESS);
    let running = Program::call(&provider.url(), "anthropic").json().start();
    provider.wait_for_writes(8);

    running.signal("INT");
    let ran = running.wait();

    ran.assert_code(130);
    let report = ran.report();
    assert_eq!(report["outcome"], "cancelled");
    assert_eq!(report["failure"]["code"], "cancelled");
    assert_eq!(report["failure"]["partial"], true);
    assert_eq!(report["text"], "Once upon");
    assert_eq!(report["attempts"].as_array().unwrap().len(), 1);
    provider.assert_left();
    assert_eq!(provider.requests().len(), 1);
}

#[test]
fn a_call_ends_within_a_tenth_of_a_second_of_the_interruption() {
    // A busy machine may delay any single one of them.
    let quickest = (0..3)
        .map(|_| {
            let provider = Provider::script(ENDLESS);
            let running = Program::call(&provider.url(), "openai-chat").start();
            running.wait_for_output("Once upon");
            running.signal("INT");
            let ran = running.wait();
            ran.assert_code(130).assert_said("cancelled: ");
            assert_eq!(ran.stdout, "Once upon\n");
            provider.assert_left();
            ran.took
        })
        .min()
        .unwrap();

    assert!(quickest < Duration::from_millis(100), "{quickest:?}");
}

#[test]
fn a_request_to_terminate_is_an_interruption() {
    let provider = Provider::script("hold");
    let running = Program::call(&provider.url(), "openai-responses")
        .json()
        .start();
    provider.wait_for_request();

    running.signal("TERM");
    let ran = running.wait();

    ran.assert_code(130);
    let report = ran.report();
    assert_eq!(report["outcome"], "cancelled");
    assert_eq!(report["failure"]["partial"], false);
    provider.assert_left();
}

#[test]
fn a_wait_before_the_next_attempt_can_be_interrupted() {
    let provider = Provider::scenario("overload-storm");
    let running = Program::call(&provider.url(), "anthropic")
        .set("retry.attempts=4")
        .start();
    running.wait_for_note("the provider is overloaded (529)");

    running.signal("INT");
    let ran = running.wait();

    ran.assert_code(130);
    assert_eq!(provider.requests().len(), 1);
}

#[test]
fn a_call_ends_when_nobody_reads_on() {
    let provider =
        Provider::script("status 200 sse; role; repeat 0.02 { text \"and so on \" } forever");

    let ran = Program::call(&provider.url(), "openai-chat")
        .start_without_reader()
        .wait();

    ran.assert_code(130).assert_said("cancelled: ");
    provider.assert_left();
}

#[test]
fn an_object_that_nobody_reads_is_no_failure() {
    let provider = Provider::scenario("happy");

    let ran = Program::call(&provider.url(), "openai-chat")
        .json()
        .start_without_reader()
        .wait();

    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
}

/// A write to a full pipe blocked the only thread, and with it the clocks and Ctrl-C.
#[test]
fn a_reader_that_holds_the_pipe_and_does_not_read_holds_nothing_up() {
    let provider = Provider::script(
        "status 200 sse; role; repeat 0.001 { text \"0123456789abcdef\"*1000 } x200; hold",
    );
    let running = Program::call(&provider.url(), "openai-chat").start_between_idlers();
    provider.wait_for_writes(150);

    running.signal("INT");
    let ran = running.wait();

    ran.assert_code(130).assert_said("cancelled: ");
    provider.assert_left();
}

#[test]
fn the_wall_clock_ends_a_call_whose_reader_does_not_read() {
    let provider = Provider::script(
        "status 200 sse; role; repeat 0.001 { text \"0123456789abcdef\"*1000 } x200; hold",
    );
    let running = Program::call(&provider.url(), "openai-chat")
        .set("bounds.wall_clock=700ms")
        .start_between_idlers();

    running.wait_for_note("failed: ");
    provider.assert_left();
    running.signal("INT");

    running.wait().assert_code(6);
}

#[test]
fn a_wait_for_standard_input_can_be_interrupted() {
    let provider = Provider::scenario("happy");
    let running =
        Program::call_without_prompt(&provider.url(), "openai-chat").start_between_idlers();
    // The program listens for signals before it reads; until then it would die of one.
    std::thread::sleep(Duration::from_millis(300));

    running.signal("INT");

    running.wait().assert_code(130);
    assert!(provider.requests().is_empty());
}

/// Two words, then signs of life for ever.
const ENDLESS: &str =
    "status 200 sse; role; text \"Once \"; text \"upon\"; repeat 0.02 { comment } forever";
