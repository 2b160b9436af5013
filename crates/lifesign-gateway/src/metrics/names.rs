//! What may stand in a label: a bounded set of names, whatever callers ask for.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::sync::{Arc, PoisonError, RwLock};

use lifesign_core::glob;
use prometheus_client::encoding::{EncodeLabelValue, LabelValueEncoder};

use crate::config::GatewayConfig;
use crate::semconv;

/// A value of a label, which many sets of labels share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Name(Arc<str>);

impl From<&str> for Name {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl EncodeLabelValue for Name {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(&self.0)
    }
}

/// The names that labels may have.
#[derive(Debug)]
pub(super) struct Names {
    known: RwLock<Known>,
    none: Name,
    other: Name,
}

impl Default for Names {
    fn default() -> Self {
        Self {
            known: RwLock::default(),
            none: NONE.into(),
            other: OTHER.into(),
        }
    }
}

#[derive(Debug, Default)]
struct Known {
    /// The provider of each upstream.
    upstreams: BTreeMap<Name, &'static str>,
    keys: BTreeSet<Name>,
    /// Models that are named in the settings, or were answered for early enough.
    models: BTreeSet<Name>,
    /// How many of them nobody named.
    unnamed: usize,
    patterns: Vec<String>,
}

impl Names {
    /// Takes in the names of these settings. What was known before stays so.
    pub(super) fn configure(&self, config: &GatewayConfig) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        for upstream in &config.upstreams {
            let provider = semconv::provider_of(upstream);
            let name = upstream.name().into();
            known.upstreams.insert(name, provider);
        }
        let keys = config.keys.iter().map(|key| key.name.as_str().into());
        known.keys.extend(keys);
        let of_upstreams = config.upstreams.iter().flat_map(|upstream| {
            let renamed = upstream.rename.iter().map(|(pattern, _)| pattern);
            upstream.client.models.iter().chain(renamed)
        });
        let of_keys = config.keys.iter().flat_map(|key| &key.models);
        let of_routes = config.routes.iter().map(|route| &route.model);
        let named: Vec<_> = of_upstreams.chain(of_keys).chain(of_routes).collect();
        known.patterns.clear();
        for name in named {
            if !name.contains('*') {
                known.models.insert(name.as_str().into());
            } else if name.bytes().any(|byte| byte != b'*') && !known.patterns.contains(name) {
                known.patterns.push(name.clone());
            }
        }
    }

    /// Returns the configured upstreams.
    pub(super) fn upstreams(&self) -> Vec<Name> {
        self.read(|known| known.upstreams.keys().cloned().collect())
    }

    /// Returns the configured keys.
    pub(super) fn keys(&self) -> Vec<Name> {
        self.read(|known| known.keys.iter().cloned().collect())
    }

    /// Returns the label of an upstream.
    pub(super) fn upstream(&self, name: Option<&str>) -> Name {
        let Some(name) = name else {
            return self.none.clone();
        };
        self.read(|known| {
            let known = known.upstreams.get_key_value(name);
            known.map_or(&self.other, |(name, _)| name).clone()
        })
    }

    /// Returns the label of an upstream's provider.
    pub(super) fn provider(&self, upstream: &str) -> &'static str {
        self.read(|known| known.upstreams.get(upstream).copied().unwrap_or(OTHER))
    }

    /// Returns the label of a caller's key.
    pub(super) fn key(&self, name: Option<&str>) -> Name {
        let Some(name) = name else {
            return self.none.clone();
        };
        self.read(|known| known.keys.get(name).unwrap_or(&self.other).clone())
    }

    /// Returns the label of a model: its name if the settings name it or it is one of the first that
    /// an upstream took, else the pattern that it matches.
    ///
    /// A name that no upstream takes is not remembered, so that typing errors fill no table.
    pub(super) fn model(&self, name: Option<&str>, is_taken: bool) -> Name {
        let Some(name) = name else {
            return self.none.clone();
        };
        let (known, has_room) = self.read(|known| {
            let has_room = known.unnamed < MOST_MODELS && name.len() <= LONGEST_MODEL;
            (known.models.get(name).cloned(), has_room)
        });
        if let Some(known) = known {
            return known;
        }
        if is_taken && has_room {
            let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
            if let Some(known) = known.models.get(name) {
                return known.clone();
            }
            if known.unnamed < MOST_MODELS {
                let name = Name::from(name);
                known.models.insert(name.clone());
                known.unnamed += 1;
                return name;
            }
        }
        self.read(|known| {
            let mut patterns = known.patterns.iter();
            let pattern = patterns.find(|pattern| glob(pattern, name));
            pattern.map_or_else(|| self.other.clone(), |pattern| pattern.as_str().into())
        })
    }

    fn read<T>(&self, what: impl FnOnce(&Known) -> T) -> T {
        // Its changes are insertions.
        what(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Where there is none.
pub(crate) const NONE: &str = "none";
/// Where there were too many.
const OTHER: &str = "other";
/// How many models have a label of their own that no setting names.
pub(super) const MOST_MODELS: usize = 50;
/// How long a model's name may be that no setting names.
const LONGEST_MODEL: usize = 128;

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn names() -> Names {
        let names = Names::default();
        let upstreams = ["openai=https://api.openai.com".to_owned()];
        let config = GatewayConfig::from_flags(&upstreams, [], &[]).unwrap();
        names.configure(&config);
        let mut known = names.known.write().unwrap();
        known.models.insert("named".into());
        known.patterns.push("gpt-*".to_owned());
        drop(known);
        names
    }

    #[test]
    fn models_beyond_the_first_fall_to_their_pattern_or_to_other() {
        let names = names();

        for number in 0..MOST_MODELS {
            let name = format!("m{number}");
            assert_eq!(names.model(Some(&name), true), name.as_str().into());
        }

        assert_eq!(names.model(Some("late"), true), "other".into());
        assert_eq!(names.model(Some("gpt-late"), true), "gpt-*".into());
        assert_eq!(names.model(Some("named"), false), "named".into());
        assert_eq!(names.model(Some("m0"), false), "m0".into());
        assert_eq!(names.model(None, true), "none".into());
    }

    #[test]
    fn models_that_nobody_took_and_endless_names_get_no_label() {
        let names = names();

        assert_eq!(names.model(Some("typo"), false), "other".into());
        assert_eq!(names.model(Some(&"x".repeat(129)), true), "other".into());
        assert_eq!(names.read(|known| known.unnamed), 0);
    }

    #[test]
    fn upstreams_and_keys_are_those_of_the_settings() {
        let names = names();

        assert_eq!(names.upstream(Some("openai")), "openai".into());
        assert_eq!(names.upstream(Some("gone")), "other".into());
        assert_eq!(names.upstream(None), "none".into());
        assert_eq!(names.provider("openai"), "openai");
        assert_eq!(names.key(Some("gone")), "other".into());
    }
}
