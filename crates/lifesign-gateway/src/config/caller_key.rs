//! `[[key]]`: who may ask, and for what.

use lifesign::config::{Element, Entry};
use lifesign_core::{KEYS, Origin, Profile, SettingError, Value, glob, unknown_setting, written};

use super::beats::BeatsLayer;
use super::table::SETTINGS;

/// A caller's key.
#[derive(Clone, Debug)]
pub struct CallerKey {
    /// The name by which the log knows it.
    pub name: String,
    /// The SHA-256 of the key.
    pub sha256: [u8; 32],
    /// The models it may ask for, as patterns; every model where empty.
    pub models: Vec<String>,
    /// Calls at once; no limit where `None`.
    pub concurrency: Option<u32>,
    /// Calls a minute; no limit where `None`.
    pub per_minute: Option<u32>,
    /// Profiles that a call may choose.
    pub profiles: Vec<Profile>,
    /// Settings that a call may set, as patterns.
    pub may_set: Vec<String>,
    /// Its own beats.
    pub beats: BeatsLayer,
    /// Where it stands.
    pub origin: Origin,
    /// Where its name and its hash stand.
    pub(super) name_position: String,
    pub(super) hash_position: String,
}

impl CallerKey {
    /// Returns whether it may ask for `model`.
    pub fn may_ask_for(&self, model: &str) -> bool {
        self.models.is_empty() || self.models.iter().any(|pattern| glob(pattern, model))
    }

    /// Returns whether a call may set `setting`.
    pub fn may_set(&self, setting: &str) -> bool {
        self.may_set.iter().any(|pattern| glob(pattern, setting))
    }

    pub(super) fn read(element: &Element<'_>) -> Result<Self, SettingError> {
        let (mut name, mut sha256) = (None, None);
        let (mut models, mut concurrency, mut per_minute) = (Vec::new(), None, None);
        let (mut profiles, mut may_set) = (Vec::new(), Vec::new());
        let mut beats = BeatsLayer::default();
        let position = |entry: &Entry<'_>| entry.position().unwrap_or_default();
        for entry in &element.entries {
            match entry.key() {
                "name" => name = Some((entry.text()?.to_owned(), position(entry))),
                "sha256" => sha256 = Some((read_hash(entry)?, position(entry))),
                "models" => models = read_models(entry)?,
                "concurrency" => concurrency = Some(entry.read(written::count)?.value),
                "per_minute" => per_minute = Some(entry.read(written::count)?.value),
                "profiles" => profiles = read_profiles(entry)?,
                "may_set" => may_set = read_may_set(entry)?,
                "beats" => beats = BeatsLayer::read(entry)?,
                _ => return Err(entry.refuse("is no key of a key")),
            }
        }
        let (name, name_position) = name.ok_or_else(|| element.missing("name"))?;
        let (sha256, hash_position) = sha256.ok_or_else(|| element.missing("sha256"))?;
        Ok(Self {
            name,
            sha256,
            models,
            concurrency,
            per_minute,
            profiles,
            may_set,
            beats,
            origin: element.origin(),
            name_position,
            hash_position,
        })
    }
}

/// Reads patterns of models: none at all would not say whether every model is meant, or no one.
fn read_models(entry: &Entry<'_>) -> Result<Vec<String>, SettingError> {
    let models = entry.texts()?;
    if models.is_empty() {
        return Err(entry.refuse("names no model"));
    }
    Ok(models)
}

/// Reads a hash; what stands there instead is not told, since it may be the key itself.
fn read_hash(entry: &Entry<'_>) -> Result<[u8; 32], SettingError> {
    let digits: Vec<u8> = entry
        .text()?
        .trim()
        .chars()
        .map_while(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect();
    let is_whole = digits.len() == entry.text()?.trim().chars().count();
    let bytes: Vec<u8> = digits
        .chunks_exact(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect();
    match bytes.try_into() {
        Ok(OF_NOTHING) => Err(entry.refuse("is the SHA-256 of an empty key")),
        Ok(hash) if is_whole && digits.len() == 64 => Ok(hash),
        _ => Err(entry.refuse("is not a SHA-256 in hexadecimal digits")),
    }
}

/// The SHA-256 of no bytes, which a variable that is not set leaves.
const OF_NOTHING: [u8; 32] = [
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24,
    0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
];

fn read_profiles(entry: &Entry<'_>) -> Result<Vec<Profile>, SettingError> {
    let names = || Profile::ALL.iter().map(|profile| profile.name());
    entry
        .texts()?
        .iter()
        .map(|text| {
            Profile::named(text).ok_or_else(|| {
                let error = entry
                    .refuse("is not a profile")
                    .with_value(&Value::Text(text));
                let hint = unknown_setting(text, names()).hint;
                SettingError { hint, ..error }
            })
        })
        .collect()
}

fn read_may_set(entry: &Entry<'_>) -> Result<Vec<String>, SettingError> {
    let patterns = entry.texts()?;
    for pattern in &patterns {
        if !call_settings().any(|name| glob(pattern, name)) {
            let error = entry
                .refuse("matches no setting of a call")
                .with_value(&Value::Text(pattern));
            let hint = unknown_setting(pattern, call_settings()).hint;
            return Err(SettingError { hint, ..error });
        }
    }
    Ok(patterns)
}

/// Returns the settings that a call may be allowed to set; a profile is allowed by its own name.
pub(super) fn call_settings() -> impl Iterator<Item = &'static str> {
    let beats = SETTINGS.iter().map(|key| key.name);
    KEYS.iter()
        .map(|key| key.name)
        .filter(|name| *name != "profile")
        .chain(beats.filter(|name| name.starts_with("beats.")))
}
