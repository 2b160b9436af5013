//! What every client is asked to do, directly and through the gateway.

use serde_json::{Value, json};

use crate::client::Client;
use crate::compare::{differences, normal};
use crate::upstreams::{Gateway, Lane, Llama, Providers};

/// A part of an API that a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Api {
    Chat,
    /// Chat completions by a client for whoever speaks them.
    Compatible,
    Messages,
    Responses,
}

impl Api {
    /// Returns its name, as the clients' scripts and the models have it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Compatible => "compatible",
            Self::Messages => "messages",
            Self::Responses => "responses",
        }
    }

    /// Returns the wire that it is.
    pub(crate) const fn wire(self) -> &'static str {
        match self {
            Self::Chat | Self::Compatible => "openai-chat",
            Self::Messages => "anthropic",
            Self::Responses => "openai-responses",
        }
    }
}

/// Puts `client` through every scenario and panics with all that was not as expected.
#[track_caller]
pub(crate) fn check(client: Client, apis: &[Api]) {
    let llama = Llama::start();
    let providers = Providers::start(SCENARIOS.iter().map(|scenario| scenario.script));
    let mut lanes = Vec::new();
    let cases = || {
        let apis = apis.iter().copied();
        apis.flat_map(|api| [true, false].map(|stream| (api, stream)))
    };
    for (api, stream) in cases() {
        for (at, scenario) in SCENARIOS.iter().enumerate() {
            lanes.push(Lane {
                model: model(scenario.name, api, stream),
                wire: api.wire(),
                url: providers.url(at),
                beats: scenario.beats,
            });
        }
        if let Some(llama) = &llama {
            lanes.push(Lane {
                model: model("llama", api, stream),
                wire: api.wire(),
                url: llama.url().to_owned(),
                beats: None,
            });
        }
    }
    let gateway = Gateway::start(&lanes);
    let mut run = Run {
        client,
        providers,
        gateway,
        wrong: Vec::new(),
    };

    for (api, stream) in cases() {
        for (at, scenario) in SCENARIOS.iter().enumerate() {
            if scenario.manner.includes(stream) {
                run.play(at, scenario, api, stream);
            }
        }
        if let Some(llama) = &llama {
            run.ask_llama(llama, api, stream);
        }
    }

    let Run { wrong, .. } = run;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the model of a case. Each case has an upstream of its own, so that no hold or breaker of
/// one is felt in another.
fn model(scenario: &str, api: Api, stream: bool) -> String {
    let manner = if stream { "stream" } else { "whole" };
    format!("{scenario}-{}-{manner}", api.name())
}

/// A client on its way through the scenarios.
struct Run {
    client: Client,
    providers: Providers,
    gateway: Gateway,
    /// What was not as expected.
    wrong: Vec<String>,
}

impl Run {
    fn play(&mut self, at: usize, scenario: &Scenario, api: Api, stream: bool) {
        let case = Case::new(scenario, api, stream);
        let upstream = self.providers.url(at);
        let gateway = self.gateway.url().to_owned();
        match scenario.expects {
            Expects::Same => {
                let directly = self.ask(&case, &upstream);
                let through = self.ask(&case, &gateway);
                self.compare(&case, &directly, &through);
            }
            Expects::SameWithoutBeats => {
                let directly = self.ask(&case, &upstream);
                let through = self.ask(&case, &gateway);
                self.compare(&case, &without_beats(directly), &without_beats(through));
            }
            Expects::OwnError(said) => {
                let through = self.ask(&case, &gateway);
                let error = &through["error"];
                let message = error["message"].as_str().unwrap_or_default();
                let is_own = !error["kinds"].as_array().is_none_or(Vec::is_empty);
                if !is_own || !message.contains(said) {
                    self.fail(&case, &format!("no error of the client's: {through}"));
                }
            }
            Expects::NoRepetition => {
                if self.client.obeys_should_retry {
                    let before = self.providers.requests(at).len();
                    let through = self.ask(
                        &Case {
                            retries: 2,
                            ..case.clone()
                        },
                        &gateway,
                    );
                    let made = self.providers.requests(at).len() - before;
                    if made != 3 || through["error"]["kinds"] == json!([]) {
                        self.fail(&case, &format!("{made} requests, then {through}"));
                    }
                }
            }
            Expects::Left(_) => {
                for url in [&upstream, &gateway] {
                    let before = self.providers.requests(at).len();
                    self.client.begin(&case.line(url));
                    self.providers.wait_for_requests(at, before + 1);
                    if case.leaves == Some(WHEN_TOLD) {
                        self.client.leave();
                    }
                    self.client.came();
                    // The client is still running, so that its leaving is all that can be seen.
                    if !self.providers.sees_peer_leave(at, before) {
                        self.fail(&case, &format!("the call to {url} was not given up"));
                    }
                }
            }
        }
    }

    fn ask_llama(&mut self, llama: &Llama, api: Api, stream: bool) {
        let gateway = self.gateway.url().to_owned();
        let text = Case {
            model: model("llama", api, stream),
            ..Case::plain(api, stream)
        };
        let tools = Case {
            tools: true,
            max_tokens: 400,
            ..text.clone()
        };
        let error = Case {
            temperature: json!("warm"),
            ..text.clone()
        };
        // The AI SDK refuses the event with which this server begins a response, either way.
        let is_read = api != Api::Responses || !stream;
        for case in [&text, &tools, &error] {
            let directly = self.ask(case, llama.url());
            let through = self.ask(case, &gateway);
            self.compare(case, &directly, &through);
            let is_answered = directly["error"].is_null();
            if is_read && is_answered != (case.temperature == json!(0)) {
                self.fail(case, &format!("not what was asked for: {directly}"));
            }
        }
        let called = self.ask(&tools, &gateway).to_string();
        if is_read && !called.contains("get_weather") {
            self.fail(&tools, &format!("no call of the tool: {called}"));
        }
        if stream {
            let endless = Case {
                max_tokens: 100_000,
                leaves: Some(AT_CONTENT),
                ..text
            };
            self.ask(&endless, &gateway);
            if !llama.becomes_idle() {
                self.fail(&endless, "the server goes on with a call that was left");
            }
        }
    }

    fn ask(&mut self, case: &Case, url: &str) -> Value {
        self.client.begin(&case.line(url));
        self.client.came()
    }

    fn compare(&mut self, case: &Case, directly: &Value, through: &Value) {
        let found = differences(&normal(directly), &normal(through));
        let shown = found.iter().take(MOST_SHOWN).cloned().collect::<Vec<_>>();
        if !shown.is_empty() {
            let of = found.len();
            let shown = shown.join("\n    ");
            self.fail(case, &format!("{of} differences:\n    {shown}"));
        }
    }

    fn fail(&mut self, case: &Case, what: &str) {
        let manner = if case.stream { "streamed" } else { "whole" };
        let Case { api, model, .. } = case;
        self.wrong
            .push(format!("{model} ({} {manner}): {what}", api.name()));
    }
}

/// One request, as the clients' scripts read it.
#[derive(Clone)]
struct Case {
    model: String,
    api: Api,
    stream: bool,
    tools: bool,
    max_tokens: u32,
    temperature: Value,
    /// How often the client itself may ask again.
    retries: u32,
    leaves: Option<&'static str>,
}

impl Case {
    fn new(scenario: &Scenario, api: Api, stream: bool) -> Self {
        Self {
            model: model(scenario.name, api, stream),
            tools: scenario.tools,
            leaves: match scenario.expects {
                Expects::Left(when) => Some(when),
                _ => None,
            },
            ..Self::plain(api, stream)
        }
    }

    fn plain(api: Api, stream: bool) -> Self {
        Self {
            model: String::new(),
            api,
            stream,
            tools: false,
            max_tokens: 24,
            temperature: json!(0),
            retries: 0,
            leaves: None,
        }
    }

    fn line(&self, url: &str) -> Value {
        json!({
            "base_url": format!("{url}/v1"),
            "model": self.model,
            "api": self.api.name(),
            "stream": self.stream,
            "tools": self.tools,
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "retries": self.retries,
            "leaves": self.leaves,
        })
    }
}

/// Takes out the events that are nothing but a beat.
fn without_beats(mut came: Value) -> Value {
    if let Some(events) = came["events"].as_array_mut() {
        events.retain(|event| {
            let is_empty_chunk = event["choices"] == json!([]) && event["usage"].is_null();
            // LangChain makes one of its own of an empty chunk.
            let is_empty_message = event["type"] == "AIMessageChunk"
                && event["content"] == ""
                && event["usage_metadata"].is_null()
                && event["response_metadata"].get("finish_reason").is_none();
            let is_beat = event["type"] == "keepalive" || event["type"] == "ping";
            !is_empty_chunk && !is_empty_message && !is_beat
        });
    }
    came
}

/// What a provider does, and what is expected of a client in front of it.
struct Scenario {
    name: &'static str,
    script: &'static str,
    manner: Manner,
    tools: bool,
    /// The beats of its upstream, where they are not as they ship.
    beats: Option<&'static str>,
    expects: Expects,
}

/// Whether the client asks for a stream.
#[derive(Clone, Copy)]
enum Manner {
    Both,
    Streamed,
    Whole,
}

impl Manner {
    const fn includes(self, stream: bool) -> bool {
        match self {
            Self::Both => true,
            Self::Streamed => stream,
            Self::Whole => !stream,
        }
    }
}

#[derive(Clone, Copy)]
enum Expects {
    /// What comes through is what comes directly.
    Same,
    /// The same, once events that are beats are taken out.
    SameWithoutBeats,
    /// What comes through is an error of the client's own kind that says this; it comes otherwise
    /// directly, since there the status is out, or the connection gone.
    OwnError(&'static str),
    /// The client does not repeat what the gateway has repeated.
    NoRepetition,
    /// The client leaves, and the upstream sees it.
    Left(&'static str),
}

impl Scenario {
    const fn new(name: &'static str, script: &'static str) -> Self {
        Self {
            name,
            script,
            manner: Manner::Both,
            tools: false,
            beats: None,
            expects: Expects::Same,
        }
    }

    const fn streamed(self) -> Self {
        let manner = Manner::Streamed;
        Self { manner, ..self }
    }

    const fn whole(self) -> Self {
        let manner = Manner::Whole;
        Self { manner, ..self }
    }

    const fn with_tools(self) -> Self {
        Self {
            tools: true,
            ..self
        }
    }

    const fn with_beats(self, beats: &'static str) -> Self {
        Self {
            beats: Some(beats),
            ..self
        }
    }

    const fn expects(self, expects: Expects) -> Self {
        Self { expects, ..self }
    }
}

const SCENARIOS: [Scenario; 26] = [
    Scenario::new(
        "text",
        r#"role; text "The tide "; text "turns "; answer "twice a day.""#,
    ),
    Scenario::new(
        "thought",
        r#"role; think "Let me "; think "see."; text "Good "; answer "day!""#,
    ),
    Scenario::new(
        "tools",
        r#"role; text "I will look."
           tool {"index":0,"id":"call_1","type":"function","function":{"name":"get_weather","arguments":""}}
           tool {"index":0,"function":{"arguments":"{\"city\":"}}
           tool {"index":0,"function":{"arguments":"\"Oslo\"}"}}
           tool {"index":1,"id":"call_2","type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Rome\"}"}}
           finish tool_calls; usage {"prompt_tokens":12,"completion_tokens":30,"total_tokens":42}; done; eof"#,
    )
    .with_tools(),
    Scenario::new(
        "length",
        r#"role; text "And so on and"; finish length
           usage {"prompt_tokens":12,"completion_tokens":24,"total_tokens":36}; done; eof"#,
    ),
    Scenario::new(
        "nothing-to-say",
        r#"role; finish stop; usage {"prompt_tokens":12,"completion_tokens":0,"total_tokens":12}; done; eof"#,
    )
    .streamed(),
    Scenario::new(
        "crlf",
        r#"status 200 sse; eol crlf; role; text "two "; answer "bytes""#,
    )
    .streamed(),
    Scenario::new(
        "heartbeats",
        r#"role; text "Still "; ping; comment "queue"; ping; answer "here.""#,
    )
    .streamed(),
    Scenario::new(
        "wrong-key",
        r#"status 401 json; error authentication_error "no such key"; eof"#,
    ),
    Scenario::new(
        "unknown-model",
        r#"status 404 json; error not_found_error "no such model"; eof"#,
    ),
    Scenario::new(
        "too-large",
        r#"status 400 json; error context_length_exceeded "prompt is too long"; eof"#,
    ),
    Scenario::new(
        "limited",
        r#"status 429 json [retry-after: 3600]; error rate_limit_error "too many requests"; eof"#,
    ),
    Scenario::new(
        "quota",
        r#"status 429 json; error insufficient_quota "nothing left to spend"; eof"#,
    ),
    Scenario::new(
        "overloaded",
        r#"status 529 json; error overloaded_error "Overloaded"; eof"#,
    ),
    Scenario::new(
        "unavailable",
        r#"status 503 json; error api_error "back soon"; eof"#,
    ),
    Scenario::new(
        "broken",
        r#"status 500 json; error api_error "something broke"; eof"#,
    ),
    Scenario::new(
        "error-mid-answer",
        r#"role; text "Half of it"; +0.05 error overloaded_error "Overloaded"; eof"#,
    )
    .streamed(),
    Scenario::new(
        "cut-mid-answer",
        r#"role; text "Half of it"; +0.05 cut"#,
    )
    .expects(Expects::OwnError("")),
    Scenario::new(
        "error-first",
        r#"status 200 sse; role; error overloaded_error "Overloaded"; eof"#,
    )
    .streamed()
    .expects(Expects::OwnError("Overloaded")),
    Scenario::new(
        "error-after-beats",
        r#"+0.15 status 529 json; error overloaded_error "Overloaded"; eof"#,
    )
    .streamed()
    .with_beats(OFTEN)
    .expects(Expects::OwnError("Overloaded")),
    Scenario::new("slow", SLOW).with_beats(OFTEN),
    Scenario::new("slow-events", SLOW)
        .streamed()
        .with_beats("every = \"50ms\", form = \"event\"")
        .expects(Expects::SameWithoutBeats),
    Scenario::new("slow-space", SLOW)
        .whole()
        .with_beats("every = \"50ms\", form = \"space\""),
    Scenario::new("silent", "hold").expects(Expects::Left(WHEN_TOLD)),
    Scenario::new("silent-with-beats", "hold")
        .with_beats(OFTEN)
        .expects(Expects::Left(WHEN_TOLD)),
    Scenario::new("stalled", r#"role; text "First"; hold"#)
        .streamed()
        .expects(Expects::Left(AT_CONTENT)),
    Scenario::new(
        "repeated",
        r#"status 500 json; error api_error "something broke"; eof"#,
    )
    .expects(Expects::NoRepetition),
];

/// Longer between its pieces than between two beats.
pub(crate) const SLOW: &str = r#"+0.15 role; +0.15 text "Slow "; +0.15 answer "but sure.""#;

const OFTEN: &str = "every = \"50ms\"";

/// The client leaves when the next line says so.
const WHEN_TOLD: &str = "when told";

/// The client leaves when it has seen content.
const AT_CONTENT: &str = "at content";

/// So many differences of one case are shown.
const MOST_SHOWN: usize = 8;
