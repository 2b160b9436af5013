//! Tables against one another and against the code.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lifesign::{Answered, CallReport};
use lifesign_core::{
    AttemptRecord, BoundName, Bounds, CallShape, Failure, FailureCode, FailureReport, Phase, Tier,
    Usage, Watch, WireDefaults,
};
use lifesign_wire::{Answer, ToolCall, Wire};

use crate::document::{Document, names};

#[test]
fn the_readme_says_for_every_bound_which_setting_raises_it() {
    let rows = Document::read("README.md").table("the message names");

    let written: BTreeMap<&str, &str> = rows
        .iter()
        .map(|row| (names(&row[0])[0], names(&row[2])[0]))
        .collect();
    let expected = BoundName::ALL
        .iter()
        .map(|bound| (bound.name(), bound.setting()))
        .collect();
    assert_eq!(written, expected);
}

#[test]
fn exit_codes_are_the_same_in_every_table() {
    let of_failures: BTreeSet<(String, String)> = failures()
        .into_iter()
        .flat_map(|row| pairs(&row[0], &row[3]))
        .collect();
    let of_exit_codes = Document::read("docs/reference/exit-codes.md")
        .table("exit")
        .iter()
        .flat_map(|row| pairs(&row[2], &row[0]))
        .collect();
    let in_readme: BTreeSet<String> = Document::read("README.md")
        .table("exit")
        .iter()
        .map(|row| row[0].clone())
        .collect();

    assert_eq!(of_failures, of_exit_codes);
    assert!(
        of_failures.iter().all(|(_, exit)| in_readme.contains(exit)),
        "{in_readme:?}"
    );
}

#[test]
fn every_failure_has_a_status_for_whoever_answers_http() {
    let with_status: BTreeSet<String> = Document::read("docs/reference/statuses.md")
        .table("code")
        .iter()
        .flat_map(|row| {
            names(&row[0])
                .into_iter()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect();

    let codes: BTreeSet<String> = failures()
        .iter()
        .map(|row| names(&row[0])[0].to_owned())
        .collect();
    assert_eq!(with_status, codes);
}

#[test]
fn failures_have_the_tier_exit_code_and_status_that_their_table_says() {
    let written: BTreeMap<String, [String; 3]> = failures()
        .into_iter()
        .map(|row| {
            let status = row[4].split([' ', ',']).next().unwrap_or_default();
            (
                names(&row[0]).join(" "),
                [row[2].clone(), row[3].clone(), status.to_owned()],
            )
        })
        .collect();

    let expected = FailureCode::ALL
        .into_iter()
        .map(|code| {
            let tier = code.tier().map_or("none", Tier::name).to_owned();
            let status = match code {
                FailureCode::ProviderError | FailureCode::Rejected => "as".to_owned(),
                _ => code
                    .http_status(None, false)
                    .map_or_else(|| "none".to_owned(), |status| status.to_string()),
            };
            (
                code.name().to_owned(),
                [tier, code.exit_code().to_string(), status],
            )
        })
        .collect();
    assert_eq!(written, expected);
}

#[test]
fn statuses_are_those_of_the_code() {
    for row in Document::read("docs/reference/statuses.md").table("code") {
        for name in names(&row[0]) {
            let code = FailureCode::ALL
                .into_iter()
                .find(|code| code.name() == name)
                .unwrap();
            let status = code.http_status(None, false);
            let written = row[1]
                .split(|c: char| !c.is_ascii_digit())
                .find_map(|word| word.parse::<u16>().ok());
            assert!(
                status == written || row[1].contains(&format!("else {}", status.unwrap())),
                "{name}: {row:?}"
            );
        }
    }
}

#[test]
fn the_fields_of_the_json_are_those_of_its_tables() {
    let page = Document::read("docs/reference/call-json.md");
    let fields = |heading| -> Vec<String> {
        let rows = page.from(heading).table("field");
        rows.iter().map(|row| names(&row[0]).join(" ")).collect()
    };

    let failure = Failure::new(FailureCode::RawSilent, Phase::BeforeContent);
    assert_eq!(
        fields("## `failure`"),
        keys(&serde_json::to_string(&FailureReport::from(&failure)).unwrap())
    );

    let tally = watch().tally();
    let record = AttemptRecord::new(1, "house", Phase::Ended, &tally, Duration::ZERO);
    assert_eq!(
        fields("## `attempts[]`"),
        keys(&serde_json::to_string(&record).unwrap())
    );

    let call = ToolCall {
        kind: Some("custom_tool_call".to_owned()),
        ..ToolCall::default()
    };
    assert_eq!(
        fields("## `tool_calls[]`"),
        keys(&serde_json::to_string(&call).unwrap())
    );

    let mut answer = Answer::default();
    answer.reasoning = Some(String::new());
    let answered = Answered {
        answer,
        id: String::new(),
        attempts: Vec::new(),
        elapsed: Duration::ZERO,
    };
    assert_eq!(
        fields("## The call"),
        keys(&serde_json::to_string(&CallReport::from(&answered)).unwrap())
    );

    let usage = Usage {
        input_tokens: Some(1),
        output_tokens: Some(2),
        cached_input_tokens: Some(3),
        reasoning_tokens: Some(4),
    };
    assert_eq!(
        fields("## `usage`"),
        keys(&serde_json::to_string(&usage).unwrap())
    );
}

#[test]
fn wires_have_the_paths_and_headers_that_their_table_says() {
    let written: Vec<[String; 5]> = Document::read("docs/reference/wires.md")
        .table("name")
        .iter()
        .map(|row| [0, 1, 2, 3, 4].map(|cell| names(&row[cell]).join(", ")))
        .collect();

    let header = |(name, value): (&str, &str)| format!("{name}: {value}");
    let expected: Vec<[String; 5]> = Wire::ALL
        .iter()
        .map(|wire| {
            let (name, value) = wire.authorize("KEY");
            [
                wire.name().to_owned(),
                wire.path().to_owned(),
                wire.key_variable().to_owned(),
                header((name, value.as_str())),
                wire.headers()
                    .iter()
                    .copied()
                    .map(header)
                    .collect::<Vec<_>>()
                    .join(", "),
            ]
        })
        .collect();
    assert_eq!(written, expected);
}

#[test]
fn wires_have_the_bounds_that_their_table_says() {
    for (row, wire) in Document::read("docs/reference/wires.md")
        .from("## Bounds")
        .table("wire")
        .iter()
        .zip(Wire::ALL)
    {
        let defaults = wire.defaults();

        assert_eq!(names(&row[0]), [wire.name()]);
        assert_eq!(row[1], format!("{} s", defaults.raw_silence.as_secs()));
        assert_eq!(row[2] == "on", defaults.shows_work, "{row:?}");
        assert_eq!(row[3].starts_with("on"), defaults.between_events, "{row:?}");
    }
}

fn watch() -> Watch {
    let wire = WireDefaults {
        name: "none",
        raw_silence: Duration::from_secs(1),
        shows_work: false,
        between_events: false,
    };
    let shape = CallShape {
        streamed: true,
        max_tokens: None,
        wire,
    };
    Watch::new(&Bounds::default(), &shape, Duration::ZERO, Duration::ZERO)
}

/// Returns the keys of a JSON object in the order in which they stand.
fn keys(json: &str) -> Vec<String> {
    let sorted: BTreeMap<String, serde_json::Value> = serde_json::from_str(json).unwrap();
    let mut keys: Vec<String> = sorted.into_keys().collect();
    keys.sort_by_key(|key| json.find(&format!("\"{key}\":")));
    keys
}

fn failures() -> Vec<Vec<String>> {
    Document::read("docs/reference/failures.md").table("code")
}

fn pairs(codes: &str, value: &str) -> Vec<(String, String)> {
    names(codes)
        .into_iter()
        .map(|code| (code.to_owned(), value.to_owned()))
        .collect()
}
