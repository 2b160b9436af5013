//! Plays a script to a client and shows what both sides saw.

use std::time::Duration;

use lifesign::{Answered, CallEvent, CallReport, CallRequest, Client, Failed, Upstream};
use lifesign_core::{Layer, Origin, Settings, Target, Value, resolve};
use lifesign_standin::{Request as Seen, Standin};
use lifesign_wire::{Request, Wire};

/// A script, the settings to meet it with, and how much faster than real time both run.
pub(crate) struct Case {
    script: String,
    wire: Wire,
    layer: Layer,
    speed: f64,
    max_tokens: Option<u64>,
    stream: bool,
    http2: bool,
    cancel_at: Option<f64>,
}

/// What came of a case. Times are real ones.
pub(crate) struct Played {
    pub(crate) outcome: Result<Answered, Box<Failed>>,
    pub(crate) report: CallReport,
    pub(crate) events: Vec<CallEvent>,
    pub(crate) elapsed: Duration,
    pub(crate) standin: Standin,
}

impl Case {
    /// A chat call at ten times the speed.
    pub(crate) fn new(script: &str) -> Self {
        let mut case = Self {
            script: script.to_owned(),
            wire: Wire::OPENAI_CHAT,
            layer: Layer::new(),
            speed: 10.0,
            max_tokens: None,
            stream: true,
            http2: false,
            cancel_at: None,
        };
        // Our own waits shrink with everything else.
        for (key, seconds) in [
            ("retry.transport.first_delay", 0.75),
            ("retry.cut.first_delay", 1.0),
            ("retry.rate.first_delay", 1.0),
            ("retry.overload.first_delay", 10.0),
        ] {
            case = case.set_seconds(key, seconds);
        }
        case
    }

    pub(crate) fn wire(mut self, wire: Wire) -> Self {
        self.wire = wire;
        self
    }

    pub(crate) fn speed(mut self, speed: f64) -> Self {
        self.speed = speed;
        self
    }

    pub(crate) fn max_tokens(mut self, max_tokens: u64) -> Self {
        self.max_tokens = Some(max_tokens);
        self
    }

    pub(crate) fn whole(mut self) -> Self {
        self.stream = false;
        self
    }

    pub(crate) fn http2(mut self) -> Self {
        self.http2 = true;
        self
    }

    /// Leaves after that many of the script's seconds.
    pub(crate) fn cancel_at(mut self, seconds: f64) -> Self {
        self.cancel_at = Some(seconds);
        self
    }

    /// Sets a duration in the script's seconds.
    pub(crate) fn set_seconds(self, key: &str, seconds: f64) -> Self {
        let text = format!("{}s", seconds / self.speed);
        self.set(key, &text)
    }

    /// Sets anything as it would be written after `--set key=`.
    pub(crate) fn set(mut self, key: &str, text: &str) -> Self {
        self.layer
            .set(key, Value::of_text(text), Origin::Call)
            .unwrap();
        self
    }

    pub(crate) fn attempts(self, attempts: u32) -> Self {
        self.set("retry.attempts", &attempts.to_string())
    }

    pub(crate) async fn play(self) -> Played {
        let standin = Standin::script(&self.script)
            .unwrap()
            .speed(self.speed)
            .start()
            .await
            .unwrap();
        let target = Target {
            wire: &self.wire.defaults(),
            host: Some("127.0.0.1"),
            model: Some("m"),
        };
        let settings = resolve(&[&self.layer], &target).unwrap();
        let (outcome, events, elapsed) = self.talk(&standin.url(), settings).await;
        let report = match &outcome {
            Ok(answered) => CallReport::from(answered),
            Err(failed) => CallReport::from(&**failed),
        };
        Played {
            outcome,
            report,
            events,
            elapsed,
            standin,
        }
    }
}

impl Case {
    async fn talk(
        &self,
        url: &str,
        settings: Settings,
    ) -> (Result<Answered, Box<Failed>>, Vec<CallEvent>, Duration) {
        let mut upstream = Upstream::new(self.wire, url).unwrap();
        if self.http2 {
            upstream = upstream.with_http2();
        }
        let mut request = Request::prompt("m", "hello").stream(self.stream);
        request.max_tokens = self.max_tokens;
        let client = Client::new().unwrap();
        let began = lifesign::clock::now();
        let mut stream = client.stream(CallRequest::new(upstream, request).settings(settings));
        let leave = self
            .cancel_at
            .map(|at| began + Duration::from_secs_f64(at / self.speed));
        let mut events = Vec::new();
        let outcome = loop {
            let leaves = async {
                match leave {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = leaves => break Err(stream.cancel().expect("the call is not over")),
                item = stream.next() => match item.expect("a call says how it ends") {
                    Ok(CallEvent::Finished(answered)) => break Ok(*answered),
                    Ok(event) => events.push(event),
                    Err(failed) => break Err(failed),
                },
            }
        };
        (outcome, events, lifesign::clock::now() - began)
    }
}

impl Played {
    pub(crate) fn requests(&self) -> Vec<Seen> {
        self.standin.requests()
    }

    pub(crate) fn code(&self) -> &'static str {
        match &self.outcome {
            Ok(_) => "completed",
            Err(failed) => failed.failure.code.name(),
        }
    }

    pub(crate) fn bound(&self) -> Option<&'static str> {
        self.outcome
            .as_ref()
            .err()?
            .failure
            .bound
            .map(lifesign_core::BoundName::name)
    }

    pub(crate) fn message(&self) -> String {
        match &self.outcome {
            Ok(_) => String::new(),
            Err(failed) => failed.failure.message(),
        }
    }

    /// Asserts that the call took `seconds` of the script's, a tenth more or less and a moment.
    #[track_caller]
    pub(crate) fn assert_took(&self, seconds: f64, speed: f64) {
        let took = self.elapsed.as_secs_f64();
        let expected = seconds / speed;
        let room = (expected / 10.0).max(0.25);
        assert!(
            (expected - 0.02..=expected + room).contains(&took),
            "took {took:.3} s instead of {expected:.3} s"
        );
    }

    /// Asserts that the provider sees the connection of request `index`, counted from 0, closed.
    pub(crate) async fn assert_left(&self, index: usize) {
        let closed = self
            .standin
            .wait_for_peer_closed(index, Duration::from_secs(1))
            .await;
        assert!(
            closed.is_some(),
            "connection of request {index} is still open"
        );
    }
}
