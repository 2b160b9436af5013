//! `lifesign call` in a pipe: the answer on standard output, everything else on standard error.

use pretty_assertions::assert_eq;

use crate::harness::{Program, Provider};

#[test]
fn the_answer_is_all_that_standard_output_gets() {
    for wire in ["openai-chat", "openai-responses", "anthropic"] {
        let provider = Provider::scenario("reasoning-then-answer");

        let ran = Program::call(&provider.url(), wire).run();

        assert_eq!((ran.code, ran.stdout.as_str()), (0, "Good day!\n"));
        let said = ran.stderr.strip_prefix("completed in ").unwrap();
        assert!(said.ends_with("; 12 tokens in, 3 out)\n"), "{said}");
        assert!(!ran.stderr.contains('\x1b'), "{ran:?}");
    }
}

#[test]
fn text_is_handed_on_as_it_comes() {
    let provider = Provider::script("status 200 sse; role; text \"First\"; hold");
    let running = Program::call(&provider.url(), "openai-chat")
        .set("bounds.raw_silence=500ms")
        .start();

    running.wait_for_output("First");

    let ran = running.wait();
    ran.assert_code(5);
    assert_eq!(ran.stdout, "First\n");
}

#[test]
fn a_tool_call_is_told_with_its_arguments() {
    let provider = Provider::scenario("tool-call");

    let ran = Program::call(&provider.url(), "anthropic").run();

    assert_eq!(ran.stdout, "get_weather({\"city\":\"Oslo\"})\n");
}

#[test]
fn a_failure_says_what_happened_what_was_seen_and_what_may_help() {
    let provider = Provider::scenario("cut-mid-answer");

    let ran = Program::call(&provider.url(), "openai-chat").run();

    assert_eq!(ran.stdout, "The answer is\n");
    assert_eq!(
        ran.stderr,
        "truncated: The connection broke in the middle of the answer; what had come is kept.\n  \
         what was seen: the connection to the provider was lost in the middle of the answer: the \
         connection was closed inside the response body; not repeated: content was already \
         received\n  \
         hint: try again; if it recurs, suspect a proxy or load balancer on the way\n  \
         what had arrived of the answer was written, and is not whole\n"
    );
}

#[test]
fn a_retry_is_told_and_leaves_no_trace_in_the_answer() {
    let provider = Provider::scenario("reset-before-content");

    let ran = Program::call(&provider.url(), "openai-chat")
        .set("retry.attempts=3")
        .set("retry.transport.first_delay=1ms")
        .run();

    assert_eq!((ran.code, ran.stdout.as_str()), (0, "Second time lucky.\n"));
    ran.assert_said("; attempt 2 of 3 in ")
        .assert_said("completed after 2 attempts in ");
}

#[test]
fn quiet_content_is_told_and_never_cut() {
    let provider =
        Provider::script("status 200 sse; role; repeat 0.05 { comment } x8; answer \"ok\"");

    let ran = Program::call(&provider.url(), "openai-chat")
        .set("bounds.notice_after=150ms")
        .run();

    assert_eq!((ran.code, ran.stdout.as_str()), (0, "ok\n"));
    ran.assert_said("no content for 1")
        .assert_said("; the last byte came ");
}

#[test]
fn an_unreachable_host_is_named_with_the_fix() {
    let ran = Program::call("http://127.0.0.1:9", "openai-chat").run();

    ran.assert_code(8)
        .assert_said("connecting failed at the tcp stage: 127.0.0.1:9 refused the connection")
        .assert_said("hint: check the base URL and that something listens there");
    assert_eq!(ran.stdout, "");
}

#[test]
fn a_host_without_an_address_is_named_with_the_fix() {
    let ran = Program::call("http://no-such-host.invalid", "openai-chat")
        .set("bounds.connect=5s")
        .run();

    ran.assert_code(8)
        .assert_said("at the dns stage")
        .assert_said("no-such-host.invalid");
}

#[test]
fn a_wrong_key_is_named_with_the_fix() {
    let provider = Provider::scenario("wrong-key");

    let ran = Program::call(&provider.url(), "anthropic")
        .env("ANTHROPIC_API_KEY", "k")
        .run();

    ran.assert_code(4)
        .assert_said("(401)")
        .assert_said("invalid x-api-key")
        .assert_said("hint: ");
    assert_eq!(provider.requests().len(), 1);
}

#[test]
fn a_page_in_place_of_an_answer_is_quoted() {
    let provider = Provider::scenario("html");

    let ran = Program::call(&provider.url(), "anthropic").run();

    ran.assert_code(4)
        .assert_said("<title>Sign in</title>")
        .assert_said("base URL");
    assert_eq!(ran.stdout, "");
}
