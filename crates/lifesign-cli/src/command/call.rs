//! `lifesign call`: one model call, told to a person or as one JSON object.

mod asked;
mod teller;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use lifesign::{Answered, CallEvent, CallReport, CallRequest, CallStream, Client, Failed, Outcome};

use self::asked::Asked;
use self::teller::Teller;
use super::journal::CallJournal;
use super::target::Loaded;
use crate::args::CallArgs;
use crate::interrupts::Interrupts;
use crate::output::{UNWRITTEN, complain, note, one_line, print_line};
use crate::recording::RecordingFile;

/// How a call ended.
pub(crate) type Ended = Result<Box<Answered>, Box<Failed>>;

pub(crate) async fn run(args: CallArgs) -> anyhow::Result<ExitCode> {
    let mut interrupts = Interrupts::listen().context("signals cannot be received")?;
    let json = args.json;
    // Standard input, or a file on a slow disk, may keep us waiting; Ctrl-C must not.
    let preparing = tokio::task::spawn_blocking(move || prepare(&args));
    let prepared = tokio::select! {
        prepared = preparing => prepared.context("the call was not prepared")?,
        () = interrupts.next() => {
            let cancelled = Err(Box::new(Failed::cancelled()));
            return conclude(&cancelled, None, json, &mut interrupts).await;
        }
    };
    let Prepared {
        client,
        request,
        recording,
        journal,
    } = match prepared {
        Ok(prepared) => prepared,
        Err(error) if json => {
            report(&Err(Box::new(Failed::refused(one_line(&error)))))?;
            return Ok(complain(&error));
        }
        Err(error) => return Err(error),
    };
    let stream = client.stream(request);
    if let Some(journal) = &journal {
        journal.keep_start().await;
    }
    let made = make(stream, json, &mut interrupts).await;
    if let Some(journal) = journal {
        journal.close(&mut interrupts).await;
    }
    let code = made?;
    // The call is over, and its outcome stands whatever becomes of the recording.
    match recording.map(|recording| recording.finish()) {
        None | Some(Ok(true)) => {}
        Some(Ok(false)) => note("note: nothing was recorded, since no attempt got a response"),
        Some(Err(error)) => note(&format!("error: {}", one_line(&error))),
    }
    Ok(code)
}

/// Everything that can be refused before anything is sent.
struct Prepared {
    client: Client,
    request: CallRequest,
    recording: Option<Arc<RecordingFile>>,
    journal: Option<CallJournal>,
}

fn prepare(args: &CallArgs) -> anyhow::Result<Prepared> {
    let loaded = Loaded::load(&args.target)?;
    let target = loaded.target(&args.target)?;
    let asked = Asked::read(args)?;
    let settings = target.settings(asked.model())?;
    let mut client = target.client()?;
    let upstream = target.with_key(args.api_key_env.as_deref())?;
    let wire = upstream.wire().name();
    let recording = match &args.record {
        Some(path) => Some(Arc::new(RecordingFile::create(path, wire, asked.model())?)),
        None => None,
    };
    let mut request = match asked {
        Asked::Prompt(request) => CallRequest::new(upstream, *request),
        Asked::Body(body) => {
            if args.target.model.is_some() || args.target.max_tokens.is_some() {
                note("note: --request is sent as it is; --model and --max-tokens change nothing");
            }
            CallRequest::raw(upstream, body)
        }
    }
    .settings(settings);
    if args.json {
        // One object at the end shows nothing of an attempt before it has succeeded.
        request = request.hold_back();
    }
    if let Some(recording) = &recording {
        request = request.record(Arc::clone(recording) as _);
    }
    // The last, since it leaves a file behind.
    let journal = match &args.journal {
        Some(path) => Some(CallJournal::open(path.as_deref(), loaded.journal())?),
        None => None,
    };
    if let Some(journal) = &journal {
        client = client.with_records(journal.records());
    }
    Ok(Prepared {
        client,
        request,
        recording,
        journal,
    })
}

/// Makes the call, and returns the exit code that says how it ended.
async fn make(
    stream: CallStream,
    json: bool,
    interrupts: &mut Interrupts,
) -> anyhow::Result<ExitCode> {
    let mut teller = (!json).then(Teller::new);
    let ended = follow(stream, teller.as_mut(), interrupts).await?;
    conclude(&ended, teller, json, interrupts).await
}

/// Reads the call to its end, or to the caller's Ctrl-C.
async fn follow(
    mut stream: CallStream,
    mut teller: Option<&mut Teller>,
    interrupts: &mut Interrupts,
) -> anyhow::Result<Ended> {
    let monitor = stream.monitor();
    let mut ticks = tokio::time::interval(TICK);
    loop {
        let is_live = teller.as_ref().is_some_and(|teller| teller.is_live());
        let item = tokio::select! {
            biased;
            () = interrupts.next() => break,
            item = stream.next() => item.context("the call ended without saying how")?,
            _ = ticks.tick(), if is_live => {
                if let Some(teller) = &mut teller {
                    teller.show(&monitor.snapshot())?;
                }
                continue;
            }
        };
        let event = match item {
            Ok(CallEvent::Finished(answered)) => return Ok(Ok(answered)),
            Ok(event) => event,
            Err(failed) => return Ok(Err(failed)),
        };
        if let Some(teller) = &mut teller
            && !teller.tell(&event)?
        {
            // Nobody reads on, as after `| head`: what comes now would be paid for nobody.
            break;
        }
    }
    Ok(Err(stream.cancel().context("the call was over already")?))
}

/// Says how the call ended, and returns the exit code that says so too.
async fn conclude(
    ended: &Ended,
    teller: Option<Teller>,
    json: bool,
    interrupts: &mut Interrupts,
) -> anyhow::Result<ExitCode> {
    let code = match ended {
        Ok(_) => ExitCode::SUCCESS,
        Err(failed) => ExitCode::from(failed.exit_code()),
    };
    if json {
        report(ended)?;
    }
    let Some(teller) = teller else {
        return Ok(code);
    };
    let writing = teller.finish(ended)?.finish();
    tokio::pin!(writing);
    // The answer comes first and how it ended after it, unless somebody keeps the answer waiting.
    let written = tokio::select! {
        written = &mut writing => Some(written),
        () = tokio::time::sleep(PATIENCE) => None,
    };
    teller::say_how_it_ended(ended);
    let written = match written {
        Some(written) => written,
        // Whoever has cancelled does not want to wait for a reader either.
        None if is_cancelled(ended) => Ok(()),
        None => tokio::select! {
            written = &mut writing => written,
            // Whoever should read has stopped, and somebody else has lost patience.
            () = interrupts.next() => Ok(()),
        },
    };
    if let Err(error) = written {
        note(&format!("error: {}", one_line(&error)));
        return Ok(ExitCode::from(UNWRITTEN));
    }
    Ok(code)
}

fn is_cancelled(ended: &Ended) -> bool {
    ended
        .as_ref()
        .is_err_and(|failed| failed.outcome() == Outcome::Cancelled)
}

/// Prints the one JSON object.
pub(crate) fn report(ended: &Ended) -> anyhow::Result<()> {
    let report = match ended {
        Ok(answered) => CallReport::from(&**answered),
        Err(failed) => CallReport::from(&**failed),
    };
    let text = serde_json::to_string(&report).context("the report cannot be written")?;
    Ok(print_line(&text)?)
}

/// How often the status line is written over.
const TICK: Duration = Duration::from_millis(100);

/// How long the answer may take to be written before more is said.
const PATIENCE: Duration = Duration::from_millis(200);
