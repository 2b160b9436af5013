//! `lifesign config`: the settings in force for one call, explained and checked.

use std::process::ExitCode;

use anyhow::Context as _;
use lifesign_agent::raise_tries;
use lifesign_core::{CallShape, CatalogRow, Conflict, Explained, Settings, check, explain};
use lifesign_gateway::config::config_schema;
use serde::Serialize;

use super::target::{Loaded, Target};
use crate::args::{ConfigCommand, TargetArgs};
use crate::output::print_line;

pub(crate) fn run(command: &ConfigCommand) -> anyhow::Result<ExitCode> {
    match command {
        ConfigCommand::Explain {
            target,
            serve,
            run,
            json,
        } => explain_settings(target, Reader::of(*serve, *run), *json),
        ConfigCommand::Check {
            file,
            target,
            serve,
            json,
        } => {
            let mut target = target.clone();
            target.config = file.clone().or(target.config);
            check_settings(&target, *serve, *json)
        }
        ConfigCommand::Schema => print_schema(),
    }
}

/// The command whose settings are explained.
#[derive(Clone, Copy)]
enum Reader {
    Call,
    Run,
    Serve,
}

impl Reader {
    const fn of(serve: bool, run: bool) -> Self {
        match (serve, run) {
            (true, _) => Self::Serve,
            (_, true) => Self::Run,
            _ => Self::Call,
        }
    }
}

fn print_schema() -> anyhow::Result<ExitCode> {
    let text =
        serde_json::to_string_pretty(&config_schema()).context("the schema cannot be written")?;
    print_line(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Explains the settings for the upstream that is named, or else for each; as JSON only for one, whose
/// rows are an array.
fn explain_settings(args: &TargetArgs, reader: Reader, json: bool) -> anyhow::Result<ExitCode> {
    let loaded = Loaded::load(args)?;
    if json {
        let (_, rows) = explained(args, &loaded, &loaded.target(args)?, reader)?;
        print_line(&serde_json::to_string_pretty(&rows).context("the table cannot be written")?)?;
        return Ok(ExitCode::SUCCESS);
    }
    for (at, target) in loaded.targets(args)?.iter().enumerate() {
        if at > 0 {
            print_line("")?;
        }
        let (settings, rows) = explained(args, &loaded, target, reader)?;
        print_explained(args, target, &settings, &rows)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn explained(
    args: &TargetArgs,
    loaded: &Loaded,
    target: &Target,
    reader: Reader,
) -> anyhow::Result<(Settings, Vec<Explained>)> {
    let shape = shape(args, target);
    let mut call = target.settings(args.model.as_deref())?;
    match reader {
        Reader::Call => {
            let rows = explain(&call, &shape);
            return Ok((call, rows));
        }
        Reader::Run => {
            raise_tries(&mut call);
            let mut rows = explain(&call, &shape);
            rows.extend(loaded.tools().explain());
            return Ok((call, rows));
        }
        Reader::Serve => {}
    }
    let gateway = loaded.gateway_with(target)?;
    let upstream = gateway
        .upstream(&target.upstream().name)
        .context("the gateway has another upstream")?;
    let settings = gateway.settings(upstream, args.model.as_deref(), None)?;
    let mut rows = explain(&settings, &shape);
    rows.extend(gateway.explain(upstream));
    Ok((Settings::clone(&settings), rows))
}

fn print_explained(
    args: &TargetArgs,
    target: &Target,
    settings: &Settings,
    rows: &[Explained],
) -> anyhow::Result<()> {
    let shape = shape(args, target);
    let catalog = CatalogRow::of(&lifesign_core::Target {
        wire: &shape.wire,
        host: Some(target.upstream().base_url.host()),
        model: args.model.as_deref(),
    });
    let upstream = target.upstream();
    print_line(&format!(
        "upstream    {} ({}, {})",
        upstream.name,
        target.wire(),
        upstream.base_url
    ))?;
    print_line(&format!(
        "model       {}",
        args.model.as_deref().unwrap_or("any")
    ))?;
    print_line(&format!(
        "max_tokens  {}",
        args.max_tokens
            .map_or_else(|| "not given".to_owned(), |tokens| tokens.to_string())
    ))?;
    print_line(&format!(
        "profile     {} ({})",
        settings.profile.value.name(),
        settings.profile.origin
    ))?;
    print_line(&format!(
        "catalog     {}",
        catalog.map_or("no row for this host", |row| row.name)
    ))?;
    print_line("")?;
    let width = |of: fn(&Explained) -> usize| rows.iter().map(of).max().unwrap_or(0);
    let key = width(|row| row.key.len());
    let value = width(|row| row.value.chars().count());
    let origin = width(|row| row.origin.chars().count());
    for row in rows {
        print_line(&format!(
            "{:key$}  {:value$}  {:origin$}  {}",
            row.key, row.value, row.origin, row.means
        ))?;
    }
    Ok(())
}

fn check_settings(args: &TargetArgs, serve: bool, json: bool) -> anyhow::Result<ExitCode> {
    let loaded = Loaded::load(args)?;
    let serve = serve || loaded.is_for_gateway();
    let gateway = serve.then(|| loaded.gateway()).transpose()?;
    let mut conflicts = Vec::new();
    for target in loaded.targets(args)? {
        let settings = target.settings(args.model.as_deref())?;
        target.open()?;
        conflicts.extend(check(&settings, &shape(args, &target)));
    }
    if let Some(gateway) = gateway {
        gateway.open(|name| std::env::var_os(name))?;
        conflicts.extend(gateway.findings());
    }
    // What holds for several upstreams is told once.
    let mut told: Vec<Conflict> = Vec::new();
    for conflict in conflicts {
        if !told.contains(&conflict) {
            told.push(conflict);
        }
    }
    let conflicts = told;
    if json {
        let findings: Vec<_> = conflicts.iter().map(Finding::from).collect();
        print_line(
            &serde_json::to_string_pretty(&findings).context("the findings cannot be written")?,
        )?;
    } else if conflicts.is_empty() {
        print_line("every setting can be used, and none of them is without effect")?;
    } else {
        for conflict in &conflicts {
            print_line(&conflict.to_string())?;
        }
    }
    Ok(if conflicts.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(CONFLICTS)
    })
}

#[derive(Serialize)]
struct Finding<'a> {
    setting: &'a str,
    origin: String,
    message: &'a str,
}

impl<'a> From<&'a Conflict> for Finding<'a> {
    fn from(conflict: &'a Conflict) -> Self {
        Self {
            setting: &conflict.setting,
            origin: conflict.origin.to_string(),
            message: &conflict.message,
        }
    }
}

fn shape(args: &TargetArgs, target: &Target) -> CallShape {
    CallShape {
        streamed: true,
        max_tokens: args.max_tokens,
        wire: target.wire().defaults(),
    }
}

/// The exit code where a setting can never act; it is usable, and pointless.
const CONFLICTS: u8 = 1;
