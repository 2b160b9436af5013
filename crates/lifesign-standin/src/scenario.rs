//! Named scenarios: scripts worth having at hand, each usable on every wire.

use std::fmt::Write as _;

use crate::script::{Script, nearest};

/// A named script.
///
/// This example shows how one is found and read:
///
/// ```
/// let scenario = lifesign_standin::Scenario::find("silence-then-recovery")?;
/// assert_eq!(scenario.title(), "Silence once, then an answer");
/// # Ok::<(), lifesign_standin::UnknownScenario>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scenario {
    name: &'static str,
    text: &'static str,
}

impl Scenario {
    /// Returns all of them, in the order of the reference.
    pub fn all() -> &'static [Self] {
        SCENARIOS
    }

    /// Returns the scenario of this name.
    ///
    /// # Errors
    ///
    /// There is none; the error says which name is near.
    pub fn find(name: &str) -> Result<Self, UnknownScenario> {
        SCENARIOS
            .iter()
            .copied()
            .find(|scenario| scenario.name == name)
            .ok_or_else(|| UnknownScenario {
                name: name.to_owned(),
                like: nearest(name, SCENARIOS.iter().map(|scenario| scenario.name)),
            })
    }

    /// Returns its name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns its title, one line.
    pub fn title(&self) -> &'static str {
        self.text
            .lines()
            .next()
            .unwrap_or_default()
            .trim_start_matches("# ")
    }

    /// Returns what happens in it and what it is good for, in a sentence or two.
    pub fn description(&self) -> String {
        let comment = self
            .text
            .lines()
            .skip(2)
            .map_while(|line| line.strip_prefix("# "));
        comment.collect::<Vec<_>>().join(" ")
    }

    /// Returns its script as text, comments included.
    pub const fn text(&self) -> &'static str {
        self.text
    }

    /// Returns its script.
    pub fn script(&self) -> Script {
        // A test parses every one of them.
        Script::parse(self.text).unwrap_or_default()
    }

    /// Returns `docs/reference/scenarios.md`.
    pub fn reference() -> String {
        let mut page = HEAD.to_owned();
        for scenario in SCENARIOS {
            let (name, title) = (scenario.name, scenario.title());
            // Writing to a string cannot fail.
            writeln!(page, "| [`{name}`](#{name}) | {title} |").unwrap_or_default();
        }
        for scenario in SCENARIOS {
            let (name, title) = (scenario.name, scenario.title());
            let description = scenario.description();
            let script = scenario
                .text
                .split_once("\n\n")
                .map_or("", |(_, script)| script);
            write!(
                page,
                "\n## {name}\n\n{title}. {description}\n\n```text\n{script}```\n"
            )
            .unwrap_or_default();
        }
        page
    }
}

/// No scenario has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no scenario is called `{name}`{}", meant(*.like))]
pub struct UnknownScenario {
    /// The name as given.
    pub name: String,
    /// The name it is most like.
    pub like: Option<&'static str>,
}

fn meant(like: Option<&str>) -> String {
    like.map(|like| format!("; did you mean `{like}`?"))
        .unwrap_or_default()
}

impl Script {
    /// What is played where a scenario is asked for that there is not.
    pub(crate) fn not_found(name: &str) -> Self {
        let refusal = match Scenario::find(name) {
            Ok(_) => String::new(),
            Err(unknown) => unknown.to_string().replace(['"', '\\'], "'"),
        };
        let text = format!("status 404 json; error not_found_error \"{refusal}\"; eof");
        Self::parse(&text).unwrap_or_default()
    }
}

macro_rules! scenario {
    ($name:literal) => {
        Scenario {
            name: $name,
            text: include_str!(concat!("../scenarios/", $name, ".txt")),
        }
    };
}

const SCENARIOS: &[Scenario] = &[
    scenario!("happy"),
    scenario!("thinking-long"),
    scenario!("reasoning-then-answer"),
    scenario!("reasoning-only"),
    scenario!("pings-only"),
    scenario!("comments-only"),
    scenario!("silence"),
    scenario!("silence-mid-answer"),
    scenario!("silence-then-recovery"),
    scenario!("dead-after-headers"),
    scenario!("slow-headers"),
    scenario!("queue"),
    scenario!("drip"),
    scenario!("cut-mid-answer"),
    scenario!("reset-mid-answer"),
    scenario!("reset-before-content"),
    scenario!("hang-up"),
    scenario!("truncated"),
    scenario!("empty"),
    scenario!("error-first"),
    scenario!("error-mid-answer"),
    scenario!("json-error-in-200"),
    scenario!("whole-json"),
    scenario!("html"),
    scenario!("bad-gateway"),
    scenario!("rate-limit-wait"),
    scenario!("overload"),
    scenario!("overload-storm"),
    scenario!("server-error"),
    scenario!("quota"),
    scenario!("wrong-key"),
    scenario!("too-large"),
    scenario!("tool-call"),
    scenario!("tool-call-cut"),
    scenario!("length-finish"),
    scenario!("double-finish"),
    scenario!("late-usage"),
    scenario!("open-end"),
    scenario!("gzip"),
    scenario!("crlf"),
    scenario!("garbage"),
    scenario!("redirect"),
];

const HEAD: &str = "\
# Scenarios

Scripts that ship with the program: `lifesign standin --scenario NAME` plays one on every wire, and
`lifesign standin` without a script serves all of them, each below its name, as in
`http://127.0.0.1:PORT/NAME/v1`. Attempts are counted apart for each wire and whatever stands before
`/v1`, so `/NAME/second-look/v1` begins again at attempt 1. Times are divided by `--speed`.

This page is made from the scenarios themselves.

| name | what happens |
| --- | --- |
";

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn every_scenario_is_a_script_with_a_title_and_a_description() {
        for scenario in Scenario::all() {
            Script::parse(scenario.text)
                .unwrap_or_else(|error| panic!("{}: {error}", scenario.name));
            assert!(scenario.title().len() > 10, "{}", scenario.name);
            assert!(scenario.description().ends_with('.'), "{}", scenario.name);
        }
    }

    #[test]
    fn every_file_in_scenarios_is_listed() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let mut listed: Vec<String> = Scenario::all()
            .iter()
            .map(|scenario| format!("{}.txt", scenario.name))
            .collect();
        files.sort();
        listed.sort();

        assert_eq!(listed, files);
    }

    #[test]
    fn a_name_that_is_near_is_suggested() {
        let error = Scenario::find("ping-only").unwrap_err();

        let expected = "no scenario is called `ping-only`; did you mean `pings-only`?";
        assert_eq!(error.to_string(), expected);
    }
}
