//! Settings from environment variables.

use lifesign_core::{Layer, Origin, SettingError, Value};

/// Reads the settings among `variables`: `LIFESIGN_BOUNDS__RAW_SILENCE` is `bounds.raw_silence`.
///
/// Two underscores stand between levels, so a name with them is a setting or a mistake. Other names
/// that begin with `LIFESIGN_` are somebody else's, such as the key's.
pub(super) fn layer(
    variables: impl IntoIterator<Item = (String, String)>,
) -> Result<Layer, SettingError> {
    let mut settings: Vec<_> = variables
        .into_iter()
        .filter_map(|(name, value)| Some((key(&name)?, name, value)))
        .collect();
    // The environment has no order; sorted, `bounds` comes before each single bound.
    settings.sort();
    let mut layer = Layer::new();
    for (key, name, value) in settings {
        layer
            .set(&key, Value::of_text(&value), Origin::Env)
            .map_err(|error| error.with_position(name))?;
    }
    Ok(layer)
}

/// Returns the setting that a variable is for, if it is for one.
fn key(name: &str) -> Option<String> {
    let name = name.strip_prefix(PREFIX)?;
    let is_setting = name.contains(BETWEEN_LEVELS) || TOP.contains(&name);
    is_setting.then(|| name.to_ascii_lowercase().replace(BETWEEN_LEVELS, "."))
}

const PREFIX: &str = "LIFESIGN_";
const BETWEEN_LEVELS: &str = "__";
/// The settings of the top level.
const TOP: [&str; 2] = ["BOUNDS", "PROFILE"];

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Layer, SettingError> {
        layer(
            variables
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
        )
    }

    #[test]
    fn names_of_others_set_nothing() {
        for name in [
            "LIFESIGN_API_KEY",
            "LIFESIGN_HOME",
            "BOUNDS__FLAT",
            "PATH",
            "lifesign_profile",
        ] {
            assert!(read(&[(name, "45")]).unwrap().is_empty(), "{name}");
        }
    }

    #[test]
    fn names_with_levels_are_settings() {
        for (name, value) in [
            ("LIFESIGN_PROFILE", "patient"),
            ("LIFESIGN_BOUNDS", "off"),
            ("LIFESIGN_BOUNDS__RAW_SILENCE", "45s"),
            ("LIFESIGN_RETRY__TRANSPORT__TRIES", "2"),
            ("LIFESIGN_GRACE__USAGE", "0"),
        ] {
            assert!(!read(&[(name, value)]).unwrap().is_empty(), "{name}");
            assert!(read(&[(name, "null")]).unwrap().is_empty(), "{name}");
            let error = read(&[(name, "-1")]).unwrap_err();
            assert_eq!(error.position.as_deref(), Some(name));
        }
    }

    #[test]
    fn the_key_of_an_upstream_is_no_setting() {
        let error = read(&[("LIFESIGN_UPSTREAM__API_KEY", "secret")]).unwrap_err();

        assert!(!error.to_string().contains("secret"));
    }
}
