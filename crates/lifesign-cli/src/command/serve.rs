//! `lifesign serve`: the gateway, until a signal ends it.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use lifesign_gateway::config::LogForm;
use lifesign_gateway::{ConfigSource, GatewayServer, LoggedRecords, ServeError};

use crate::args::ServeArgs;
use crate::output::note;

pub(crate) async fn run(args: ServeArgs) -> anyhow::Result<ExitCode> {
    let mut assignments = args.sets;
    if let Some(profile) = args.profile {
        assignments.push(format!("profile={profile}"));
    }
    if !args.listen.is_empty() {
        assignments.push(format!("serve.listen={}", args.listen.join(",")));
    }
    let source = ConfigSource {
        path: args.config,
        assignments,
        upstreams: args.upstreams,
    };
    let config = source.load()?;
    log(config.log.value);
    for finding in config.findings() {
        tracing::warn!(origin = %finding.origin, "{}", finding.message);
    }
    let server = match GatewayServer::bind(source, Arc::new(LoggedRecords)) {
        Ok(server) => server,
        Err(ServeError::Setting(error)) => return Err(error.into()),
        Err(error) => {
            note(&format!("error: {error}"));
            return Ok(ExitCode::FAILURE);
        }
    };
    for address in server.addresses() {
        note(&format!("listening on {address}"));
    }
    server.run().await?;
    Ok(ExitCode::SUCCESS)
}

/// Sends the log to standard error, one line for each change of state.
fn log(form: LogForm) {
    let lines = tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_target(false)
        .with_max_level(tracing_subscriber::filter::LevelFilter::INFO);
    match form {
        LogForm::Human => lines.with_ansi(false).init(),
        LogForm::Json => lines.json().flatten_event(true).init(),
    }
}
