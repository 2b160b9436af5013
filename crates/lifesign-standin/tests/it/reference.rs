//! The pages of `docs/reference` that are made from the program.

use std::{fs, path::Path};

use lifesign_standin::{Scenario, Script};

/// Compares a page with what the program makes of it, and rewrites it first where `BLESS` is set.
fn assert_is_page(name: &str, made: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/reference")
        .join(name);
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, made).unwrap();
    }

    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == made,
        "{name} is out of date: run the tests once with BLESS=1"
    );
}

#[test]
fn the_page_of_words_is_up_to_date() {
    assert_is_page("script.md", &Script::reference());
}

#[test]
fn the_page_of_scenarios_is_up_to_date() {
    assert_is_page("scenarios.md", &Scenario::reference());
}
