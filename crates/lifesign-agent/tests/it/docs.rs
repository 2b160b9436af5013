//! The pages of the reference name what there is, and nothing else.

use std::collections::BTreeSet;
use std::fs;

use lifesign_agent::{Counts, Entry, Times, TurnOutcome};
use pretty_assertions::assert_eq;

use crate::harness::{Case, Played};

fn page(name: &str) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/");
    fs::read_to_string(format!("{path}{name}")).unwrap()
}

/// Returns the names in the first column of the tables below `heading`, up to the next heading.
fn rows(page: &str, heading: &str) -> BTreeSet<String> {
    let (_, section) = page.split_once(&format!("{heading}\n")).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let cells = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let cells = cells.filter_map(|line| line.split(" | ").next());
    let names = cells.flat_map(|cell| cell.split(", "));
    names
        .map(|name| name.trim_matches('`').to_owned())
        .collect()
}

fn names(value: &impl serde::Serialize) -> BTreeSet<String> {
    let value = serde_json::to_value(value).unwrap();
    value.as_object().unwrap().keys().cloned().collect()
}

async fn played() -> Played {
    Case::new("attempt 1: text \"a\"; cut\nattempt 2: answer \"b\"")
        .play()
        .await
}

#[tokio::test]
async fn the_page_of_the_result_names_its_fields() {
    let page = page("run-json.md");
    let report = played().await.report;

    assert_eq!(rows(&page, "# The result of an agent turn"), names(&report));
    assert_eq!(rows(&page, "## `counts`"), names(&Counts::default()));
    assert_eq!(rows(&page, "## `times_ms`"), names(&Times::default()));
    let outcomes: BTreeSet<String> = TurnOutcome::ALL
        .iter()
        .map(|outcome| outcome.name().to_owned())
        .collect();
    assert_eq!(rows(&page, "## Outcomes and exit codes"), outcomes);
}

#[tokio::test]
async fn the_page_of_the_transcript_names_what_is_written() {
    let page = page("transcript.md");
    let types = rows(&page, "# Transcripts");
    let said = rows(&page, "## What the model said");

    for entry in played().await.entries() {
        let written = names(entry);
        let kind = serde_json::to_value(entry).unwrap()["type"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(types.contains(&kind), "{kind}");
        if let Entry::Answer(_) | Entry::Partial(_) = entry {
            for name in written {
                let is_named = said.contains(&name) || matches!(name.as_str(), "cut" | "type");
                assert!(is_named, "{name}");
            }
        }
    }
    // Nothing is named that cannot be read.
    for kind in types {
        let line = format!("{{\"type\":\"{kind}\"}}");
        let error = serde_json::from_str::<Entry>(&line)
            .err()
            .map(|error| error.to_string());
        assert!(
            !error.unwrap_or_default().contains("unknown variant"),
            "{kind}"
        );
    }
}
