//! `lifesign serve`: the gateway, until a signal ends it.

use std::process::ExitCode;
use std::sync::Arc;

use lifesign_gateway::{ConfigSource, GatewayServer, LoggedRecords, ServeError};
use tracing_subscriber::filter::LevelFilter;

use crate::args::ServeArgs;
use crate::log::Log;
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
    let _log = Log::start(config.log.value, LevelFilter::INFO)?;
    for finding in config.findings() {
        tracing::warn!(origin = %finding.origin, "{}", finding.message);
    }
    let server = match GatewayServer::bind(config, source, Arc::new(LoggedRecords)) {
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
