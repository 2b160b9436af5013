//! Named sets of bounds.

use crate::{BoundName, Bounds, Limit, Origin, Setting};

/// A named set of bounds, stronger than the catalog and weaker than a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Profile {
    /// `patient`, and a wall clock that must be given: for runs that nobody watches.
    Harness,
    /// Only `connect`, `raw_silence` and notices: a model that sends heartbeats may think for ever.
    Patient,
    /// Sets nothing. The default.
    Progress,
}

impl Profile {
    /// Every profile, the default first.
    pub const ALL: [Self; 3] = [Self::Progress, Self::Patient, Self::Harness];

    /// Returns the profile of this name, if there is one.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.name() == name)
    }

    /// Returns the name used in settings and output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Harness => "harness",
            Self::Patient => "patient",
            Self::Progress => "progress",
        }
    }

    /// Returns one line that says what the profile does.
    pub const fn summary(self) -> &'static str {
        match self {
            Self::Harness => "as patient, and `bounds.wall_clock` must be given",
            Self::Patient => {
                "turns off every bound but `connect` and `raw_silence`; notices stay on"
            }
            Self::Progress => "sets nothing",
        }
    }

    /// Turns off what the profile turns off.
    pub fn apply(self, bounds: &mut Bounds) {
        if self == Self::Progress {
            return;
        }
        for name in BoundName::ALL {
            if !matches!(name, BoundName::Connect | BoundName::RawSilence) {
                *bounds.limit_mut(name) = Setting {
                    value: Limit::Off,
                    origin: Origin::Profile,
                };
            }
        }
    }
}
