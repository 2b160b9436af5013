//! Flags of `lifesign run` whose values are texts with a meaning.

use std::time::Duration;

use lifesign_core::{SettingError, Value, duration};
use tracing_subscriber::filter::LevelFilter;

use crate::log::LEVELS;

/// Reads a time of more than zero.
pub(super) fn time(flag: &str, text: &str) -> Result<Duration, SettingError> {
    let refuse = |problem: String| {
        SettingError::new(flag, problem)
            .with_value(&Value::Text(text))
            .with_accepted("a duration such as \"30m\" or \"90s\"")
    };
    match duration::parse(text) {
        Ok(time) if time.is_zero() => Err(refuse("is no time at all".to_owned())),
        Ok(time) => Ok(time),
        Err(error) => Err(refuse(error.to_string())),
    }
}

/// Reads a level of the log.
pub(super) fn level(text: &str) -> Result<LevelFilter, SettingError> {
    let level = LEVELS.iter().find(|(name, _)| *name == text);
    level.map(|(_, level)| *level).ok_or_else(|| {
        SettingError::new("--log", "is no level")
            .with_value(&Value::Text(text))
            .with_accepted(LEVELS.map(|(name, _)| name).join(", "))
    })
}
