//! What is known about hosts, shipped with the program.
//!
//! A row changes defaults for one provider, and for nothing else: a host without a row gets what
//! its wire says. A row holds a value only where something observed or documented asks for it, with
//! that source beside it, and leaves `raw_silence` alone where heartbeats can teach it a better
//! one.

use std::net::IpAddr;

use crate::{BoundName, Bounds, Limit, Origin, Setting, Target, glob};

mod rows;

pub use rows::ROWS;

/// What is known about one provider's hosts.
#[derive(Clone, Copy, Debug)]
pub struct CatalogRow {
    /// The row's name.
    pub name: &'static str,
    /// The hosts it is about.
    pub hosts: Hosts,
    /// The models it is about, as patterns; all if empty.
    pub models: &'static [&'static str],
    /// The wires it is about; all if empty.
    pub wires: &'static [&'static str],
    /// The bounds it sets.
    pub bounds: &'static [CatalogBound],
    /// Whether work can be seen before the first content; `None` leaves it to the wire.
    pub shows_work: Option<bool>,
    /// Whether `before_content` and `between_events` apply where nobody set them.
    pub phase_defaults: bool,
    /// Where what the row says is from.
    pub source: &'static str,
}

/// The hosts that a row is about.
#[derive(Clone, Copy, Debug)]
pub enum Hosts {
    /// Hosts that match one of these patterns.
    Named(&'static [&'static str]),
    /// Loopback and private addresses, and names that stand for them.
    Private,
}

/// A bound that a row sets.
#[derive(Clone, Copy, Debug)]
pub struct CatalogBound {
    /// The bound.
    pub name: BoundName,
    /// Its limit.
    pub limit: Limit,
    /// Where the number is from.
    pub source: &'static str,
}

impl CatalogRow {
    /// Returns the row for a target, if there is one: the first that matches.
    pub fn of(target: &Target<'_>) -> Option<&'static Self> {
        ROWS.iter().find(|row| row.is_about(target))
    }

    /// Writes what the row says into `bounds`.
    pub(crate) fn apply(&self, bounds: &mut Bounds) {
        for bound in self.bounds {
            *bounds.limit_mut(bound.name) = Setting {
                value: bound.limit,
                origin: Origin::Catalog,
            };
        }
        if let Some(shows_work) = self.shows_work {
            bounds.shows_work = shows_work;
        }
        bounds.phase_defaults = self.phase_defaults;
    }

    fn is_about(&self, target: &Target<'_>) -> bool {
        let Some(host) = target.host else {
            return false;
        };
        self.hosts.contain(host)
            && (self.wires.is_empty() || self.wires.contains(&target.wire.name))
            && (self.models.is_empty()
                || target
                    .model
                    .is_some_and(|model| self.models.iter().any(|pattern| glob(pattern, model))))
    }
}

impl Hosts {
    /// Returns whether `host` is among them.
    pub fn contain(self, host: &str) -> bool {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        match self {
            Self::Named(patterns) => patterns.iter().any(|pattern| glob(pattern, &host)),
            Self::Private => is_private(&host),
        }
    }
}

/// Returns whether a host is this machine or one beside it.
fn is_private(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>().map(|address| address.to_canonical()) {
        Ok(IpAddr::V4(address)) => {
            address.is_loopback() || address.is_private() || address.is_link_local()
        }
        Ok(IpAddr::V6(address)) => {
            address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local()
        }
        Err(_) => {
            let patterns = [
                "localhost",
                "*.localhost",
                "*.local",
                "host.docker.internal",
            ];
            patterns.iter().any(|pattern| glob(pattern, host))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::watch::CHAT;
    use crate::{Layer, Settings, WireDefaults, resolve};

    const ANTHROPIC: WireDefaults = WireDefaults {
        name: "anthropic",
        raw_silence: Duration::from_mins(3),
        shows_work: true,
        between_events: true,
    };

    fn row(wire: &WireDefaults, host: &str) -> Option<&'static str> {
        let target = Target {
            wire,
            host: Some(host),
            model: None,
        };
        CatalogRow::of(&target).map(|row| row.name)
    }

    fn settings(wire: &WireDefaults, host: &str) -> Settings {
        let target = Target {
            wire,
            host: Some(host),
            model: None,
        };
        resolve::<Layer>(&[], &target).unwrap()
    }

    #[test]
    fn hosts_are_matched_whole_by_suffix_and_by_pattern() {
        for (host, name) in [
            ("api.openai.com", Some("openai")),
            ("API.OpenAI.com.", Some("openai")),
            ("api.openai.com.evil.example", None),
            ("eu.api.openai.com", Some("openai")),
            ("bedrock-runtime.us-east-1.amazonaws.com", Some("bedrock")),
            ("my-resource.openai.azure.com", Some("azure")),
            ("generativelanguage.googleapis.com", Some("gemini")),
            ("us-central1-aiplatform.googleapis.com", Some("gemini")),
            ("api.deepseek.com", Some("deepseek")),
            ("openrouter.ai", Some("openrouter")),
            ("api.x.ai", Some("xai")),
            ("example.com", None),
        ] {
            assert_eq!(row(&CHAT, host), name, "{host}");
        }
    }

    #[test]
    fn a_row_for_one_wire_leaves_the_others_alone() {
        assert_eq!(row(&ANTHROPIC, "api.anthropic.com"), Some("anthropic"));
        assert_eq!(row(&CHAT, "api.anthropic.com"), None);
    }

    #[test]
    fn addresses_of_this_machine_and_its_neighbours_are_private() {
        for host in [
            "127.0.0.1",
            "127.9.9.9",
            "::1",
            "[::1]",
            "localhost",
            "10.1.2.3",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.20",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "mac.local",
            "::ffff:127.0.0.1",
            "host.docker.internal",
        ] {
            assert_eq!(row(&CHAT, host), Some("private"), "{host}");
        }
        for host in [
            "172.32.0.1",
            "11.0.0.1",
            "8.8.8.8",
            "2001:db8::1",
            "local",
            "locals",
        ] {
            assert_eq!(row(&CHAT, host), None, "{host}");
        }
    }

    #[test]
    fn openai_thinks_in_the_dark() {
        let bounds = settings(&CHAT, "api.openai.com").bounds;

        let raw = Limit::After(Duration::from_secs(1_862));
        assert_eq!(
            bounds.raw_silence,
            Setting {
                value: raw,
                origin: Origin::Catalog
            }
        );
        assert_eq!(
            bounds.flat,
            Setting {
                value: Limit::Off,
                origin: Origin::Catalog
            }
        );
        assert!(!bounds.shows_work);
    }

    #[test]
    fn a_local_server_may_load_and_prefill_for_minutes() {
        let bounds = settings(&ANTHROPIC, "127.0.0.1").bounds;

        let limit = Limit::After(Duration::from_mins(10));
        assert_eq!(
            bounds.headers,
            Setting {
                value: limit,
                origin: Origin::Catalog
            }
        );
        assert_eq!(
            bounds.raw_silence,
            Setting {
                value: limit,
                origin: Origin::Catalog
            }
        );
        assert!(!bounds.phase_defaults);
    }

    #[test]
    fn a_host_without_a_row_gets_what_its_wire_says() {
        let chat = settings(&CHAT, "example.com").bounds;
        let anthropic = settings(&ANTHROPIC, "example.com").bounds;

        assert!(!chat.shows_work);
        assert!(anthropic.shows_work);
        assert_eq!(
            anthropic.raw_silence,
            Setting::default_value(Limit::After(Duration::from_mins(3)))
        );
        assert!(chat.phase_defaults);
    }

    #[test]
    fn heartbeats_may_teach_a_better_silence_where_they_come() {
        for (wire, host) in [(&ANTHROPIC, "api.anthropic.com"), (&CHAT, "openrouter.ai")] {
            assert_eq!(
                settings(wire, host).bounds.raw_silence.origin,
                Origin::Default
            );
        }
    }

    #[test]
    fn every_row_names_its_sources() {
        for row in ROWS {
            assert!(!row.source.is_empty(), "{}", row.name);
            assert!(row.bounds.iter().all(|bound| !bound.source.is_empty()));
        }
    }
}
