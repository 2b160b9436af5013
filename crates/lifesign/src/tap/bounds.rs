//! Under which bounds a watched stream stands.

use std::time::Duration;

use lifesign_core::{
    BoundName, Bounds, CallShape, Limit, Origin, Profile, Setting, Settings, Target,
};
use lifesign_wire::{FrameLimits, Wire};

/// Whose stream is watched, and under which bounds.
///
/// Without anything said, the bounds are the defaults of the wire. The host and the model find
/// their row of the catalog; `max_tokens` says how long the model may think.
///
/// This example shows a local model that may think for ever, but not stay silent.
///
/// ```
/// use std::time::Duration;
///
/// use lifesign::{BoundName, WatchBounds};
///
/// let bounds = WatchBounds::of_host("127.0.0.1")
///     .patient()
///     .limit(BoundName::RawSilence, Duration::from_secs(45));
/// ```
#[derive(Clone, Debug, Default)]
pub struct WatchBounds {
    base: Option<(Bounds, FrameLimits)>,
    host: Option<String>,
    model: Option<String>,
    max_tokens: Option<u64>,
    patient: bool,
    limits: Vec<(BoundName, Limit)>,
}

/// What a watched stream is judged by.
pub(super) struct Terms {
    pub(super) bounds: Bounds,
    pub(super) limits: FrameLimits,
    pub(super) shape: CallShape,
    pub(super) upstream: Option<String>,
    pub(super) model: Option<String>,
}

impl WatchBounds {
    /// Returns the defaults for an upstream's host, such as `api.openai.com`, without a port.
    pub fn of_host(host: impl Into<String>) -> Self {
        Self {
            host: Some(host.into()),
            ..Self::default()
        }
    }

    /// Says which model answers.
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Says how many tokens the request allows for the answer, thinking included.
    #[must_use]
    pub fn max_tokens(mut self, max_tokens: u64) -> Self {
        self.max_tokens = Some(max_tokens);
        self
    }

    /// Turns off every bound but `connect` and `raw_silence`, as the profile of that name does;
    /// notices stay on.
    #[must_use]
    pub fn patient(mut self) -> Self {
        self.patient = true;
        self
    }

    /// Sets one bound; zero turns it off. `connect` and `headers` are past when a stream is
    /// watched.
    #[must_use]
    pub fn limit(mut self, name: BoundName, limit: Duration) -> Self {
        let limit = if limit.is_zero() {
            Limit::Off
        } else {
            Limit::After(limit)
        };
        self.limits.push((name, limit));
        self
    }

    pub(super) fn terms(self, wire: Wire) -> Terms {
        let wire_defaults = wire.defaults();
        let target = Target {
            wire: &wire_defaults,
            host: self.host.as_deref(),
            model: self.model.as_deref(),
        };
        let (mut bounds, limits) = self
            .base
            .unwrap_or_else(|| (Settings::of_target(&target).bounds, FrameLimits::default()));
        if self.patient {
            Profile::Patient.apply(&mut bounds);
        }
        for (name, value) in self.limits {
            *bounds.limit_mut(name) = Setting {
                value,
                origin: Origin::Call,
            };
        }
        Terms {
            bounds,
            limits,
            shape: CallShape {
                streamed: true,
                max_tokens: self.max_tokens,
                wire: wire_defaults,
            },
            upstream: self.host,
            model: self.model,
        }
    }
}

impl From<Bounds> for WatchBounds {
    /// Takes the bounds as they are, whoever the upstream is.
    fn from(bounds: Bounds) -> Self {
        Self {
            base: Some((bounds, FrameLimits::default())),
            ..Self::default()
        }
    }
}

impl From<&Bounds> for WatchBounds {
    /// Takes the bounds as they are, whoever the upstream is.
    fn from(bounds: &Bounds) -> Self {
        bounds.clone().into()
    }
}

impl From<Settings> for WatchBounds {
    /// Takes the bounds, and the limits of a line and a frame.
    fn from(settings: Settings) -> Self {
        Self {
            base: Some((
                settings.bounds,
                FrameLimits {
                    line: settings.limits.line.value,
                    frame: settings.limits.frame.value,
                },
            )),
            ..Self::default()
        }
    }
}

impl From<&Settings> for WatchBounds {
    /// Takes the bounds, and the limits of a line and a frame.
    fn from(settings: &Settings) -> Self {
        settings.clone().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(bounds: impl Into<WatchBounds>, wire: Wire, name: BoundName) -> (Limit, Origin) {
        let bounds = bounds.into().terms(wire).bounds;
        let Setting { value, origin } = bounds.limit(name).clone();
        (value, origin)
    }

    #[test]
    fn the_host_finds_its_row_of_the_catalog() {
        let bounds = WatchBounds::of_host("api.openai.com").model("gpt-5");

        assert_eq!(
            limit(bounds, Wire::OPENAI_CHAT, BoundName::RawSilence).1,
            Origin::Catalog
        );
    }

    #[test]
    fn the_wire_decides_whether_work_shows_before_content() {
        let shows_work = Wire::ALL.map(|wire| WatchBounds::default().terms(wire).bounds.shows_work);

        assert_eq!(shows_work, Wire::ALL.map(|wire| wire.defaults().shows_work));
    }

    #[test]
    fn what_is_set_is_stronger_than_patience_and_patience_than_what_was_given() {
        let second = Duration::from_secs(1);
        let bounds = WatchBounds::from(Bounds::default())
            .limit(BoundName::Flat, second)
            .limit(BoundName::RawSilence, Duration::ZERO)
            .patient();

        let all = BoundName::ALL.map(|name| limit(bounds.clone(), Wire::ANTHROPIC, name));

        let set: Vec<_> = BoundName::ALL
            .into_iter()
            .zip(all)
            .filter(|(_, (limit, origin))| *limit != Limit::Off || *origin == Origin::Call)
            .collect();
        assert_eq!(
            set,
            [
                (
                    BoundName::Connect,
                    (Limit::After(Duration::from_secs(10)), Origin::Default)
                ),
                (BoundName::Flat, (Limit::After(second), Origin::Call)),
                (BoundName::RawSilence, (Limit::Off, Origin::Call)),
            ]
        );
    }
}
