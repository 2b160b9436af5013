//! `lifesign call`: one model call, told to a person or as one JSON object.

use std::io::{self, IsTerminal, Read, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use lifesign::{Answered, CallEvent, CallReport, CallRequest, CallStream, Client, Failed};
use lifesign_core::duration::human_measured;
use lifesign_core::{SettingError, Value};
use lifesign_wire::{RawRequest, Request};

use super::target::Target;
use crate::args::CallArgs;
use crate::output::{complain, note, one_line, print_line};
use crate::recording::RecordingFile;
use crate::status_line::StatusLine;

pub(crate) async fn run(args: CallArgs) -> anyhow::Result<ExitCode> {
    let Prepared {
        client,
        request,
        recording,
    } = match prepare(&args) {
        Ok(prepared) => prepared,
        Err(error) if args.json => {
            report(&Err(Box::new(Failed::refused(one_line(&error)))))?;
            return Ok(complain(&error));
        }
        Err(error) => return Err(error),
    };
    let mut teller = Teller::new(args.json);
    let ended = follow(client.stream(request), &mut teller).await?;
    if args.json {
        report(&ended)?;
    } else {
        teller.conclude(&ended)?;
    }
    // The call is over, and its outcome stands whatever becomes of the recording.
    match recording.map(|recording| recording.finish()) {
        None | Some(Ok(true)) => {}
        Some(Ok(false)) => note("note: nothing was recorded, since no attempt got a response"),
        Some(Err(error)) => note(&format!("error: {}", one_line(&error))),
    }
    Ok(match &ended {
        Ok(_) => ExitCode::SUCCESS,
        Err(failed) => ExitCode::from(failed.exit_code()),
    })
}

/// Everything that can be refused before anything is sent.
struct Prepared {
    client: Client,
    request: CallRequest,
    recording: Option<Arc<RecordingFile>>,
}

fn prepare(args: &CallArgs) -> anyhow::Result<Prepared> {
    let target = Target::load(&args.target)?;
    let asked = Asked::read(args)?;
    let settings = target.settings(asked.model())?;
    let client = target.client()?;
    let upstream = target.with_key(args.api_key_env.as_deref())?;
    let wire = upstream.wire().name();
    let recording = match &args.record {
        Some(path) => Some(Arc::new(RecordingFile::create(path, wire, asked.model())?)),
        None => None,
    };
    let mut request = match asked {
        Asked::Prompt(request) => CallRequest::new(upstream, *request),
        Asked::Body(body) => CallRequest::raw(upstream, body),
    }
    .settings(settings);
    if let Some(recording) = &recording {
        request = request.record(Arc::clone(recording) as _);
    }
    Ok(Prepared {
        client,
        request,
        recording,
    })
}

/// Prints the one JSON object.
fn report(ended: &Ended) -> anyhow::Result<()> {
    let report = match ended {
        Ok(answered) => CallReport::from(&**answered),
        Err(failed) => CallReport::from(&**failed),
    };
    let text = serde_json::to_string(&report).context("the report cannot be written")?;
    Ok(print_line(&text)?)
}

/// What to ask.
enum Asked {
    /// A prompt, to be put into the wire's words.
    Prompt(Box<Request>),
    /// A whole body in the wire's words.
    Body(RawRequest),
}

impl Asked {
    fn read(args: &CallArgs) -> anyhow::Result<Self> {
        if let Some(path) = &args.request {
            let text = std::fs::read(path)
                .with_context(|| format!("--request: {} cannot be read", path.display()))?;
            let body = RawRequest::parse(text)
                .with_context(|| format!("--request: {} cannot be sent", path.display()))?;
            // `--no-stream` asks for a whole answer; otherwise the body says what it wants.
            return Ok(Self::Body(if args.no_stream {
                body.with_stream(false)
            } else {
                body
            }));
        }
        let prompt = match (&args.prompt, &args.prompt_file) {
            (Some(prompt), _) => prompt.clone(),
            (None, Some(path)) => std::fs::read_to_string(path)
                .with_context(|| format!("--prompt-file: {} cannot be read", path.display()))?,
            (None, None) => read_standard_input()?,
        };
        if prompt.trim().is_empty() {
            return Err(SettingError::new("prompt", "is empty")
                .with_value(&Value::Text(&prompt))
                .with_accepted("some text")
                .into());
        }
        let model = args
            .target
            .model
            .clone()
            .unwrap_or_else(|| UNNAMED_MODEL.to_owned());
        let mut request = Request::prompt(model, prompt).stream(!args.no_stream);
        request.max_tokens = args.target.max_tokens;
        Ok(Self::Prompt(Box::new(request)))
    }

    fn model(&self) -> Option<&str> {
        match self {
            Self::Prompt(request) => Some(&request.model),
            Self::Body(body) => body.model(),
        }
    }
}

fn read_standard_input() -> anyhow::Result<String> {
    if io::stdin().is_terminal() {
        note("reading the prompt from standard input; end it with Ctrl-D");
    }
    let mut prompt = String::new();
    io::stdin()
        .read_to_string(&mut prompt)
        .context("standard input cannot be read")?;
    Ok(prompt)
}

type Ended = Result<Box<Answered>, Box<Failed>>;

/// Reads the call to its end, or to the caller's Ctrl-C.
async fn follow(mut stream: CallStream, teller: &mut Teller) -> anyhow::Result<Ended> {
    let monitor = stream.monitor();
    let mut ticks = tokio::time::interval(TICK);
    let interrupted = interrupted();
    tokio::pin!(interrupted);
    loop {
        tokio::select! {
            biased;
            caught = &mut interrupted => {
                caught.context("signals cannot be received")?;
                let failed = stream.cancel().context("the call was over already")?;
                return Ok(Err(failed));
            }
            item = stream.next() => match item {
                Some(Ok(CallEvent::Finished(answered))) => return Ok(Ok(answered)),
                Some(Ok(event)) => match teller.tell(&event) {
                    // Nobody reads on, as after `| head`: what comes now would be paid for nobody.
                    Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                        let failed = stream.cancel().context("the call was over already")?;
                        return Ok(Err(failed));
                    }
                    told => told?,
                },
                Some(Err(failed)) => return Ok(Err(failed)),
                None => anyhow::bail!("the call ended without saying how"),
            },
            _ = ticks.tick(), if teller.is_live() => teller.show(&monitor.snapshot())?,
        }
    }
}

/// Waits for Ctrl-C or a request to terminate.
async fn interrupted() -> io::Result<()> {
    #[cfg(unix)]
    {
        let mut terminate =
            tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        tokio::select! {
            caught = tokio::signal::ctrl_c() => caught,
            _ = terminate.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
}

/// Tells a person what happens: the answer on standard output, everything else on standard error.
struct Teller {
    silent: bool,
    status: StatusLine,
    /// What stands on the last line of standard output.
    wrote: Wrote,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wrote {
    Nothing,
    Reasoning,
    Text,
}

impl Teller {
    fn new(silent: bool) -> Self {
        Self {
            silent,
            status: StatusLine::new(),
            wrote: Wrote::Nothing,
        }
    }

    fn is_live(&self) -> bool {
        // Text on the same terminal would be torn by a line that is written over itself.
        let is_free = match self.wrote {
            Wrote::Nothing => true,
            Wrote::Reasoning => false,
            Wrote::Text => !io::stdout().is_terminal(),
        };
        !self.silent && is_free && self.status.is_live()
    }

    fn show(&mut self, snapshot: &lifesign::Snapshot) -> io::Result<()> {
        self.status.show(snapshot)
    }

    fn tell(&mut self, event: &CallEvent) -> io::Result<()> {
        if self.silent {
            return Ok(());
        }
        match event {
            CallEvent::Text(text) => self.write(Wrote::Text, text),
            CallEvent::Reasoning(text) if io::stderr().is_terminal() => {
                self.write(Wrote::Reasoning, text)
            }
            CallEvent::Holding { wait } => self.say(&format!(
                "waiting {} for a hold on the upstream to end",
                human_measured(*wait)
            )),
            CallEvent::Notice(notice) => self.say(&format!(
                "no content for {}; the last byte came {} ago",
                human_measured(notice.ages.content),
                human_measured(notice.ages.raw)
            )),
            CallEvent::Retrying {
                failure,
                attempt,
                of,
                wait,
            } => self.say(&format!(
                "{}; attempt {attempt} of {of} in {}",
                failure.message(),
                human_measured(*wait)
            )),
            _ => Ok(()),
        }
    }

    fn write(&mut self, what: Wrote, text: &str) -> io::Result<()> {
        self.status.clear()?;
        if self.wrote == Wrote::Reasoning && what == Wrote::Text {
            writeln!(io::stderr().lock())?;
        }
        self.wrote = what;
        match what {
            Wrote::Text => {
                let mut out = io::stdout().lock();
                out.write_all(text.as_bytes())?;
                out.flush()
            }
            Wrote::Nothing | Wrote::Reasoning => {
                let mut out = io::stderr().lock();
                out.write_all(text.as_bytes())?;
                out.flush()
            }
        }
    }

    fn say(&mut self, text: &str) -> io::Result<()> {
        self.status.clear()?;
        note(text);
        Ok(())
    }

    /// Says how the call ended.
    fn conclude(&mut self, ended: &Ended) -> io::Result<()> {
        self.status.clear()?;
        if self.wrote == Wrote::Text {
            print_line("")?;
        }
        match ended {
            Ok(answered) => {
                for call in &answered.answer.tool_calls {
                    print_line(&format!("{}({})", call.name, call.arguments))?;
                }
                note(&summary(answered));
            }
            Err(failed) => {
                let failure = &failed.failure;
                note(&format!(
                    "{}: {}",
                    failed.outcome().name(),
                    failure.sentence()
                ));
                note(&format!("  what was seen: {}", failure.message()));
                if let Some(hint) = failure.hint() {
                    note(&format!("  hint: {hint}"));
                }
                if failed
                    .partial
                    .as_ref()
                    .is_some_and(|partial| !partial.is_empty())
                {
                    note("  the part of the answer above arrived before that; it is not whole");
                }
            }
        }
        Ok(())
    }
}

fn summary(answered: &Answered) -> String {
    let answer = &answered.answer;
    let attempts = match answered.attempts.len() {
        1 => String::new(),
        count => format!(" after {count} attempts"),
    };
    let finish = answer
        .finish_reason
        .as_deref()
        .unwrap_or("no finish reason");
    let tokens = match answer
        .usage
        .and_then(|usage| usage.input_tokens.zip(usage.output_tokens))
    {
        Some((input, output)) => format!("{input} tokens in, {output} out"),
        None => "usage unknown".to_owned(),
    };
    format!(
        "completed{attempts} in {} ({finish}; {tokens})",
        human_measured(answered.elapsed)
    )
}

/// How often the status line is written over.
const TICK: Duration = Duration::from_millis(100);

/// Servers of one model take any name.
const UNNAMED_MODEL: &str = "default";
