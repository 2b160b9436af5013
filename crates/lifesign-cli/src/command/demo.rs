//! `lifesign demo`: a handful of provider faults side by side, each call judged as it goes.

mod board;

use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context as _;
use futures_util::future::join_all;
use lifesign::{
    CallEvent, CallReport, CallRequest, CallStream, Client, Failure, Layer, Origin, Upstream,
};
use lifesign_core::duration::human_measured;
use lifesign_core::{
    Joined, Limit, Notices, Rate, Setting, SettingError, Settings, Target, resolve,
};
use lifesign_standin::Standin;
use lifesign_wire::{Request, Wire};
use serde::Serialize;

use self::board::{Board, Row};
use super::call::Ended;
use crate::args::DemoArgs;
use crate::output::{Unwritten, print_line};

pub(crate) async fn run(args: &DemoArgs) -> anyhow::Result<ExitCode> {
    let standin = Standin::scenarios()
        .speed(f64::from(args.speed))
        .start()
        .await
        .context("the stand-in cannot start")?;
    let client = Client::new()?;
    let calls = SCENES
        .iter()
        .map(|scene| scene.begin(&client, &standin, args.speed))
        .collect::<anyhow::Result<Vec<_>>>()?;
    if !args.json {
        introduce(args.speed)?;
    }
    let rows = calls.iter().map(Playing::row).collect();
    let mut board = Board::new(!args.json, rows, args.speed);
    let mut ended = {
        let follow = join_all(calls.into_iter().map(Playing::follow));
        tokio::pin!(follow);
        let mut ticks = tokio::time::interval(TICK);
        loop {
            tokio::select! {
                ended = &mut follow => break ended,
                _ = ticks.tick(), if board.is_live() => board.draw()?,
            }
        }
    };
    board.wipe()?;
    for played in &mut ended {
        played.tell(args)?;
    }
    if !args.json {
        print_line(CLOSING)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A scenario as the demo shows it.
struct Scene {
    scenario: &'static str,
    /// What the provider does, for somebody who knows none of our words.
    provider: &'static str,
    /// Why the call was judged as it was.
    because: &'static str,
}

const SCENES: [Scene; 7] = [
    Scene {
        scenario: "thinking-long",
        provider: "says that it is thinking, sends only signs of life for four minutes, then answers",
        because: "a thinking model is left alone for as long as its max_tokens can take",
    },
    Scene {
        scenario: "pings-only",
        provider: "sends signs of life for ever, and never a word",
        because: "signs of life come from a timer somewhere; only content proves a working model",
    },
    Scene {
        scenario: "silence-then-recovery",
        provider: "accepts the request and says nothing; asked again, it answers",
        because: "nothing had been shown yet, so the call could be made again unseen",
    },
    Scene {
        scenario: "drip",
        provider: "sends its answer byte by byte",
        because: "every byte is a byte: slow is not silent",
    },
    Scene {
        scenario: "cut-mid-answer",
        provider: "loses the connection in the middle of the answer",
        because: "what was shown cannot be unshown: the part is kept, and nobody pays twice",
    },
    Scene {
        scenario: "rate-limit-wait",
        provider: "answers 429 and asks to come back in four seconds",
        because: "the wait it asked for was kept to, and then the call was made again",
    },
    Scene {
        scenario: "overload",
        provider: "is overloaded twice, then has room",
        because: "overload is met with growing waits, never with quick repeats",
    },
];

impl Scene {
    fn begin(
        &'static self,
        client: &Client,
        standin: &Standin,
        speed: u32,
    ) -> anyhow::Result<Playing> {
        let base_url = format!("{}/{}/v1", standin.url(), self.scenario);
        let upstream = Upstream::new(Wire::ANTHROPIC, &base_url)?.with_name(self.scenario);
        let request = Request::prompt("demo", "What is the answer?").max_tokens(MAX_TOKENS);
        let request = CallRequest::new(upstream, request).settings(settings(speed)?);
        Ok(Playing {
            scene: self,
            stream: client.stream(request),
            speed,
            log: Vec::new(),
            verdict: Arc::default(),
        })
    }
}

/// The defaults for a hosted provider of the anthropic wire.
fn in_life() -> Result<Settings, SettingError> {
    let wire = Wire::ANTHROPIC.defaults();
    let target = Target {
        wire: &wire,
        host: Some("api.anthropic.com"),
        model: Some("demo"),
    };
    resolve::<Layer>(&[], &target)
}

/// The same, made faster by `speed`.
fn settings(speed: u32) -> Result<Settings, SettingError> {
    let mut settings = in_life()?;
    let shorter = |long: Duration| long / speed;
    let bounds = &mut settings.bounds;
    for bound in [
        &mut bounds.headers,
        &mut bounds.raw_silence,
        &mut bounds.before_content,
        &mut bounds.between_events,
        &mut bounds.flat,
    ] {
        if let Limit::After(limit) = &mut bound.value {
            *limit = shorter(*limit);
        }
        // A limit that is written down is not worked out anew from the request.
        bound.origin = Origin::Catalog;
    }
    if let Rate::PerSecond(rate) = &mut bounds.think_tokens_per_second.value {
        *rate *= u64::from(speed);
    }
    if let Notices::Doubling { first, cap } = &mut bounds.notice_after.value {
        (*first, *cap) = (shorter(*first), shorter(*cap));
    }
    let retry = &mut settings.retry;
    for tier in [
        &mut retry.transport,
        &mut retry.cut,
        &mut retry.rate,
        &mut retry.overload,
    ] {
        for delay in [&mut tier.first_delay, &mut tier.max_delay] {
            *delay = Setting {
                value: shorter(delay.value),
                origin: delay.origin.clone(),
            };
        }
    }
    Ok(settings)
}

/// A scene that is being played.
struct Playing {
    scene: &'static Scene,
    stream: CallStream,
    speed: u32,
    log: Vec<String>,
    verdict: Arc<OnceLock<String>>,
}

/// A scene that is over.
struct Played {
    scene: &'static Scene,
    ended: Ended,
    speed: u32,
    /// What happened on the way, worth a line each.
    log: Vec<String>,
}

impl Playing {
    fn row(&self) -> Row {
        Row {
            name: self.scene.scenario,
            monitor: self.stream.monitor(),
            verdict: Arc::clone(&self.verdict),
        }
    }

    async fn follow(mut self) -> Played {
        let ended = loop {
            match self.stream.next().await {
                Some(Ok(CallEvent::Finished(answered))) => break Ok(answered),
                Some(Ok(event)) => self.note(&event),
                Some(Err(failed)) => break Err(failed),
                // A stream says how it ended before it ends.
                None => std::future::pending().await,
            }
        };
        // The board shows it from now on; nobody else sets it.
        let _set = self.verdict.set(verdict(&ended, self.speed));
        Played {
            scene: self.scene,
            ended,
            speed: self.speed,
            log: self.log,
        }
    }

    fn note(&mut self, event: &CallEvent) {
        let real = |fast: Duration| human_measured(rounded(fast * self.speed));
        match event {
            CallEvent::Notice(notice) => self.log.push(format!(
                "noticed after {} without content; the last byte was {} old, so the call went on",
                real(notice.ages.content),
                real(notice.ages.raw)
            )),
            CallEvent::Retrying {
                failure,
                attempt,
                wait,
                ..
            } => {
                let failure = at_real_time(failure, self.speed);
                self.log.push(format!(
                    "{}; waited {} and made attempt {attempt}",
                    failure.message(),
                    real(*wait)
                ));
            }
            _ => {}
        }
    }
}

impl Played {
    fn tell(&mut self, args: &DemoArgs) -> anyhow::Result<()> {
        if args.json {
            let report = match &self.ended {
                Ok(answered) => CallReport::from(&**answered),
                Err(failed) => CallReport::from(&**failed),
            };
            let line = serde_json::to_string(&Line {
                scenario: self.scene.scenario,
                report,
            });
            return Ok(print_line(&line.context("the report cannot be written")?)?);
        }
        let real = |fast: Duration| human_measured(rounded(fast * self.speed));
        print_line(&format!("The provider {}.", self.scene.provider))?;
        for line in &self.log {
            print_line(&format!("    - {line}"))?;
        }
        match &self.ended {
            Ok(answered) => print_line(&format!(
                "    COMPLETED in {}: {:?}",
                real(answered.elapsed),
                answered.answer.text
            ))?,
            Err(failed) => {
                let failure = at_real_time(&failed.failure, self.speed);
                let outcome = failed.outcome().name().to_uppercase();
                print_line(&format!(
                    "    {outcome} after {}: {}",
                    real(failed.elapsed),
                    failure.message()
                ))?;
                if let Some(partial) = failed
                    .partial
                    .as_ref()
                    .filter(|partial| !partial.is_empty())
                {
                    print_line(&format!("    kept: {:?}", partial.text))?;
                }
                print_line(&format!(
                    "    the person waiting is told: {}",
                    failure.sentence()
                ))?;
            }
        }
        print_line(&format!("    why: {}", self.scene.because))?;
        Ok(print_line("")?)
    }
}

/// What `--json` prints of a scene.
#[derive(Serialize)]
struct Line {
    scenario: &'static str,
    report: CallReport,
}

/// Says in a few words how a call ended.
fn verdict(ended: &Ended, speed: u32) -> String {
    let after = |fast: Duration| human_measured(rounded(fast * speed));
    match ended {
        Ok(answered) => {
            let attempts = match answered.attempts.len() {
                1 => String::new(),
                count => format!(", {count} attempts"),
            };
            format!("completed in {}{attempts}", after(answered.elapsed))
        }
        Err(failed) => format!(
            "{} after {}: {}",
            failed.outcome().name().to_uppercase(),
            after(failed.elapsed),
            failed.failure.code.name()
        ),
    }
}

/// Returns `failure` with its times, and the origin of its limit, as they would have been without
/// the speed.
fn at_real_time(failure: &Failure, speed: u32) -> Failure {
    let real = |fast: Duration| rounded(fast * speed);
    let mut failure = failure.clone();
    if let (Some(bound), Ok(settings)) = (failure.bound, in_life()) {
        failure.origin = Some(settings.bounds.limit(bound).origin.clone());
    }
    failure.limit = failure.limit.map(real);
    failure.joined = failure.joined.map(|joined| Joined {
        limit: real(joined.limit),
        allowance: real(joined.allowance),
    });
    failure.retry_after = failure.retry_after.map(real);
    failure
}

/// Rounds away what the speed has magnified: to tenths of a second, or to seconds from ten on.
fn rounded(duration: Duration) -> Duration {
    let step = if duration < Duration::from_secs(10) {
        100
    } else {
        1_000
    };
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(millis.saturating_add(step / 2) / step * step)
}

fn introduce(speed: u32) -> Result<(), Unwritten> {
    print_line(&format!(
        "Seven calls to a provider that misbehaves, side by side, {speed} times faster than life.\n\
         Times below are what they would be in life. Nothing leaves this machine.\n"
    ))
}

const CLOSING: &str = "\
Each of these is a scenario of `lifesign standin --list`. To see the limits that judged them:
  lifesign config explain --base-url https://api.anthropic.com --wire anthropic --max-tokens 32000";

/// Enough thought for six minutes at 87 tokens a second.
const MAX_TOKENS: u64 = 32_000;

/// How often the board is written over.
const TICK: Duration = Duration::from_millis(100);
