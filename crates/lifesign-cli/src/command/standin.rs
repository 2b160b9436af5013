//! `lifesign standin`: a scripted provider on loopback, until it is interrupted.

use std::io::Read as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use lifesign_core::{SettingError, Value};
use lifesign_standin::{Dialect, Event, Scenario, Script, Standin};
use lifesign_wire::recording::Recording;

use crate::args::StandinArgs;
use crate::output::{note, print_line};

pub(crate) async fn run(args: StandinArgs) -> anyhow::Result<ExitCode> {
    if args.list {
        for scenario in Scenario::all() {
            print_line(&format!("{:24}{}", scenario.name(), scenario.title()))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if !(args.speed.is_finite() && args.speed > 0.0) {
        return Err(SettingError::new("--speed", "is no speed")
            .with_value(&Value::Float(args.speed))
            .with_accepted("a number above 0, such as 10")
            .into());
    }
    let listen: SocketAddr = args.listen.parse().map_err(|_| {
        SettingError::new("--listen", "is no address and port")
            .with_value(&Value::Text(&args.listen))
            .with_accepted("such as 127.0.0.1:8090")
    })?;
    if !listen.ip().is_loopback() {
        bail!("--listen: {listen} is not on loopback, and the stand-in listens nowhere else");
    }
    let mut builder = Standin::play(script(&args)?)
        .listen(listen)
        .speed(args.speed);
    if let Some(wire) = &args.wire {
        builder = builder.dialect(Dialect::parse(wire).ok_or_else(|| {
            SettingError::new("--wire", "is no wire")
                .with_value(&Value::Text(wire))
                .with_accepted(Dialect::ALL.map(Dialect::name).join(", "))
        })?);
    }
    let json = args.json;
    let standin = builder
        .on_event(move |event| tell(event, json))
        .start()
        .await
        .with_context(|| format!("cannot listen at {listen}"))?;
    note(&format!("listening at {}; Ctrl-C ends it", standin.url()));
    tokio::signal::ctrl_c()
        .await
        .context("signals cannot be received")?;
    standin.stop().await;
    Ok(ExitCode::SUCCESS)
}

fn script(args: &StandinArgs) -> anyhow::Result<Script> {
    if let Some(path) = &args.script {
        let text = read(path, "--script")?;
        let text = String::from_utf8(text)
            .with_context(|| format!("--script: {} is not text", path.display()))?;
        return Script::parse(&text).with_context(|| format!("--script: {}", path.display()));
    }
    if let Some(name) = &args.scenario {
        return Ok(Scenario::find(name).context("--scenario")?.script());
    }
    let Some(path) = &args.replay else {
        bail!("nothing to play: give --script, --scenario or --replay")
    };
    let recording = Recording::parse(&read(path, "--replay")?)
        .with_context(|| format!("--replay: {}", path.display()))?;
    Ok(Script::of_recording(&recording))
}

fn read(path: &Path, flag: &str) -> anyhow::Result<Vec<u8>> {
    if path.as_os_str() == "-" {
        let mut bytes = Vec::new();
        std::io::stdin()
            .read_to_end(&mut bytes)
            .context("standard input cannot be read")?;
        return Ok(bytes);
    }
    std::fs::read(path).with_context(|| format!("{flag}: {} cannot be read", path.display()))
}

fn tell(event: &Event, json: bool) {
    let line = if json {
        serde_json::to_string(event).unwrap_or_default()
    } else {
        event.to_string()
    };
    // An observer has nobody to report to that standard output is closed.
    let _lost = print_line(&line);
}
