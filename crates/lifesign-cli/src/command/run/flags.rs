//! Flags of `lifesign run` whose values are texts with a meaning.

use std::time::Duration;

use lifesign_core::{SettingError, Value, duration};
use tracing_subscriber::filter::LevelFilter;

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
    Ok(match text {
        "off" => LevelFilter::OFF,
        "error" => LevelFilter::ERROR,
        "warn" => LevelFilter::WARN,
        "info" => LevelFilter::INFO,
        "debug" => LevelFilter::DEBUG,
        "trace" => LevelFilter::TRACE,
        other => {
            return Err(SettingError::new("--log", "is no level")
                .with_value(&Value::Text(other))
                .with_accepted("off, error, warn, info, debug, trace"));
        }
    })
}
