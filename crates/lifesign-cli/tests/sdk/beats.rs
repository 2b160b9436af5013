//! That the beats are there which the clients do not see.

use serde_json::json;

use crate::case::{Api, SLOW};
use crate::upstreams::{Gateway, Lane, Providers, exchange};

#[test]
fn a_slow_answer_is_carried_by_beats_of_the_form_that_is_set() {
    let providers = Providers::start([SLOW]);
    let mut lanes = Vec::new();
    for (api, _, _) in APIS {
        for (form, beats) in FORMS {
            lanes.push(Lane {
                model: format!("{form}-{}", api.name()),
                wire: api.wire(),
                url: providers.url(0),
                beats: Some(beats),
            });
        }
    }
    let gateway = Gateway::start(&lanes);

    for (api, path, event) in APIS {
        for (form, mark) in [
            ("comment", ": {\"state\""),
            ("event", event),
            ("space", "\r\n \r\n"),
        ] {
            let model = format!("{form}-{}", api.name());
            let body = json!({
                "model": model, "max_tokens": 24, "stream": form != "space", "input": "hello",
                "messages": [{"role": "user", "content": "hello"}],
            });
            let response = exchange(gateway.url(), &format!("POST {path}"), &body.to_string());

            assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
            assert!(response.matches(mark).count() >= 2, "{model}: {response}");
        }
    }
}

/// Each form of beats, with the settings for it.
const FORMS: [(&str, &str); 3] = [
    ("comment", "every = \"50ms\", form = \"comment\""),
    ("event", "every = \"50ms\", form = \"event\""),
    ("space", "every = \"50ms\", form = \"space\""),
];

/// Each API with its path, and what a beat looks like that is an event.
const APIS: [(Api, &str, &str); 3] = [
    (Api::Chat, "/v1/chat/completions", "\"choices\":[]"),
    (Api::Responses, "/v1/responses", "event: keepalive"),
    (Api::Messages, "/v1/messages", "event: ping"),
];
