//! What others read of the traces that the gateway sends.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::collector::{Receiver, Rotel};
use crate::upstreams::{Gateway, Lane, Providers, exchange};

const PROTOCOLS: [&str; 2] = ["grpc", "http/protobuf"];

/// Makes a call whose first attempt fails, with its traces sent to `url`.
fn call(url: &str, protocol: &str) {
    let script = "attempt 1: status 500 json; error server_error \"no\"; eof\n\
                  attempt 2: answer \"ok\"";
    let providers = Providers::start([script]);
    let lane = Lane {
        model: "m".to_owned(),
        wire: "openai-chat",
        url: providers.url(0),
        beats: None,
    };
    let telemetry =
        format!("[telemetry]\notlp_endpoint = \"{url}\"\notlp_protocol = \"{protocol}\"\n");
    let gateway = Gateway::start_with(&telemetry, &[lane]);

    let body = r#"{"model":"m","stream":true,"max_tokens":9,"messages":[]}"#;
    let answer = exchange(gateway.url(), "POST /v1/chat/completions", body);

    assert!(answer.contains("\"ok\""), "{answer}");
    // What is under way is sent before the gateway is gone.
    gateway.stop();
}

#[track_caller]
fn assert_tree(spans: &[Value]) {
    let [call, failed, whole] = spans else {
        panic!("{spans:#?}");
    };
    for span in spans {
        assert_eq!(span["name"], "chat m");
        assert_eq!(span["trace_id"], call["trace_id"]);
        assert_eq!(span["trace_id"].as_str().unwrap().len(), 32);
        assert_eq!(span["span_id"].as_str().unwrap().len(), 16);
        assert_eq!(span["resource"]["service.name"], "lifesign");
        assert_eq!(span["scope"], "lifesign-gateway");
        // Of each type one.
        let said = &span["attributes"];
        assert_eq!(said["gen_ai.operation.name"], "chat");
        assert_eq!(said["gen_ai.request.stream"], true);
        assert_eq!(said["gen_ai.request.max_tokens"], 9);
    }
    assert_eq!(call["kind"], "SPAN_KIND_SERVER");
    assert_eq!(call["parent_span_id"], "");
    assert_eq!(call["attributes"]["lifesign.attempts"], 2);
    assert!(call["events"]["lifesign.wait.retry"].is_object(), "{call}");
    for attempt in [failed, whole] {
        assert_eq!(attempt["kind"], "SPAN_KIND_CLIENT");
        assert_eq!(attempt["parent_span_id"], call["span_id"]);
        assert!(attempt["took_ns"].as_u64() <= call["took_ns"].as_u64());
    }
    assert_eq!(failed["status"], 2);
    assert_eq!(
        failed["message"],
        "the provider reports an error of its own (500)"
    );
    assert_eq!(failed["attributes"]["error.type"], "provider_error");
    assert_eq!(whole["status"], 0);
    let first = &whole["attributes"]["gen_ai.response.time_to_first_chunk"];
    assert!(first.is_f64(), "{whole}");
    assert_eq!(
        whole["attributes"]["gen_ai.response.finish_reasons"],
        json!(["stop"])
    );
}

#[test]
fn the_official_messages_for_python_read_every_span() {
    let Some(receiver) = Receiver::start() else {
        return;
    };

    for protocol in PROTOCOLS {
        call(&receiver.ports.url(protocol), protocol);

        assert_tree(&receiver.spans(3));
    }
}

#[test]
fn a_collector_takes_every_span_and_hands_it_on() {
    let Some(receiver) = Receiver::start() else {
        return;
    };
    let Some(rotel) = Rotel::start(&receiver) else {
        return;
    };

    for protocol in PROTOCOLS {
        call(&rotel.ports.url(protocol), protocol);

        assert_tree(&receiver.spans(3));
    }
}
