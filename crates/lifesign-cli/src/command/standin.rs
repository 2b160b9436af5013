//! `lifesign standin`: a scripted provider on loopback, until it is interrupted.

use std::io::{self, IsTerminal as _, Read as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use lifesign_core::{SettingError, Value};
use lifesign_standin::{Builder, Dialect, Event, Scenario, Script, Standin};

use crate::args::StandinArgs;
use crate::interrupts::Interrupts;
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
    let mut builder = source(&args)?.listen(listen).speed(args.speed);
    if let Some(wire) = &args.wire {
        builder = builder.dialect(Dialect::parse(wire).ok_or_else(|| {
            SettingError::new("--wire", "is no wire")
                .with_value(&Value::Text(wire))
                .with_accepted(Dialect::ALL.map(Dialect::name).join(", "))
        })?);
    }
    let mut interrupts = Interrupts::listen().context("signals cannot be received")?;
    let json = args.json;
    let standin = builder
        .on_event(move |event| tell(event, json))
        .start()
        .await
        .map_err(|error| cannot_listen(listen, &error))?;
    note(&format!("listening at {}; Ctrl-C ends it", standin.url()));
    if plays_all(&args) {
        note(&format!(
            "each scenario at {}/NAME/v1; `lifesign standin --list` names them",
            standin.url()
        ));
    }
    interrupts.next().await;
    if io::stderr().is_terminal() {
        // Terminals write `^C` where the cursor stands.
        note("");
    }
    standin.stop().await;
    Ok(ExitCode::SUCCESS)
}

fn cannot_listen(at: SocketAddr, error: &io::Error) -> SettingError {
    let port = at.port();
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            SettingError::new("--listen", format!("port {port} of {} is in use", at.ip()))
                .with_accepted("a port that nobody listens at, or 0 for any that is free")
        }
        io::ErrorKind::PermissionDenied => {
            SettingError::new("--listen", format!("port {port} may not be used: {error}"))
                .with_accepted("a port above 1023, or 0 for any that is free")
        }
        _ => SettingError::new("--listen", format!("{at} cannot be used: {error}"))
            .with_accepted("an address of this machine's loopback, such as 127.0.0.1:0"),
    }
}

/// Whether nothing was named to play.
fn plays_all(args: &StandinArgs) -> bool {
    args.script.is_none() && args.scenario.is_none() && args.replay.is_none()
}

fn source(args: &StandinArgs) -> anyhow::Result<Builder> {
    if let Some(path) = &args.script {
        let text = read(path, "--script")?;
        let text = String::from_utf8(text)
            .with_context(|| format!("--script: {} is not text", path.display()))?;
        let script =
            Script::parse(&text).with_context(|| format!("--script: {}", path.display()))?;
        return Ok(Standin::play(script));
    }
    if let Some(name) = &args.scenario {
        return Standin::scenario(name).context("--scenario");
    }
    let Some(path) = &args.replay else {
        return Ok(Standin::scenarios());
    };
    Standin::replay(&read(path, "--replay")?)
        .with_context(|| format!("--replay: {}", path.display()))
}

fn read(path: &Path, flag: &str) -> anyhow::Result<Vec<u8>> {
    if path.as_os_str() == "-" {
        let mut bytes = Vec::new();
        io::stdin()
            .read_to_end(&mut bytes)
            .context("standard input cannot be read")?;
        return Ok(bytes);
    }
    std::fs::read(path).with_context(|| format!("{flag}: {} cannot be read", path.display()))
}

fn tell(event: &Event, json: bool) {
    let line = if json {
        match serde_json::to_string(event) {
            Ok(line) => line,
            Err(error) => return note(&format!("an event cannot be told: {error}")),
        }
    } else {
        event.to_string()
    };
    // An observer has nobody to report to that standard output is closed.
    let _lost = print_line(&line);
}
