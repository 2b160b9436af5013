//! `lifesign schema`: the JSON schemas of the objects that commands print with `--json`.

use std::process::ExitCode;

use anyhow::Context as _;
use lifesign::CallReport;
use lifesign_agent::TurnReport;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;

use crate::args::SchemaOf;
use crate::output::print_line;

pub(crate) fn run(of: SchemaOf) -> anyhow::Result<ExitCode> {
    match of {
        SchemaOf::Call => print::<CallReport>()?,
        SchemaOf::Run => print::<TurnReport>()?,
    }
    Ok(ExitCode::SUCCESS)
}

fn print<T: JsonSchema>() -> anyhow::Result<()> {
    // As it is written, not as it may be read: a field that is always there is required.
    let schema = SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator()
        .into_root_schema_for::<T>();
    let text = serde_json::to_string_pretty(&schema).context("the schema cannot be written")?;
    Ok(print_line(&text)?)
}
