//! `--upstream NAME=URL`: an upstream without a file.

use lifesign::config::{Config, UpstreamConfig};
use lifesign::{BaseUrl, Wire};
use lifesign_core::{SettingError, Value, unknown_setting};

/// Adds the upstreams of `flags` to `config`; returns for each that was added whose lane it shares.
///
/// The wire comes from a name that is one or stands in the catalog, else from `NAME:WIRE=URL`. A
/// provider that speaks two wires below one URL becomes two upstreams that share places, breakers
/// and holds.
pub(super) fn add(config: &mut Config, flags: &[String]) -> Result<Vec<String>, SettingError> {
    let mut lanes = Vec::new();
    for flag in flags {
        let (name, wires, url) = parse(flag)?;
        let base_url = parse_url(flag, url)?;
        for (at, wire) in wires.iter().enumerate() {
            let mut upstream = UpstreamConfig::new(*wire, base_url.clone());
            upstream.name = match (at, wire.name().strip_prefix("openai-")) {
                (1.., Some(dialect)) => format!("{name} ({dialect})"),
                _ => name.to_owned(),
            };
            if config.upstreams().iter().any(|it| it.name == upstream.name) {
                return Err(
                    SettingError::new(FLAG, "names an upstream that there is already")
                        .with_value(&Value::Text(&upstream.name)),
                );
            }
            config.push_upstream(upstream);
            lanes.push(name.to_owned());
        }
    }
    Ok(lanes)
}

fn parse(flag: &str) -> Result<(&str, Vec<Wire>, &str), SettingError> {
    let refuse = |problem: &str, value: &str| {
        SettingError::new(FLAG, problem)
            .with_value(&Value::Text(value))
            .with_accepted(accepted())
    };
    // Before the first `=` there is no URL, and so nothing secret.
    let Some((name, url)) = flag.split_once('=') else {
        return Err(SettingError::new(FLAG, "has no `=`").with_accepted(accepted()));
    };
    let (name, wire) = match name.split_once(':') {
        Some((name, wire)) => (name.trim(), Some(wire.trim())),
        None => (name.trim(), None),
    };
    if name.is_empty() {
        return Err(refuse("has no name", name));
    }
    let wires = match wire {
        Some(wire) => vec![Wire::parse(wire).map_err(|_| {
            let names = Wire::ALL.iter().map(|wire| wire.name());
            let hint = unknown_setting(wire, names).hint;
            let error = refuse("is not a wire", wire);
            SettingError { hint, ..error }
        })?],
        None => match (Wire::parse(name), wires_of(name)) {
            (Ok(wire), _) => vec![wire],
            (Err(_), Some(wires)) => wires.to_vec(),
            (Err(_), None) => {
                let hint = unknown_setting(name, names()).hint;
                let error = refuse("does not tell the wire", name);
                return Err(SettingError { hint, ..error });
            }
        },
    };
    Ok((name, wires, url.trim()))
}

fn parse_url(flag: &str, url: &str) -> Result<BaseUrl, SettingError> {
    BaseUrl::parse(url).map_err(|error| {
        let refused = SettingError::new(FLAG, format!("cannot be used: {error}"))
            .with_accepted("a URL such as https://api.openai.com or http://127.0.0.1:8080/v1");
        // Where a name and password or a query stand, there may be a secret.
        if flag.contains(['@', '?', '#']) {
            refused
        } else {
            refused.with_value(&Value::Text(flag))
        }
    })
}

/// Returns the wires of a provider of the catalog, if it speaks any of ours.
fn wires_of(provider: &str) -> Option<&'static [Wire]> {
    PROVIDERS
        .iter()
        .find(|(name, _)| *name == provider)
        .map(|(_, wires)| *wires)
}

fn names() -> impl Iterator<Item = &'static str> {
    let wires = Wire::ALL.into_iter().map(Wire::name);
    wires.chain(PROVIDERS.iter().map(|(name, _)| *name))
}

fn accepted() -> String {
    let names: Vec<_> = names().collect();
    format!(
        "NAME=URL where NAME is {}, or NAME:WIRE=URL",
        names.join(", ")
    )
}

/// The providers of the catalog that speak wires of ours under another name. Gemini and Bedrock have wires of their own.
const PROVIDERS: [(&str, &[Wire]); 5] = [
    ("openai", &OPENAI),
    ("azure", &OPENAI),
    ("deepseek", &[Wire::OPENAI_CHAT]),
    ("openrouter", &[Wire::OPENAI_CHAT]),
    ("xai", &OPENAI),
];
const OPENAI: [Wire; 2] = [Wire::OPENAI_CHAT, Wire::OPENAI_RESPONSES];
const FLAG: &str = "--upstream";

#[cfg(test)]
mod tests {
    use lifesign_core::ROWS;
    use pretty_assertions::assert_eq;

    use super::*;

    fn added(flags: &[&str]) -> Result<Vec<String>, SettingError> {
        let flags: Vec<_> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let mut config = Config::default();
        let lanes = add(&mut config, &flags)?;
        let upstreams = config.upstreams().iter().zip(lanes);
        Ok(upstreams
            .map(|(it, lane)| format!("{} {} {} {lane}", it.name, it.wire, it.base_url))
            .collect())
    }

    fn refusal(flags: &[&str]) -> String {
        added(flags).unwrap_err().to_string()
    }

    #[test]
    fn the_wire_comes_from_the_name() {
        let upstreams = added(&[
            "anthropic=https://api.anthropic.com",
            "openai=https://api.openai.com/v1",
            "openai-responses=http://127.0.0.1:1",
            "llama:openai-chat=http://127.0.0.1:8080/x=y",
        ]);

        assert_eq!(
            upstreams.unwrap(),
            [
                "anthropic anthropic https://api.anthropic.com/v1 anthropic",
                "openai openai-chat https://api.openai.com/v1 openai",
                "openai (responses) openai-responses https://api.openai.com/v1 openai",
                "openai-responses openai-responses http://127.0.0.1:1/v1 openai-responses",
                "llama openai-chat http://127.0.0.1:8080/x=y llama",
            ]
        );
    }

    #[test]
    fn a_name_that_tells_no_wire_is_refused_with_those_that_do() {
        let accepted = "accepted: NAME=URL where NAME is openai-chat, openai-responses, anthropic, \
                        openai, azure, deepseek, openrouter, xai, or NAME:WIRE=URL";

        assert_eq!(
            refusal(&["opnai=http://h"]),
            format!(
                "--upstream: \"opnai\" does not tell the wire; {accepted}; did you mean `openai`?"
            )
        );
        assert_eq!(
            refusal(&["a:antropic=http://h"]),
            format!(
                "--upstream: \"antropic\" is not a wire; {accepted}; did you mean `anthropic`?"
            )
        );
        assert_eq!(
            refusal(&["=http://h"]),
            format!("--upstream: \"\" has no name; {accepted}")
        );
        assert_eq!(
            refusal(&["https://user:secret@h"]),
            format!("--upstream: has no `=`; {accepted}")
        );
    }

    #[test]
    fn a_url_that_cannot_be_used_is_refused_and_its_secrets_are_not_told() {
        assert!(
            refusal(&["openai=ftp://h"])
                .starts_with("--upstream: \"openai=ftp://h\" cannot be used: ")
        );
        for flag in ["openai=https://me:secret@h", "openai=https://h/?key=secret"] {
            let told = refusal(&[flag]);

            assert!(told.starts_with("--upstream: cannot be used: "), "{told}");
            assert!(!told.contains("secret"), "{told}");
        }
    }

    #[test]
    fn a_name_that_is_given_twice_is_refused() {
        assert_eq!(
            refusal(&["openai=http://a", "openai=http://b"]),
            "--upstream: \"openai\" names an upstream that there is already"
        );
    }

    #[test]
    fn every_provider_is_in_the_catalog() {
        for (name, _) in PROVIDERS {
            assert!(ROWS.iter().any(|row| row.name == name), "{name}");
        }
    }
}
