//! What passes of an answer, and when.

use lifesign_core::FailureCode;
use proptest::prelude::*;

use super::*;

const ROLE: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"}}]}\n\n";
const USAGE: &str =
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3}}\n\n";
const DONE: &str = "data: [DONE]\n\n";

fn text(text: &str) -> String {
    format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n")
}

fn finish() -> &'static str {
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
}

fn chat() -> RelayReader {
    RelayReader::new(Wire::OPENAI_CHAT, Expect::Stream, &ReadLimits::default())
}

fn read(relay: &mut RelayReader, bytes: &str) -> String {
    relay
        .read(&Bytes::copy_from_slice(bytes.as_bytes()), |_| {})
        .unwrap();
    passed(relay)
}

fn passed(relay: &mut RelayReader) -> String {
    String::from_utf8(relay.take().unwrap_or_default().to_vec()).unwrap()
}

#[test]
fn nothing_passes_before_content_and_heartbeats_never_do() {
    let mut relay = chat();
    let hello = text("hello");

    assert_eq!(
        read(&mut relay, ": one\n\n\n\nevent: ping\ndata: 1\n\n"),
        ""
    );
    assert_eq!(read(&mut relay, &format!("{ROLE}: two\n\n")), "");
    assert!(!relay.is_committed());
    assert_eq!(
        read(&mut relay, &format!(": three\n\n{hello}: four\n\n")),
        format!("{ROLE}{hello}: four\n\n")
    );
    assert_eq!(read(&mut relay, ": five\n\n"), ": five\n\n");
}

#[test]
fn a_half_frame_waits_and_is_passed_with_its_rest() {
    let mut relay = chat();
    let (one, two) = (text("one"), text("two"));
    let (half, rest) = two.split_at(30);

    assert_eq!(read(&mut relay, &format!("{one}{half}")), one);
    assert_eq!(read(&mut relay, "\n"), "");
    let mut relay = chat();
    read(&mut relay, &format!("{one}{half}"));
    assert_eq!(read(&mut relay, rest), two);
}

#[test]
fn a_last_frame_that_parses_gets_its_missing_line_ends() {
    for (end, closing) in [("data: [DONE]", "\n\n"), ("data: [DONE]\n", "\n")] {
        let mut relay = chat();
        read(&mut relay, &format!("{}{}", text("hi"), finish()));

        assert_eq!(read(&mut relay, end), "");
        relay.end(|_| {}).unwrap();

        assert_eq!(passed(&mut relay), format!("{end}{closing}"));
        assert_eq!(relay.state(), State::Ended);
    }
    let mut relay = chat();
    read(&mut relay, &text("hi"));
    read(&mut relay, "data: {\"choi");
    relay.end(|_| {}).unwrap();
    assert_eq!(passed(&mut relay), "");
}

#[test]
fn a_last_frame_that_is_the_first_content_passes_behind_what_was_held() {
    let last = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}";
    let mut relay = chat();

    assert_eq!(read(&mut relay, &format!("{ROLE}{last}")), "");
    relay.end(|_| {}).unwrap();

    assert!(relay.is_committed());
    assert_eq!(passed(&mut relay), format!("{ROLE}{last}\n\n"));
    assert_eq!(relay.take_held(), None);
}

#[test]
fn usage_finish_and_errors_are_known_of_what_passed() {
    let mut relay = chat();
    let mut stream = String::new();
    for word in ["a", "b", "c"] {
        stream.push_str(&text(word));
    }
    stream.push_str(finish());
    stream.push_str(USAGE);
    stream.push_str(DONE);

    assert_eq!(read(&mut relay, &stream), stream);
    assert_eq!(relay.state(), State::Ended);
    let answer = relay.take_answer(true);
    assert_eq!(answer.finish_reason.as_deref(), Some("stop"));
    assert_eq!(answer.usage.unwrap().output_tokens, Some(3));
    assert_eq!(answer.text, "");
    assert!(!answer.is_empty());

    let mut relay = chat();
    let error = "data: {\"error\":{\"message\":\"no\",\"code\":429}}\n\n";
    assert_eq!(
        read(&mut relay, &format!("{}{error}", text("a"))),
        format!("{}{error}", text("a"))
    );
    assert_eq!(relay.failure().unwrap().code, FailureCode::RateLimited);
}

#[test]
fn a_line_end_that_is_cut_in_two_goes_with_its_frame() {
    let crlf = |text: &str| text.replace('\n', "\r\n");
    let (role, wait, hello) = (crlf(ROLE), crlf(": wait\n\n"), crlf(&text("hello")));
    let stream = format!("{role}{wait}{wait}{hello}");
    for cut in 1..stream.len() {
        let (first, rest) = stream.split_at(cut);
        let mut relay = chat();
        let passed = read(&mut relay, first) + &read(&mut relay, rest);
        assert_eq!(passed, format!("{role}{hello}"), "cut at {cut}");
    }
}

#[test]
fn nothing_passes_behind_the_frame_that_ends_the_answer_whichever_read_brought_it() {
    let error = "data: {\"error\":{\"message\":\"no\",\"code\":500}}\n\n";
    for end in [error, DONE] {
        let before = format!("{}{}", text("one"), if end == DONE { finish() } else { "" });
        let behind = format!("{}{}{DONE}data: {{", text("AFTER"), finish());

        let mut relay = chat();
        assert_eq!(
            read(&mut relay, &format!("{before}{end}{behind}")),
            format!("{before}{end}")
        );
        let mut relay = chat();
        read(&mut relay, &before);
        assert_eq!(read(&mut relay, &format!("{end}{behind}")), end);
        assert_eq!(read(&mut relay, &behind), "");
        assert_eq!(relay.has_error_frame(), end == error);
    }
}

#[test]
fn a_finish_that_says_error_is_no_error_frame() {
    let mut relay = chat();
    read(&mut relay, &text("one"));
    let failed = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"error\"}]}\n\n";

    assert_eq!(read(&mut relay, failed), failed);

    assert_eq!(relay.state(), State::Failed);
    assert!(!relay.has_error_frame());
}

#[test]
fn a_start_may_pass_ahead_and_the_next_attempts_is_swallowed() {
    let start = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":{}}}\n\n";
    let block = "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n";
    let delta = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"x\"}}\n\n";
    let relay = || RelayReader::new(Wire::ANTHROPIC, Expect::Stream, &ReadLimits::default());

    let mut first = relay();
    assert_eq!(first.take_start(), None);
    assert_eq!(read(&mut first, &format!("{start}{block}")), "");
    assert_eq!(first.take_start().as_deref(), Some(start.as_bytes()));
    assert_eq!(first.take_start(), None);
    assert_eq!(read(&mut first, delta), format!("{block}{delta}"));

    let mut second = relay().swallow_start();
    assert_eq!(
        read(&mut second, &format!("{start}{block}{delta}")),
        format!("{block}{delta}")
    );
}

#[test]
fn a_whole_body_is_kept_as_it_came() {
    let body = r#"{"id":"x", "choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}"#;
    let mut relay = chat();

    assert_eq!(read(&mut relay, body), "");
    assert!(relay.is_whole_body());
    assert_eq!(relay.state(), State::Ended);
    assert_eq!(relay.take_whole_body().as_deref(), Some(body.as_bytes()));
}

fn numbered() -> RelayReader {
    let (wire, limits) = (Wire::OPENAI_RESPONSES, ReadLimits::default());
    RelayReader::new(wire, Expect::Stream, &limits).follow_sequence()
}

fn created(number: u64) -> String {
    format!(
        "event: response.created\ndata: {{\"type\":\"response.created\",\"sequence_number\":{number},\"response\":{{\"id\":\"r\",\"status\":\"in_progress\",\"output\":[]}}}}\n\n"
    )
}

fn delta(number: u64) -> String {
    format!(
        "event: response.output_text.delta\ndata: {{\"type\":\"response.output_text.delta\",\"sequence_number\":{number},\"item_id\":\"i\",\"output_index\":0,\"content_index\":0,\"delta\":\"x\"}}\n\n"
    )
}

#[test]
fn the_number_of_the_last_event_is_followed_where_it_is_asked_for() {
    let mut relay = numbered();

    assert_eq!(relay.last_sequence(), None);
    read(&mut relay, &delta(3));
    assert_eq!(relay.last_sequence(), Some(3));
    read(&mut relay, &format!("{}{}", delta(4), delta(5)));
    assert_eq!(relay.last_sequence(), Some(5));
}

#[test]
fn the_number_of_an_event_counts_once_it_is_handed_on() {
    let mut relay = numbered();
    read(&mut relay, &created(0));
    assert_eq!(relay.last_sequence(), None);
    read(&mut relay, &delta(1));
    assert_eq!(relay.last_sequence(), Some(1));

    let mut relay = numbered();
    read(&mut relay, &created(7));
    assert_eq!(relay.take_held().as_deref(), Some(created(7).as_bytes()));
    assert_eq!(relay.last_sequence(), Some(7));

    let mut relay = numbered();
    read(
        &mut relay,
        &format!("{}{}", created(0), delta(1).trim_end()),
    );
    relay.end(|_| {}).unwrap();
    assert_eq!(relay.last_sequence(), Some(1));
}

proptest! {
    #[test]
    fn however_it_is_cut_the_same_bytes_pass(
        frames in prop::collection::vec(0_usize..7, 0..12),
        cuts in prop::collection::vec(1_usize..60, 0..40),
        crlf in any::<bool>(),
    ) {
        let mut stream = String::new();
        let mut expected = String::new();
        let mut is_committed = false;
        for kind in frames {
            let frame = match kind {
                0 => ": wait\n\n".to_owned(),
                1 => "\n".to_owned(),
                2 => text("hi"),
                3 => "event: ping\ndata: 1\n\n".to_owned(),
                4 => ": a\n: b\n\n".to_owned(),
                5 => format!(": inside\n{}", text("yo")),
                _ => "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}],\n: in\ndata: \"x\":1}\n\n".to_owned(),
            };
            let frame = if crlf { frame.replace('\n', "\r\n") } else { frame };
            stream.push_str(&frame);
            is_committed |= matches!(kind, 2 | 5 | 6);
            if is_committed {
                let kept = if expected.is_empty() && kind == 5 {
                    frame.split_once('\n').unwrap().1
                } else {
                    &frame
                };
                expected.push_str(kept);
            }
        }
        let mut relay = chat();
        let mut got = String::new();
        let mut rest = stream.as_str();
        for cut in cuts {
            let (piece, after) = rest.split_at(cut.min(rest.len()));
            got.push_str(&read(&mut relay, piece));
            rest = after;
        }
        got.push_str(&read(&mut relay, rest));
        prop_assert_eq!(got, expected);
    }
}
