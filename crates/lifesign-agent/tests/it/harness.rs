//! Plays a script to an agent and shows what everybody saw.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lifesign::{Client, Upstream, Wire};
use lifesign_agent::tools::{
    ProgressSink, ToolCall, ToolFuture, ToolProgress, ToolResult, ToolSpec, Toolbox,
};
use lifesign_agent::{Agent, AgentBuilder, AgentEvent, Counts, Entry, Transcript, TurnReport};
use lifesign_standin::Standin;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::wire_rules::{assert_accepted, assert_body};

/// A script, and the agent that meets it. Bounds and delays are a fraction of a second.
pub(crate) struct Case {
    script: String,
    wire: Wire,
    sets: Vec<(&'static str, String)>,
    shape: Vec<Box<dyn FnOnce(AgentBuilder) -> AgentBuilder>>,
    cancel_when: Option<Happened>,
    cancel_on: Option<Pin<Box<dyn Future<Output = ()>>>>,
    cancel_at_request: Option<usize>,
}

/// Says of an event whether what was waited for has happened.
type Happened = Box<dyn FnMut(&AgentEvent) -> bool>;

/// What came of it.
pub(crate) struct Played {
    pub(crate) report: TurnReport,
    pub(crate) events: Vec<AgentEvent>,
    pub(crate) agent: Agent,
    pub(crate) standin: Standin,
}

impl Case {
    pub(crate) fn new(script: &str) -> Self {
        Self {
            script: script.to_owned(),
            wire: Wire::OPENAI_CHAT,
            sets: [
                ("bounds.raw_silence", "150ms"),
                ("retry.transport.first_delay", "10ms"),
                ("retry.cut.first_delay", "10ms"),
                ("retry.rate.first_delay", "10ms"),
                ("retry.overload.first_delay", "10ms"),
            ]
            .map(|(key, value)| (key, value.to_owned()))
            .into(),
            shape: Vec::new(),
            cancel_when: None,
            cancel_on: None,
            cancel_at_request: None,
        }
    }

    pub(crate) fn wire(mut self, wire: Wire) -> Self {
        self.wire = wire;
        self
    }

    pub(crate) fn set(mut self, key: &'static str, value: &str) -> Self {
        self.sets.push((key, value.to_owned()));
        self
    }

    pub(crate) fn with(
        mut self,
        shape: impl FnOnce(AgentBuilder) -> AgentBuilder + 'static,
    ) -> Self {
        self.shape.push(Box::new(shape));
        self
    }

    pub(crate) fn tools(self, tools: &Arc<Tools>) -> Self {
        let tools = Arc::clone(tools);
        self.with(move |builder| builder.tools(tools))
    }

    /// Stops the turn as soon as that has happened.
    pub(crate) fn cancel_when(
        mut self,
        happened: impl FnMut(&AgentEvent) -> bool + 'static,
    ) -> Self {
        self.cancel_when = Some(Box::new(happened));
        self
    }

    pub(crate) fn cancel_after(self, time: Duration) -> Self {
        self.cancel_on(async move { tokio::time::sleep(time).await })
    }

    /// Stops the turn once that is over.
    pub(crate) fn cancel_on(mut self, over: impl Future<Output = ()> + 'static) -> Self {
        self.cancel_on = Some(Box::pin(over));
        self
    }

    /// Stops the turn as soon as the provider has got so many requests.
    pub(crate) fn cancel_at_request(mut self, requests: usize) -> Self {
        self.cancel_at_request = Some(requests);
        self
    }

    /// Plays one turn.
    pub(crate) async fn play(self) -> Played {
        let standin = Standin::script(&self.script)
            .unwrap()
            .start()
            .await
            .unwrap();
        let upstream = Upstream::new(self.wire, &standin.url()).unwrap();
        let mut builder = Agent::builder(Client::new().unwrap(), upstream, "m");
        for (key, value) in &self.sets {
            builder = builder.set(key, value).unwrap();
        }
        for shape in self.shape {
            builder = shape(builder);
        }
        let mut agent = builder.build().unwrap();
        let seen = async {
            match (self.cancel_at_request, self.cancel_on) {
                (Some(requests), _) => {
                    let came = standin.wait_for_requests(requests, Duration::from_secs(10));
                    assert!(came.await, "there were not {requests} requests");
                }
                (None, Some(over)) => over.await,
                (None, None) => std::future::pending().await,
            }
        };
        let (report, events) = play(&mut agent, "go", self.cancel_when, seen).await;
        Played {
            report,
            events,
            agent,
            standin,
        }
    }
}

async fn play(
    agent: &mut Agent,
    text: &str,
    mut cancel_when: Option<Happened>,
    cancel_at: impl Future<Output = ()>,
) -> (TurnReport, Vec<AgentEvent>) {
    let mut turn = agent.turn(text);
    let cancel = turn.canceller();
    tokio::pin!(cancel_at);
    let mut events = Vec::new();
    loop {
        let event = tokio::select! {
            () = &mut cancel_at, if !cancel.is_cancelled() => {
                cancel.cancel();
                continue;
            }
            event = turn.next() => event.unwrap().unwrap(),
        };
        if cancel_when
            .as_mut()
            .is_some_and(|happened| happened(&event))
        {
            cancel.cancel();
        }
        match event {
            AgentEvent::Ended(report) => {
                assert!(turn.next().await.is_none());
                return (*report, events);
            }
            event => events.push(event),
        }
    }
}

impl Played {
    /// Goes on with the turn from its transcript with a client of its own, as a new program would.
    pub(crate) async fn resume_elsewhere(&mut self) -> TurnReport {
        let mut moved = Transcript::in_memory();
        for entry in self.entries().iter().skip(1) {
            moved.append(entry.clone()).await.unwrap();
        }
        let upstream = Upstream::new(Wire::OPENAI_CHAT, &self.standin.url()).unwrap();
        let builder = Agent::builder(Client::new().unwrap(), upstream, "m");
        self.agent = builder.transcript(moved).build().unwrap();
        self.agent.resume().unwrap().report().await.unwrap()
    }

    /// Says something else, and returns how that turn ended.
    pub(crate) async fn say(&mut self, text: &str) -> TurnReport {
        let (report, events) = play(&mut self.agent, text, None, std::future::pending()).await;
        self.events = events;
        report
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        self.agent.transcript().entries()
    }

    /// Returns what is in the transcript, in short.
    pub(crate) fn short(&self) -> Vec<String> {
        self.entries().iter().skip(1).map(short).collect()
    }

    pub(crate) fn outcome(&self) -> (&'static str, u8) {
        (self.report.outcome.name(), self.report.exit_code())
    }

    pub(crate) fn code(&self) -> &'static str {
        let failure = self.report.failure.as_ref();
        failure.map_or("none", |failure| failure.code.name())
    }

    /// Returns what was counted, without heartbeats, of which there may be any number.
    pub(crate) fn counts(&self) -> Counts {
        Counts {
            heartbeats: 0,
            ..self.report.counts
        }
    }

    /// Returns the conversation that request `at` sent, counted from 0.
    pub(crate) fn sent(&self, at: usize) -> Value {
        self.standin.requests()[at].json()
    }

    /// Returns what was sent for the turn, each body with the wire that it went by.
    pub(crate) fn bodies(&self) -> Vec<(Wire, Value)> {
        let requests = self.standin.requests();
        let bodies = requests.iter().map(|request| {
            let wire = Wire::ALL
                .into_iter()
                .find(|wire| request.path.ends_with(wire.path()))
                .unwrap();
            (wire, request.json())
        });
        bodies.collect()
    }

    /// Asserts what holds of every turn, however it went: the provider left no trace in the
    /// transcript, every wire takes it, and the times are all of the time.
    #[track_caller]
    pub(crate) fn assert_sound(&self) {
        // What a tool says is its own; one may tell of a call that it asked for.
        let written: String = self
            .entries()
            .iter()
            .filter(|entry| {
                !matches!(
                    entry,
                    Entry::Begin(_) | Entry::Ended(_) | Entry::ToolEnded(_)
                )
            })
            .map(|entry| serde_json::to_string(entry).unwrap())
            .collect();
        for word in [
            "attempt",
            "heartbeat",
            "ping",
            "raw_silen",
            "429",
            "overload",
            "rate_limit",
            "bound",
            "timed out",
            "reset",
            "127.0.0.1",
        ] {
            assert!(!written.contains(word), "{word:?} is in {written}");
        }
        for wire in Wire::ALL {
            assert_accepted(self.agent.transcript(), wire);
        }
        for (wire, body) in self.bodies() {
            assert_body(&body, wire);
        }
        let times = self.report.times_ms;
        assert_eq!(
            times.elapsed,
            times.working + times.provider + times.waiting + times.tools,
            "{times:?}"
        );
        assert_eq!(
            self.report.counts.attempts as usize,
            self.standin.requests().len()
        );
    }
}

/// Returns an entry in a few words.
fn short(entry: &Entry) -> String {
    match entry {
        Entry::User { text, .. } => format!("user {text}"),
        Entry::Nudge { rule, .. } => format!("nudge {rule}"),
        Entry::Answer(said) => {
            let calls: Vec<_> = said
                .tool_calls
                .iter()
                .map(|call| call.id.as_str())
                .collect();
            let goes_on = if said.continues { "... " } else { "" };
            let mut short = format!("answer {goes_on}{}", said.new_text());
            if !calls.is_empty() {
                short = format!("{short}[{}]", calls.join(" "));
            }
            short
        }
        Entry::Partial(partial) => {
            let goes_on = if partial.said.continues { "... " } else { "" };
            let calls = partial.cut.tool_call.as_deref();
            let calls = calls.map(|id| format!("[{id}]")).unwrap_or_default();
            format!("partial {goes_on}{}{calls}", partial.said.new_text())
        }
        Entry::ToolBegan { id, .. } => format!("began {id}"),
        Entry::ToolEnded(ran) => {
            let failed = if ran.is_error { "!" } else { "" };
            let text: String = ran.text.chars().take(24).collect();
            format!("ran{failed} {}: {text}", ran.id)
        }
        Entry::Compacted { keep_from, .. } => format!("compacted {keep_from}"),
        Entry::Elided { results } => format!("elided {results:?}"),
        Entry::Ended(ended) => format!("ended {}", ended.outcome.name()),
        Entry::Resumed => "resumed".to_owned(),
        other => format!("{other:?}"),
    }
}

/// Tools for tests, and what they were asked.
#[derive(Default)]
pub(crate) struct Tools {
    asked: Mutex<Vec<String>>,
}

impl Tools {
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Toolbox for Tools {
    fn tools(&self) -> Vec<ToolSpec> {
        // `look` may run beside others, `write` may not, `hang` never ends, `fail` fails.
        [
            ("look", true),
            ("write", false),
            ("hang", true),
            ("fail", false),
        ]
        .map(|(name, is_parallel)| ToolSpec {
            name: name.to_owned(),
            description: None,
            parameters: json!({"type": "object"}),
            timeout: None,
            is_parallel,
        })
        .into()
    }

    fn call(&self, call: ToolCall, progress: ProgressSink) -> ToolFuture<'_> {
        Box::pin(async move {
            let ToolCall {
                id,
                name,
                arguments,
            } = call;
            self.asked.lock().unwrap().push(format!("{id} {name}"));
            progress(ToolProgress {
                done: Some(0.5),
                ..ToolProgress::default()
            });
            if let Some(wait) = arguments["ms"].as_u64() {
                tokio::time::sleep(Duration::from_millis(wait)).await;
            }
            match name.as_str() {
                "hang" => std::future::pending().await,
                "fail" => ToolResult::error("it failed"),
                _ => ToolResult::ok(arguments["say"].as_str().unwrap_or("done")),
            }
        })
    }
}

/// Returns the words of a script that call these tools, whole: id, name, arguments.
pub(crate) fn calls(calls: &[(&str, &str, Value)]) -> String {
    let mut steps: Vec<String> = calls
        .iter()
        .enumerate()
        .map(|(index, (id, name, arguments))| {
            let function = json!({"name": name, "arguments": arguments.to_string()});
            let call = json!({"index": index, "id": id, "type": "function", "function": function});
            format!("tool {call}")
        })
        .collect();
    steps.push("finish \"tool_calls\"; done; eof".to_owned());
    steps.join("; ")
}

/// Heartbeats without end, so that the flat bound cuts.
pub(crate) const PINGS: &str = "status 200 sse; repeat 0.03 { comment } forever";

/// Lets the flat bound cut before silence does.
pub(crate) fn flat(case: Case) -> Case {
    case.set("bounds.flat", "150ms")
        .set("bounds.raw_silence", "5s")
}

/// What is counted where one call failed in so many attempts.
pub(crate) fn attempts(attempts: u32) -> Counts {
    Counts {
        turns: 1,
        calls: 1,
        attempts,
        ..NOTHING
    }
}

/// What is counted where nothing happens.
pub(crate) const NOTHING: Counts = Counts {
    turns: 0,
    rounds: 0,
    calls: 0,
    attempts: 0,
    heartbeats: 0,
    notices: 0,
    nudges: 0,
    recoveries: 0,
    resends: 0,
    compactions: 0,
    elisions: 0,
    tool_calls: 0,
    tool_failures: 0,
};

/// Returns the note on a turn that ended so.
pub(crate) fn noted(what: &str) -> String {
    format!(
        "[The last turn ended before its answer was complete: {what} A reply may still be given if \
         one is owed.]"
    )
}

/// Asserts how a turn ended.
#[track_caller]
pub(crate) fn assert_ended(
    played: &Played,
    outcome: (&str, u8),
    code: &str,
    note: &str,
    sentence: &str,
) {
    assert_eq!(played.outcome(), outcome, "{:?}", played.report);
    assert_eq!(played.code(), code);
    let said = played.report.note.as_deref().unwrap_or_default();
    let expected = noted(note);
    assert_eq!(said, if note.is_empty() { "" } else { &expected });
    let told = played.report.sentence.as_deref().unwrap_or_default();
    assert!(told.starts_with(sentence) && !told.is_empty(), "{told}");
    played.assert_sound();
}
