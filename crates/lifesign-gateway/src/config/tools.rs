//! `[tools]`: what an agent's tools may take. The gateway has none; its file may have them for agents.

use std::time::Duration;

use lifesign::config::Entry;
use lifesign_core::duration::human;
use lifesign_core::written::{self, limit_text, size_text};
use lifesign_core::{Explained, Limit, Setting, SettingError};

use super::table::TOOLS;

/// What an agent's tools may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolsConfig {
    /// How long a call may take where nothing else says so. Default 2 min.
    pub timeout: Setting<Limit>,
    /// The most bytes of a result. Default 64 KiB.
    pub max_output: Setting<usize>,
    /// How long a program may take that a model runs. Default 2 min.
    pub run_timeout: Setting<Duration>,
    /// How many model calls tool servers may have at once, 0 for none. Default 2.
    pub sampling: Setting<usize>,
}

impl Default for ToolsConfig {
    fn default() -> Self {
        Self {
            timeout: Setting::default_value(Limit::After(Duration::from_mins(2))),
            max_output: Setting::default_value(64 * 1024),
            run_timeout: Setting::default_value(Duration::from_mins(2)),
            sampling: Setting::default_value(2),
        }
    }
}

impl ToolsConfig {
    pub(super) fn handle(&mut self, entry: &Entry<'_>) -> Result<(), SettingError> {
        match entry.key() {
            "timeout" => self.timeout = entry.read(written::limit)?,
            "max_output" => self.max_output = entry.read(read_output)?,
            "run_timeout" => self.run_timeout = entry.read(written::delay)?,
            "sampling" => self.sampling = entry.count_or_zero()?,
            _ => return Err(entry.refuse("is no setting of tools")),
        }
        Ok(())
    }

    /// Returns every setting with its value and where that comes from.
    pub fn explain(&self) -> Vec<Explained> {
        let row = |name: &str| match name {
            "tools.timeout" => Some(shown(&self.timeout, |limit| limit_text(*limit))),
            "tools.max_output" => Some(shown(&self.max_output, |size| size_text(*size))),
            "tools.run_timeout" => Some(shown(&self.run_timeout, |limit| human(*limit))),
            "tools.sampling" => Some(shown(&self.sampling, ToString::to_string)),
            _ => None,
        };
        let rows = TOOLS.iter().filter_map(|key| {
            let (value, origin) = row(key.name)?;
            Some(Explained {
                key: key.name,
                value,
                origin,
                applies: true,
                means: key.doc.to_owned(),
            })
        });
        rows.collect()
    }
}

fn shown<T>(setting: &Setting<T>, text: impl FnOnce(&T) -> String) -> (String, String) {
    (text(&setting.value), setting.origin.to_string())
}

fn read_output(value: lifesign_core::Value<'_>) -> Result<usize, String> {
    match written::size(value)? {
        size if size < LEAST_OUTPUT => Err("is too little to say anything".to_owned()),
        size => Ok(size),
    }
}

/// What is left out of a longer result is said in it, and that takes room.
const LEAST_OUTPUT: usize = 256;

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::GatewayTables;
    use super::*;
    use lifesign::config::Config;

    fn tools(sets: &[&str]) -> Result<ToolsConfig, SettingError> {
        let sets: Vec<_> = sets.iter().map(|set| (*set).to_owned()).collect();
        let mut tables = GatewayTables::default();
        Config::load_with(None, [], &sets, &mut tables)?;
        assert!(!tables.is_used(), "a gateway has no tools");
        Ok(tables.tools().clone())
    }

    #[test]
    fn each_setting_is_read_and_explained_with_its_origin() {
        let set = tools(&[
            "tools.timeout=off",
            "tools.max_output=1 KiB",
            "tools.run_timeout=90s",
            "tools.sampling=0",
        ]);

        let told = |tools: &ToolsConfig| -> Vec<String> {
            let rows = tools.explain();
            let line = |row: &Explained| format!("{} {} {}", row.key, row.value, row.origin);
            rows.iter().map(line).collect()
        };
        assert_eq!(
            told(&set.unwrap()),
            [
                "tools.timeout off call",
                "tools.max_output 1 KiB call",
                "tools.run_timeout 90 s call",
                "tools.sampling 0 call"
            ]
        );
        let defaults = TOOLS
            .iter()
            .map(|key| format!("{} {} default", key.name, key.default));
        assert_eq!(told(&ToolsConfig::default()), defaults.collect::<Vec<_>>());
    }

    #[test]
    fn a_value_that_cannot_be_used_is_refused_with_what_can() {
        for (set, told) in [
            (
                "tools.timeout=45",
                "tools.timeout: \"45\" has no unit; accepted: a duration such as \"45s\" or \
                 \"2 min\", or \"off\"",
            ),
            (
                "tools.max_output=10 B",
                "tools.max_output: \"10 B\" is too little to say anything; accepted: a size such as \
                 \"64 KiB\", at least 256 B",
            ),
            (
                "tools.run_timeout=0s",
                "tools.run_timeout: \"0s\" is no pause; accepted: a duration such as \
                 \"750ms\" or \"10s\"",
            ),
            (
                "tools.sampling=-1",
                "tools.sampling: \"-1\" is negative; accepted: a whole number, 0 for none",
            ),
            (
                "tools.time_out=1s",
                "tools.time_out: unknown setting; did you mean `tools.timeout`?",
            ),
        ] {
            assert_eq!(tools(&[set]).unwrap_err().to_string(), told);
        }
    }
}
