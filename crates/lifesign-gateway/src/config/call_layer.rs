//! What a call asks for in its headers, as far as its key allows.

use lifesign::config::Entry;
use lifesign_core::{Key, Layer, Origin, SettingError, Value, unknown_setting};

use super::beats::BeatsLayer;
use super::caller_key::{CallerKey, call_settings};
use super::table::SETTINGS;

/// What the headers of a call ask for, as they came.
#[derive(Clone, Debug, Default)]
pub struct Asked<'a> {
    /// `x-lifesign-profile`.
    pub profile: Option<&'a str>,
    /// `x-lifesign-wall-clock`.
    pub wall_clock: Option<&'a str>,
    /// Each `x-lifesign-set`, `key=value` with commas between.
    pub sets: Vec<&'a str>,
}

/// What a call has set for itself.
#[derive(Clone, Debug, Default)]
pub struct CallLayer {
    pub(super) settings: Layer,
    pub(super) beats: BeatsLayer,
}

impl CallLayer {
    /// Reads what a call asks for; one without a key may set everything that belongs to a call.
    ///
    /// # Errors
    ///
    /// Returns an error that names the header if a value cannot be used, or the key does not allow
    /// it.
    pub fn read(asked: &Asked<'_>, key: Option<&CallerKey>) -> Result<Self, SettingError> {
        let mut layer = Self::default();
        if let Some(profile) = asked.profile {
            layer
                .set_profile(profile, key)
                .map_err(|error| error.with_position(PROFILE_HEADER))?;
        }
        for assignment in asked.sets.iter().flat_map(|set| assignments(set)) {
            layer
                .set(&assignment, key)
                .map_err(|error| error.with_position(SET_HEADER))?;
        }
        if let Some(wall_clock) = asked.wall_clock {
            let value = Value::of_text(wall_clock);
            layer
                .settings
                .set(WALL_CLOCK, value, Origin::Call)
                .map_err(|error| error.with_position(WALL_CLOCK_HEADER))?;
        }
        Ok(layer)
    }

    /// Returns whether the call sets nothing.
    pub fn is_empty(&self) -> bool {
        self.settings.is_empty() && self.beats.is_empty()
    }

    /// Returns whether the call sets its wall clock, by name or with every bound.
    pub(super) fn sets_wall_clock(&self) -> bool {
        let mut names = self.settings.names();
        names.any(|name| matches!(name, WALL_CLOCK | "bounds" | "profile"))
    }

    fn set_profile(&mut self, name: &str, key: Option<&CallerKey>) -> Result<(), SettingError> {
        self.settings
            .set("profile", Value::of_text(name), Origin::Call)?;
        match key {
            Some(key) if !key.profiles.iter().any(|it| it.name() == name.trim()) => {
                let allowed: Vec<_> = key.profiles.iter().map(|it| it.name()).collect();
                let error = SettingError::new("profile", "is not allowed to this key")
                    .with_value(&Value::Text(name));
                Err(match allowed.as_slice() {
                    [] => error,
                    allowed => error.with_accepted(allowed.join(", ")),
                })
            }
            _ => Ok(()),
        }
    }

    fn set(&mut self, assignment: &str, key: Option<&CallerKey>) -> Result<(), SettingError> {
        let Some((name, text)) = assignment.split_once('=') else {
            return Err(SettingError::new(assignment, "has no `=`")
                .with_accepted("a setting and its value, such as bounds.raw_silence=45s"));
        };
        let (name, text) = (name.trim(), text.trim());
        if name == "profile" {
            return self.set_profile(text, key);
        }
        if !call_settings().any(|known| known == name) {
            return Err(unknown_setting(name, call_settings()));
        }
        if key.is_some_and(|key| !key.may_set(name)) && name != WALL_CLOCK {
            return Err(SettingError::new(name, "may not be set with this key"));
        }
        let value = Value::of_text(text);
        match SETTINGS.iter().find(|known| known.name == name) {
            Some(_) if value == Value::Null => Ok(()),
            Some(beats) => {
                let entry = Entry::of_flag(beats.name, beats.accepted, text);
                self.beats.handle(&entry)
            }
            None => self
                .settings
                .set(Key::find(name)?.name, value, Origin::Call),
        }
    }
}

/// Splits at commas, apart from those inside of a value: `bounds.flat=1 min, 5 s` is one setting.
fn assignments(header: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for part in header.split(',') {
        match found.last_mut() {
            Some(last) if !part.contains('=') => {
                last.push(',');
                last.push_str(part);
            }
            _ => found.push(part.to_owned()),
        }
    }
    found.retain(|part| !part.trim().is_empty());
    found
}

pub(super) const WALL_CLOCK: &str = "bounds.wall_clock";
const PROFILE_HEADER: &str = "x-lifesign-profile";
const SET_HEADER: &str = "x-lifesign-set";
const WALL_CLOCK_HEADER: &str = "x-lifesign-wall-clock";
