//! The settings of a gateway, read from text.

use std::time::Duration;

use lifesign_core::written::{limit_text, size_text};
use lifesign_core::{BoundName, Profile};
use proptest::prelude::*;

use super::*;

mod reading;
mod refusing;
mod resolving;

/// Reads a file with this text; a place in it is told without its directory.
fn load(
    text: &str,
    variables: &[(&str, &str)],
    sets: &[&str],
) -> Result<GatewayConfig, SettingError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.toml");
    std::fs::write(&path, text).unwrap();
    let variables = variables
        .iter()
        .map(|(name, value)| ((*name).into(), (*value).into()));
    let sets: Vec<_> = sets.iter().map(|set| (*set).to_owned()).collect();
    GatewayConfig::load(Some(&path), variables, &sets, &[])
}

fn refusal(text: &str) -> String {
    refusal_with(text, &[], &[])
}

fn refusal_with(text: &str, variables: &[(&str, &str)], sets: &[&str]) -> String {
    let told = load(text, variables, sets).unwrap_err().to_string();
    match told.split_once("/a.toml:") {
        Some((_, told)) => told.to_owned(),
        None => told,
    }
}

fn upstream(name: &str, wire: &str, more: &str) -> String {
    format!(
        "[[upstream]]\nname = \"{name}\"\nwire = \"{wire}\"\nbase_url = \"http://{name}\"\n{more}\n"
    )
}

fn secs(seconds: u64) -> Limit {
    Limit::After(Duration::from_secs(seconds))
}

const HASH: &str = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_text_makes_the_reader_panic(
        head in "\\[(serve|beats|limits|breaker)\\]|\\[\\[(upstream|route|key)\\]\\]",
        key in "listen|hosts|admin_key|every|form|auth|rename|queue|upstreams|sha256|may_set|beats",
        value in "[-\\[\\]{}a-z0-9:=,.\" ]{0,24}|\"\\PC{0,70}\"",
        text in "\\PC*",
    ) {
        let _either = (load(&format!("{head}\n{key} = {value}\n"), &[], &[]), Listen::parse(&text));
        let _headers = CallLayer::read(
            &Asked { profile: Some(&text), wall_clock: Some(&value), sets: vec![&text, &value] },
            None,
        );
    }

    #[test]
    fn a_place_to_listen_is_shown_as_it_is_read(port: u16, path in "/[a-z/]{0,9}[a-z]") {
        for text in [format!("127.0.0.1:{port}"), format!("[::1]:{port}"), format!("unix:{path}")] {
            prop_assert_eq!(Listen::parse(&text).unwrap().to_string(), text);
        }
    }
}
