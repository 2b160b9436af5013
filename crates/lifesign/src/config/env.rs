//! Settings from environment variables.

use std::ffi::{OsStr, OsString};

use lifesign_core::{FileKey, Key, Layer, Origin, SettingError, Value, unknown_setting};

use super::entry::Entry;
use super::extension::Extension;
use super::file::names;

/// Reads the settings among `variables`: `LIFESIGN_BOUNDS__RAW_SILENCE` is `bounds.raw_silence`.
///
/// Two underscores stand between levels, so a name with them is a setting or a mistake. So is a
/// name that has all of a setting's letters. Other names that begin with `LIFESIGN_` are somebody
/// else's, such as the key's.
pub(super) fn layer(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
    extension: &mut dyn Extension,
) -> Result<Layer, SettingError> {
    let mut settings = Vec::new();
    for (name, value) in variables {
        let name = name.to_string_lossy();
        let key = key(&name, extension).map_err(|error| error.with_position(&*name))?;
        if let Some(key) = key {
            settings.push((key, name.into_owned(), value));
        }
    }
    // The environment has no order; sorted, `bounds` comes before each single bound.
    settings.sort();
    let mut layer = Layer::new();
    for (key, name, value) in settings {
        set(&mut layer, extension, &key, &name, &value)
            .map_err(|error| error.with_position(name))?;
    }
    Ok(layer)
}

fn set(
    layer: &mut Layer,
    extension: &mut dyn Extension,
    key: &str,
    variable: &str,
    value: &OsStr,
) -> Result<(), SettingError> {
    let others = find(key, extension)?;
    let Some(text) = value.to_str() else {
        let accepted = match others {
            Some(others) => others.accepted,
            None => Key::find(key)?.accepted(),
        };
        return Err(SettingError::new(key, "is not UTF-8 text").with_accepted(accepted));
    };
    match others {
        _ if Value::of_text(text) == Value::Null => Ok(()),
        Some(others) => extension.handle_setting(&Entry::of_variable(
            others.name,
            others.accepted,
            variable,
            text,
        )),
        None => layer.set(key, Value::of_text(text), Origin::Env),
    }
}

/// Returns the setting of the extension's that has this name; `None` where it is the client's.
pub(super) fn find(
    name: &str,
    extension: &dyn Extension,
) -> Result<Option<&'static FileKey>, SettingError> {
    if let Some(problem) = extension.reserved(name) {
        return Err(SettingError::new(name, problem));
    }
    let others = extension.settings().iter().find(|key| key.name == name);
    if others.is_none() && Key::find(name).is_err() {
        return Err(unknown_setting(name, names(extension)));
    }
    Ok(others)
}

/// Returns the setting that a variable is for, if it is for one.
fn key(variable: &str, extension: &dyn Extension) -> Result<Option<String>, SettingError> {
    let Some(name) = variable.strip_prefix(PREFIX) else {
        return Ok(None);
    };
    let key = name.to_ascii_lowercase().replace(BETWEEN_LEVELS, ".");
    let is_setting = name.contains(BETWEEN_LEVELS) || TOP.contains(&name);
    if is_setting && names(extension).any(|known| known == key) {
        return Ok(Some(key));
    }
    if let Some(meant) = names(extension).find(|meant| letters(meant) == letters(name)) {
        let spelled = meant.to_ascii_uppercase().replace('.', BETWEEN_LEVELS);
        return Err(SettingError::new(
            meant,
            format!("is written {PREFIX}{spelled} in the environment"),
        ));
    }
    Ok(is_setting.then_some(key))
}

/// Returns a name without what stands between its words.
fn letters(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    name.chars().filter(|c| !matches!(c, '.' | '_')).collect()
}

const PREFIX: &str = "LIFESIGN_";
const BETWEEN_LEVELS: &str = "__";
/// The settings of the top level.
const TOP: [&str; 2] = ["BOUNDS", "PROFILE"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::extension::Nothing;

    fn read(variables: &[(&str, &str)]) -> Result<Layer, SettingError> {
        layer(
            variables
                .iter()
                .map(|(name, value)| ((*name).into(), (*value).into())),
            &mut Nothing,
        )
    }

    #[test]
    fn names_of_others_set_nothing() {
        for name in [
            "LIFESIGN_API_KEY",
            "LIFESIGN_HOME",
            "LIFESIGN_RAW_SILENCE",
            "LIFESIGN_BOUNDS_FILE",
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
    fn a_setting_that_is_spelled_otherwise_is_refused_with_its_name() {
        for (name, key, meant) in [
            (
                "LIFESIGN_BOUNDS_RAW_SILENCE",
                "bounds.raw_silence",
                "LIFESIGN_BOUNDS__RAW_SILENCE",
            ),
            (
                "LIFESIGN_BOUNDS__RAW__SILENCE",
                "bounds.raw_silence",
                "LIFESIGN_BOUNDS__RAW_SILENCE",
            ),
            (
                "LIFESIGN_BOUNDS.FLAT",
                "bounds.flat",
                "LIFESIGN_BOUNDS__FLAT",
            ),
            (
                "LIFESIGN__RETRY_CUT_TRIES",
                "retry.cut.tries",
                "LIFESIGN_RETRY__CUT__TRIES",
            ),
            ("LIFESIGN_Profile", "profile", "LIFESIGN_PROFILE"),
        ] {
            assert_eq!(
                read(&[(name, "45s")]).unwrap_err().to_string(),
                format!("{name}: {key}: is written {meant} in the environment")
            );
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_setting_that_is_no_text_is_refused_and_what_is_no_setting_is_not() {
        use std::os::unix::ffi::OsStrExt;

        let value = OsStr::from_bytes(b"45s\xff");
        let read = |name: &str| layer([(name.into(), value.into())], &mut Nothing);

        assert_eq!(
            read("LIFESIGN_BOUNDS__FLAT").unwrap_err().to_string(),
            "LIFESIGN_BOUNDS__FLAT: bounds.flat: is not UTF-8 text; accepted: a duration such as \
             \"45s\" or \"2 min\", or \"off\""
        );
        assert!(read("LIFESIGN_HOME").unwrap().is_empty());
        assert!(
            layer([(value.into(), "45s".into())], &mut Nothing)
                .unwrap()
                .is_empty()
        );
    }

    #[test]
    fn the_key_of_an_upstream_is_no_setting() {
        let error = read(&[("LIFESIGN_UPSTREAM__API_KEY", "secret")]).unwrap_err();

        assert!(!error.to_string().contains("secret"));
    }
}
