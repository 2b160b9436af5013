//! Tables against one another and against the code.

use std::collections::{BTreeMap, BTreeSet};

use lifesign_core::BoundName;

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

fn failures() -> Vec<Vec<String>> {
    Document::read("docs/reference/failures.md").table("code")
}

fn pairs(codes: &str, value: &str) -> Vec<(String, String)> {
    names(codes)
        .into_iter()
        .map(|code| (code.to_owned(), value.to_owned()))
        .collect()
}
