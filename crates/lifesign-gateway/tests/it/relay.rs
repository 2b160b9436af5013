//! What passes is what came: every byte, in order, whatever beats stand between.

use std::sync::LazyLock;

use lifesign_wire::Wire;
use proptest::prelude::*;
use tokio::runtime::Runtime;

use crate::harness::{Ask, Gate, Got, Plan, Raw, STREAM_HEAD, ms, upstream};

/// A stream that a provider might send, and how the network cuts it.
#[derive(Clone, Debug)]
struct Stream {
    /// Heartbeats before the first content.
    before: Vec<usize>,
    /// What follows the first content.
    after: Vec<usize>,
    cuts: Vec<(usize, u64)>,
    crlf: bool,
}

fn streams() -> impl Strategy<Value = Stream> {
    (
        prop::collection::vec(0_usize..3, 0..4),
        prop::collection::vec(0_usize..7, 0..10),
        prop::collection::vec((1_usize..120, 0_u64..4), 0..20),
        any::<bool>(),
    )
        .prop_map(|(before, after, cuts, crlf)| Stream {
            before,
            after,
            cuts,
            crlf,
        })
}

/// The frames of one wire.
struct Frames {
    start: &'static str,
    content: &'static str,
    ping: &'static str,
    unknown: &'static str,
    end: &'static str,
}

fn frames(wire: Wire) -> Frames {
    match wire.name() {
        "openai-chat" => Frames {
            start: "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
            content: "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"h\u{e9}\"}}]}\n\n",
            ping: "event: ping\ndata: 1\n\n",
            unknown: "event: x_new\nid: 7\ndata: {\"x\":\ndata: 1}\nretry: 5\n\n",
            end: "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n\
                  data: {\"id\":\"c\",\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\n\n\
                  data: [DONE]\n\n",
        },
        "anthropic" => Frames {
            start: "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\n\
                    event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
            content: "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"h\u{e9}\"}}\n\n",
            ping: "event: ping\ndata: {\"type\":\"ping\"}\n\n",
            unknown: "event: x_new\ndata: {\"type\":\"x_new\", \"x\" : 1.50}\n\n",
            end: "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n\
                  event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":2}}\n\n\
                  event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
        },
        _ => Frames {
            start: "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"resp_1\",\"status\":\"in_progress\",\"output\":[]}}\n\n",
            content: "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":1,\"item_id\":\"i\",\"output_index\":0,\"content_index\":0,\"delta\":\"h\u{e9}\"}\n\n",
            ping: ": ping\n\n",
            unknown: "event: response.x_new\ndata: {\"type\":\"response.x_new\",\"sequence_number\":2, \"x\" : 1.50}\n\n",
            end: "event: response.completed\ndata: {\"type\":\"response.completed\",\"sequence_number\":9,\"response\":{\"id\":\"resp_1\",\"status\":\"completed\",\"output\":[{\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"h\u{e9}\"}]}],\"usage\":{\"input_tokens\":1,\"output_tokens\":2}}}\n\n",
        },
    }
}

impl Stream {
    /// Returns what the provider sends, and what of it the caller gets.
    fn texts(&self, wire: Wire) -> (String, String) {
        let of = frames(wire);
        let heartbeats = [": wait\n\n", of.ping, "\n"];
        let (mut sent, mut due) = (String::new(), String::new());
        let mut before = self.before.iter().map(|kind| heartbeats[*kind]);
        sent.extend(before.next());
        for text in [of.start, of.content] {
            if text == of.content {
                sent.extend(before.by_ref());
            }
            sent.push_str(text);
            due.push_str(text);
        }
        for kind in &self.after {
            let text = match kind {
                0..3 => heartbeats[*kind],
                3 => of.unknown,
                4 => ": a\n: b\n\n",
                _ => of.content,
            };
            sent.push_str(text);
            due.push_str(text);
        }
        sent.push_str(of.end);
        due.push_str(of.end);
        if self.crlf {
            (sent.replace('\n', "\r\n"), due.replace('\n', "\r\n"))
        } else {
            (sent, due)
        }
    }

    fn plan(&self, sent: &str) -> Plan {
        let mut plan = vec![(ms(0), STREAM_HEAD.as_bytes().to_vec())];
        let mut rest = sent.as_bytes();
        for (len, wait) in &self.cuts {
            let (piece, after) = rest.split_at((*len).min(rest.len()));
            plan.push((ms(*wait), piece.to_vec()));
            rest = after;
        }
        plan.push((ms(0), rest.to_vec()));
        plan
    }
}

/// Returns the stream without anything that the gateway has added to it.
fn without_our_events(wire: Wire, got: &Got) -> String {
    let text = got.without_beats();
    let mut kept = String::new();
    let mut rest = text.as_str();
    let (from, to) = match wire.name() {
        "openai-chat" => ("data: {\"id\":", "\"choices\":[]}\n\n"),
        "anthropic" => ("event: ping\ndata: {\"type\": \"ping\"}", "\n\n"),
        _ => (
            "event: keepalive\ndata: {\"type\":\"keepalive\",\"sequence_number\":",
            "}\n\n",
        ),
    };
    while let Some((before, found)) = rest.split_once(from) {
        kept.push_str(before);
        // An event of ours is one line from there on.
        rest = match found.split_once(to) {
            Some((ours, after)) if !ours.contains('\n') => after,
            _ => {
                kept.push_str(from);
                found
            }
        };
    }
    kept + rest
}

struct Stage {
    runtime: Runtime,
    gates: Vec<(Wire, Raw, Gate)>,
}

static STAGE: LazyLock<Stage> = LazyLock::new(|| {
    let runtime = Runtime::new().unwrap();
    let gates = runtime.block_on(async {
        let mut gates = Vec::new();
        for wire in Wire::ALL {
            let raw = Raw::start().await;
            let gate = Gate::start(&upstream("up", wire, &raw.url(), "")).await;
            gates.push((wire, raw, gate));
        }
        gates
    });
    Stage { runtime, gates }
});

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Beats may stand between frames and nowhere else, in whatever form they come.
    #[test]
    fn with_beats_or_without_the_same_bytes_pass(stream in streams()) {
        let stage = &*STAGE;
        for (wire, raw, gate) in &stage.gates {
            let (sent, due) = stream.texts(*wire);
            let mut gots = Vec::new();
            for beats in [
                "beats.every=off",
                "beats.every=2ms,beats.form=comment",
                "beats.every=2ms,beats.form=event",
                "beats.every=2ms,beats.form=event,beats.open_early=false",
            ] {
                raw.next(stream.plan(&sent));
                let ask = Ask::stream(*wire).header("x-lifesign-set", beats);
                let got = stage.runtime.block_on(gate.ask(&ask));
                prop_assert_eq!(got.status, 200);
                prop_assert!(got.is_whole);
                gots.push(got);
            }

            prop_assert_eq!(&gots[0].text(), &due);
            for got in &gots[1..] {
                prop_assert_eq!(&without_our_events(*wire, got), &due);
            }
        }
    }
}

/// The property above would hold without any beat, too.
#[test]
fn beats_do_stand_between_the_frames_of_a_slow_stream() {
    let stage = &*STAGE;
    let stream = Stream {
        before: vec![0],
        after: vec![5, 5],
        cuts: vec![(40, 4); 12],
        crlf: false,
    };
    for (wire, raw, gate) in &stage.gates {
        let (sent, _) = stream.texts(*wire);
        for (form, ours) in [
            ("comment", ": {\"state\":"),
            (
                "event",
                match wire.name() {
                    "openai-chat" => "\"choices\":[]}\n\n",
                    "anthropic" => "data: {\"type\": \"ping\"}\n\n",
                    _ => "data: {\"type\":\"keepalive\"",
                },
            ),
        ] {
            raw.next(stream.plan(&sent));
            let beats = format!("beats.every=2ms,beats.form={form}");
            let ask = Ask::stream(*wire).header("x-lifesign-set", &beats);
            let got = stage.runtime.block_on(gate.ask(&ask));
            assert!(got.text().contains(ours), "{}", got.text());
        }
    }
}

/// A piece of a frame is no frame: what a failure leaves of one is not passed on.
#[tokio::test]
async fn half_a_frame_at_a_failure_is_dropped() {
    for wire in Wire::ALL {
        let raw = Raw::start().await;
        let gate = Gate::start(&upstream("up", wire, &raw.url(), "")).await;
        let of = frames(wire);
        let (half, _) = of.content.split_at(of.content.len() - 9);
        for half in [half, of.content.split_at(20).0] {
            // Without a length, the end of the connection is the end of the body; with one too
            // long it is a loss.
            for head in [STREAM_HEAD, LOST_HEAD] {
                raw.next(vec![(
                    ms(0),
                    format!("{head}{}{}{half}", of.start, of.content).into(),
                )]);
                let got = gate.ask(&Ask::stream(wire)).await;

                let whole = format!("{}{}", of.start, of.content);
                let rest = got.text().strip_prefix(&whole).unwrap().to_owned();
                assert!(rest.starts_with("event: error\n") || rest.starts_with("data: {\"error\""));
                got.error_frame(wire);
                assert!(got.is_whole);
            }
        }
    }
}

/// The last event of many providers comes without its blank line.
#[tokio::test]
async fn a_last_frame_gets_the_line_ends_that_it_lacks() {
    for wire in Wire::ALL {
        let raw = Raw::start().await;
        let gate = Gate::start(&upstream("up", wire, &raw.url(), "")).await;
        let of = frames(wire);
        let whole = format!("{}{}{}", of.start, of.content, of.end);
        for missing in [1, 2] {
            let (sent, _) = whole.split_at(whole.len() - missing);
            raw.next(vec![(ms(0), format!("{STREAM_HEAD}{sent}").into())]);

            let got = gate.ask(&Ask::stream(wire)).await;

            assert_eq!(got.text(), whole);
        }
        let ended = gate.ended(2).await;
        assert!(ended.iter().all(|ended| ended.failure.is_none()));
    }
}

/// Whole frames of one read are one write.
#[tokio::test]
async fn frames_that_come_together_go_together() {
    for wire in Wire::ALL {
        let raw = Raw::start().await;
        let gate = Gate::start(&upstream("up", wire, &raw.url(), "")).await;
        let of = frames(wire);
        let (half, rest) = of.content.split_at(30);
        raw.next(vec![
            (ms(0), STREAM_HEAD.into()),
            (ms(40), format!("{}{}", of.start, of.content).into()),
            (ms(40), of.content.repeat(3).into()),
            (ms(40), half.into()),
            (ms(40), rest.into()),
            (ms(40), of.end.into()),
        ]);

        let got = gate.ask(&Ask::stream(wire)).await;

        // A machine that is late reads two writes as one, but never a part of one.
        let (first, three) = (of.start.len() + of.content.len(), 3 * of.content.len());
        let ends = [
            first,
            first + three,
            first + three + of.content.len(),
            got.body.len(),
        ];
        let mut end = 0;
        for (_, piece) in &got.pieces {
            end += piece.len();
            assert!(ends.contains(&end), "{end} is none of {ends:?}");
        }
    }
}

/// A line end that the network has parted is not parted by what is ours.
#[tokio::test]
async fn a_beat_never_stands_between_cr_and_lf() {
    for wire in Wire::ALL {
        let raw = Raw::start().await;
        let gate = Gate::start(&upstream("up", wire, &raw.url(), "")).await;
        let of = frames(wire);
        let crlf = |text: &str| text.replace('\n', "\r\n");
        let opening = crlf(&format!("{}{}", of.start, of.content));
        let (to_cr, lf) = opening.split_at(opening.len() - 1);
        let rest = format!("{lf}{}", crlf(of.end));
        raw.next(vec![
            (ms(0), format!("{STREAM_HEAD}{to_cr}").into()),
            (ms(150), rest.into()),
        ]);
        let ask = Ask::stream(wire).header("x-lifesign-set", "beats.every=20ms");

        let got = gate.ask(&ask).await;

        let whole = format!("{opening}{}", crlf(of.end));
        assert!(!got.beats().is_empty());
        assert_eq!(got.without_beats(), whole);
        assert!(!got.text().contains("\r:"), "{}", got.text());
        raw.next(vec![(ms(0), format!("{STREAM_HEAD}{to_cr}").into())]);
        let cut = gate.ask(&ask).await;
        assert!(!cut.text().contains("\re") && !cut.text().contains("\rd"));
        cut.error_frame(wire);
    }
}

/// Before anything but thinking came, another attempt would still be possible; afterwards none is.
#[tokio::test]
async fn thinking_that_was_passed_on_is_content() {
    let raw = Raw::start().await;
    let gate = Gate::start(&upstream("up", Wire::OPENAI_CHAT, &raw.url(), "")).await;
    let thinking =
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n";
    raw.next(vec![(ms(0), format!("{STREAM_HEAD}{thinking}").into())]);

    let got = gate.ask(&Ask::stream(Wire::OPENAI_CHAT)).await;

    assert!(got.text().starts_with(thinking));
    got.error_frame(Wire::OPENAI_CHAT);
    assert_eq!(raw.requests().len(), 1);
}

/// A body that is longer than what comes before the connection is lost.
const LOST_HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 100000\r\n\r\n";

/// Codex reads the number of every event of the responses wire.
#[tokio::test]
async fn events_of_ours_carry_the_number_of_the_last_that_passed() {
    let script = "status 200 sse; text \"a\"; +0.3 cut";
    let standin = lifesign_standin::Standin::script(script).unwrap();
    let standin = standin.start().await.unwrap();
    let gate = Gate::start(&upstream("up", Wire::OPENAI_RESPONSES, &standin.url(), "")).await;
    for form in ["event", "comment"] {
        let beats = format!("beats.every=50ms,beats.form={form}");
        let ask = Ask::stream(Wire::OPENAI_RESPONSES).header("x-lifesign-set", &beats);

        let got = gate.ask(&ask).await;

        let number = |event: &serde_json::Value| event["sequence_number"].as_u64();
        let events = got.events();
        let (ours, theirs): (Vec<_>, Vec<_>) = events
            .iter()
            .partition(|event| matches!(event["type"].as_str(), Some("keepalive" | "error")));
        let last = number(theirs.last().unwrap()).unwrap();
        for event in &ours {
            let expected = if event["type"] == "error" {
                last + 1
            } else {
                last
            };
            assert_eq!(number(event), Some(expected), "{form}: {event}");
        }
        assert!(ours.len() > if form == "event" { 2 } else { 0 }, "{ours:?}");
    }
}

/// A beat says whose life it proves.
#[tokio::test]
async fn a_beat_tells_what_the_call_is_doing() {
    let script = "attempt 1: status 500 json; error server_error; eof\n\
                  attempt 2: +0.2 status 200 sse; role; +0.3 text \"a\"; +0.2 finish \"stop\"; done; eof";
    for wire in Wire::ALL {
        let standin = lifesign_standin::Standin::script(script).unwrap();
        let standin = standin.start().await.unwrap();
        let gate = crate::harness::Setup::new(&upstream("up", wire, &standin.url(), ""))
            .set("beats.every=50ms")
            .set("retry.transport.first_delay=200ms")
            .start()
            .await;

        let got = gate.ask(&Ask::stream(wire)).await;

        let beats = got.beats();
        let states: Vec<_> = beats
            .iter()
            .map(|beat| beat["state"].as_str().unwrap())
            .collect();
        let mut kinds = states.clone();
        kinds.dedup();
        assert_eq!(
            kinds,
            ["retry_wait", "attempt", "upstream_started"],
            "{states:?}"
        );
        for (at, beat) in beats.iter().enumerate() {
            assert_eq!(beat["upstream"], "up");
            assert_eq!(beat["seq"], at + 1, "{beat}");
            assert!(beat["waited_ms"].as_u64().unwrap() >= 50 * (at as u64 + 1));
        }
        let last = beats.last().unwrap();
        assert_eq!((&last["n"], &last["of"]), (&2.into(), &3.into()), "{last}");
        assert_eq!(last["regime"], "progress");
        assert!(last["upstream_silent_ms"].as_u64().unwrap() < 400, "{last}");
    }
}
