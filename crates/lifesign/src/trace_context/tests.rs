//! What is read, what is as if it were not there, and what is handed on.

use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let pairs = pairs.iter();
    let pairs = pairs.map(|(name, value)| {
        let value = HeaderValue::try_from(*value).unwrap();
        (HeaderName::from_static(name), value)
    });
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(name, value);
    }
    headers
}

fn parent() -> String {
    format!("00-{TRACE}-{SPAN}-01")
}

#[test]
fn a_call_with_a_parent_continues_its_trace() {
    let asked = headers(&[
        ("traceparent", &parent()),
        ("tracestate", "a=1"),
        ("tracestate", "b=2"),
        ("baggage", "user=7"),
    ]);

    let trace = CallTrace::of(&asked);
    let span = SpanId::random();
    let mut sent = asked;
    trace.hand_on(span, &mut sent);

    assert_eq!(trace.trace_id.to_string(), TRACE);
    assert_eq!(trace.parent_span_id.unwrap().to_string(), SPAN);
    assert_ne!(trace.span_id, trace.parent_span_id.unwrap());
    assert_eq!(trace.state.as_deref(), Some("a=1,b=2"));
    assert!(trace.is_sampled());
    let handed_on = format!("00-{TRACE}-{span}-01");
    let expected = headers(&[
        ("traceparent", &handed_on),
        ("tracestate", "a=1"),
        ("tracestate", "b=2"),
        ("baggage", "user=7"),
    ]);
    assert_eq!(sent, expected);
}

#[test]
fn a_state_longer_than_has_to_be_borne_goes_on_and_is_not_kept() {
    for (len, is_kept) in [(512, true), (513, false)] {
        let state = format!("a={}", "1".repeat(len - 2));
        let asked = headers(&[("traceparent", &parent()), ("tracestate", &state)]);

        let trace = CallTrace::of(&asked);
        let mut sent = asked;
        trace.hand_on(SpanId::random(), &mut sent);

        assert_eq!(trace.state.is_some(), is_kept, "{len}");
        assert_eq!(sent["tracestate"], *state);
    }
}

#[test]
fn a_call_without_a_parent_begins_a_trace_of_its_own() {
    let asked = headers(&[("tracestate", "a=1"), ("baggage", "user=7")]);

    let (one, other) = (CallTrace::of(&asked), CallTrace::of(&asked));
    let mut sent = asked;
    one.hand_on(one.span_id, &mut sent);

    assert_ne!(one.trace_id, other.trace_id);
    assert_eq!(one.parent_span_id, None);
    assert_eq!(one.state, None);
    assert!(one.is_sampled());
    let handed_on = format!("00-{}-{}-01", one.trace_id, one.span_id);
    let expected = headers(&[("baggage", "user=7"), ("traceparent", &handed_on)]);
    assert_eq!(sent, expected);
}

#[test]
fn a_trace_that_nobody_wants_to_see_is_handed_on_as_such() {
    let asked = headers(&[("traceparent", &format!("00-{TRACE}-{SPAN}-00"))]);

    let trace = CallTrace::of(&asked);
    let mut sent = HeaderMap::new();
    trace.hand_on(trace.span_id, &mut sent);

    assert!(!trace.is_sampled());
    let handed_on = format!("00-{TRACE}-{}-00", trace.span_id);
    assert_eq!(sent, headers(&[("traceparent", &handed_on)]));
}

#[test]
fn what_is_no_parent_is_as_if_it_were_not_there() {
    for text in [
        "",
        "00",
        "hello",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
        // No trace, no span.
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        // Upper case, and other characters.
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333g-01",
        "00_0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331_01",
        // More than the version has, and no version.
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.more",
    ] {
        let asked = headers(&[("traceparent", text), ("tracestate", "a=1")]);

        let trace = CallTrace::of(&asked);
        let mut sent = asked.clone();
        trace.hand_on(trace.span_id, &mut sent);

        assert_eq!(trace.parent_span_id, None, "{text}");
        assert_eq!(sent.get(TRACESTATE), None, "{text}");
        assert_eq!(sent.get_all(TRACEPARENT).iter().count(), 1, "{text}");
    }
    let twice = headers(&[("traceparent", &parent()), ("traceparent", &parent())]);
    assert_eq!(CallTrace::of(&twice).parent_span_id, None);
}

#[test]
fn a_later_version_is_read_as_far_as_it_is_known_and_handed_on_in_ours() {
    for text in [
        format!("01-{TRACE}-{SPAN}-ff"),
        format!("cc-{TRACE}-{SPAN}-03-what-will-be"),
    ] {
        let parent = TraceParent::parse(text.as_bytes()).unwrap();

        assert_eq!(parent.to_string(), format!("00-{TRACE}-{SPAN}-03"));
    }
}

#[test]
fn ids_are_written_down_as_their_digits() {
    let trace = CallTrace::of(&headers(&[("traceparent", &parent())]));

    let written = serde_json::to_value(&trace).unwrap();

    assert_eq!(written["trace_id"], TRACE);
    assert_eq!(written["parent_span_id"], SPAN);
    assert_eq!(written["span_id"], trace.span_id.to_string());
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(trace in 1_u128.., span in 1_u64.., flags in 0..=KNOWN_FLAGS) {
        let written = TraceParent {
            trace_id: TraceId(u128::to_be_bytes(trace)),
            span_id: SpanId(u64::to_be_bytes(span)),
            flags,
        };

        let read = TraceParent::parse(written.to_string().as_bytes());

        prop_assert_eq!(read, Some(written));
    }

    #[test]
    fn whatever_is_read_has_ids_and_stands_in_the_text(text in "[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-[a-z]*)?") {
        let Some(read) = TraceParent::parse(text.as_bytes()) else {
            let is_wrong = text.starts_with("ff")
                || text.starts_with("00") && text.len() > LEN
                || text.contains(&"0".repeat(16));
            prop_assert!(is_wrong, "{}", text);
            return Ok(());
        };

        prop_assert_eq!(Some(&*read.trace_id.to_string()), text.get(3..35));
        prop_assert_eq!(Some(&*read.span_id.to_string()), text.get(36..52));
    }

    #[test]
    fn no_bytes_are_too_much_for_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        if let Some(read) = TraceParent::parse(&bytes) {
            let written = read.to_string();
            prop_assert_eq!(&written.as_bytes()[3..52], &bytes[3..52]);
        }
    }

    #[test]
    fn one_changed_byte_is_refused_or_read(at in 0..LEN, byte: u8) {
        let mut text = parent().into_bytes();
        text[at] = byte;

        if let Some(read) = TraceParent::parse(&text) {
            let written = read.to_string();
            prop_assert_eq!(&written.as_bytes()[3..52], &text[3..52]);
        }
    }
}
