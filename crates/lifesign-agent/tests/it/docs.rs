//! The pages of the reference name what there is, and nothing else.

use std::collections::BTreeSet;
use std::fs;

use lifesign::{ToolCall, Usage};
use lifesign_agent::{
    Begin, Counts, CutPoint, Ended, Entry, Partial, Ran, Said, Times, TurnOutcome,
};
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

/// Returns the words in code marks in the column `at` of the row of `name` below `heading`.
fn words(page: &str, heading: &str, name: &str, at: usize) -> BTreeSet<String> {
    let (_, section) = page.split_once(&format!("{heading}\n")).unwrap();
    let begin = format!("| `{name}` |");
    let row = section.lines().find(|line| line.starts_with(&begin));
    let cell = row.unwrap().split(" | ").nth(at).unwrap();
    cell.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// Returns one entry of each kind, with everything in it that there may be.
fn every_entry() -> Vec<Entry> {
    let call = ToolCall {
        id: "c1".to_owned(),
        ..ToolCall::default()
    };
    let said = Said {
        wire: "anthropic".to_owned(),
        model: Some("m".to_owned()),
        text: "text".to_owned(),
        reasoning: Some("hm".to_owned()),
        tool_calls: vec![call],
        parts: vec!["{}".to_owned()],
        finish_reason: Some("stop".to_owned()),
        usage: Some(Usage::default()),
        continues: true,
        overlap: 1,
    };
    let cut = CutPoint {
        text_bytes: 4,
        reasoning_bytes: 2,
        tool_call: Some("c1".to_owned()),
    };
    let text = || "text".to_owned();
    let at: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    vec![
        Entry::Begin(Begin {
            v: 1,
            id: text(),
            at,
        }),
        Entry::User {
            turn: 1,
            text: text(),
        },
        Entry::Nudge {
            rule: text(),
            text: text(),
        },
        Entry::Answer(said.clone()),
        Entry::Partial(Partial { said, cut }),
        Entry::ToolBegan {
            id: text(),
            name: text(),
        },
        Entry::ToolEnded(Ran {
            id: text(),
            text: text(),
            is_error: true,
        }),
        Entry::Compacted {
            summary: text(),
            keep_from: 1,
        },
        Entry::Elided { results: vec![1] },
        Entry::Ended(Ended {
            turn: 1,
            outcome: TurnOutcome::Completed,
            note: Some(text()),
            wake_at: Some(at),
        }),
        Entry::Resumed,
    ]
}

/// Returns every kind of entry that can be read.
fn kinds() -> BTreeSet<String> {
    let error = serde_json::from_str::<Entry>("{\"type\":\"none of them\"}").unwrap_err();
    let error = error.to_string();
    let (_, kinds) = error.split_once("expected one of ").unwrap();
    let kinds = kinds.split('`').skip(1).step_by(2);
    kinds.map(str::to_owned).collect()
}

#[test]
fn the_page_of_the_transcript_names_what_is_written() {
    let page = page("transcript.md");
    let (table, of_said) = ("# Transcripts", "## What the model said");

    let said = rows(&page, of_said);
    assert_eq!(rows(&page, table), kinds());
    let mut seen = BTreeSet::new();
    for entry in every_entry() {
        let mut fields = names(&entry);
        assert!(fields.remove("type"));
        let kind = serde_json::to_value(&entry).unwrap()["type"].clone();
        let kind = kind.as_str().unwrap().to_owned();

        let mut named = words(&page, table, &kind, 1);
        if let Entry::Answer(_) | Entry::Partial(_) = entry {
            named.extend(said.iter().cloned());
        }
        if let Entry::Partial(partial) = &entry {
            assert_eq!(words(&page, table, &kind, 2), names(&partial.cut));
        }
        assert_eq!(named, fields, "{kind}");
        seen.insert(kind);
    }
    assert_eq!(seen, kinds());
}
