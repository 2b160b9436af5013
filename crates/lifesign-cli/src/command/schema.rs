//! `lifesign schema`: the JSON schema of the object that `lifesign call --json` prints.

use std::process::ExitCode;

use anyhow::Context as _;
use lifesign::CallReport;
use schemars::generate::SchemaSettings;

use crate::output::print_line;

pub(crate) fn run() -> anyhow::Result<ExitCode> {
    // As it is written, not as it may be read: a field that is always there is required.
    let schema = SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator()
        .into_root_schema_for::<CallReport>();
    let text = serde_json::to_string_pretty(&schema).context("the schema cannot be written")?;
    print_line(&text)?;
    Ok(ExitCode::SUCCESS)
}
