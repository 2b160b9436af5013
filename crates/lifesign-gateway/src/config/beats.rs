//! `[beats]`: when and how the caller is told that the gateway is alive.

use std::time::Duration;

use lifesign::config::Entry;
use lifesign_core::{Limit, Setting, SettingError, written};

/// When and how the caller is told that the gateway is alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beats {
    /// How long nothing is sent before a beat is. Default 10 s.
    pub every: Setting<Limit>,
    /// What a beat looks like. Default [`BeatForm::Auto`].
    pub form: Setting<BeatForm>,
    /// Whether the first beat may open the answer. Default yes.
    pub open_early: Setting<bool>,
}

impl Default for Beats {
    fn default() -> Self {
        Self {
            every: Setting::default_value(Limit::After(Duration::from_secs(10))),
            form: Setting::default_value(BeatForm::Auto),
            open_early: Setting::default_value(true),
        }
    }
}

/// What a beat looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeatForm {
    /// By the caller's program, as a shipped table says.
    Auto,
    /// A comment of the stream.
    Comment,
    /// An event that means nothing in the route's dialect.
    Event,
    /// White space before a body that is not streamed.
    Space,
}

impl BeatForm {
    /// Every form, in the order of [`WORDS`](Self::WORDS).
    pub(super) const ALL: [Self; 4] = [Self::Auto, Self::Comment, Self::Event, Self::Space];
    /// The words for them.
    pub(super) const WORDS: [&str; 4] = ["auto", "comment", "event", "space"];
}

/// More beats than that are a flood, and none of them is told sooner.
const SHORTEST: Duration = Duration::from_millis(1);

/// What one place says about beats.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BeatsLayer {
    every: Option<Setting<Limit>>,
    form: Option<Setting<BeatForm>>,
    open_early: Option<Setting<bool>>,
}

impl BeatsLayer {
    /// Puts what the layer says over `beats`.
    pub fn apply(&self, beats: &mut Beats) {
        let Self {
            every,
            form,
            open_early,
        } = self;
        if let Some(every) = every {
            beats.every = every.clone();
        }
        if let Some(form) = form {
            beats.form = form.clone();
        }
        if let Some(open_early) = open_early {
            beats.open_early = open_early.clone();
        }
    }

    /// Returns whether the layer says nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Takes a key of a `[beats]`.
    pub(super) fn handle(&mut self, entry: &Entry<'_>) -> Result<(), SettingError> {
        match entry.key() {
            "every" => {
                let every = entry.read(written::limit)?;
                if matches!(every.value, Limit::After(time) if time < SHORTEST) {
                    return Err(entry.refuse("is shorter than 1 ms"));
                }
                self.every = Some(every);
            }
            "form" => {
                let form = BeatForm::ALL[entry.one_of(&BeatForm::WORDS)?];
                self.form = Some(entry.setting(form));
            }
            "open_early" => self.open_early = Some(entry.setting(entry.flag()?)),
            _ => return Err(entry.refuse("is no setting of beats")),
        }
        Ok(())
    }

    /// Reads a `beats` table inside of another.
    pub(super) fn read(entry: &Entry<'_>) -> Result<Self, SettingError> {
        let mut layer = Self::default();
        for entry in entry.entries("beats", super::table::BEATS)? {
            layer.handle(&entry)?;
        }
        Ok(layer)
    }
}
