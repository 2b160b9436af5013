//! `[[route]]`: whom to ask for which models, in which order.

use lifesign::config::Element;
use lifesign_core::{Origin, SettingError, glob};

use super::beats::BeatsLayer;

/// Whom to ask for which models.
#[derive(Clone, Debug)]
pub struct Route {
    /// The models, as a pattern.
    pub model: String,
    /// The names of those to ask, in this order.
    pub upstreams: Vec<String>,
    /// Its own beats.
    pub beats: BeatsLayer,
    /// Where it stands.
    pub origin: Origin,
    /// Where `upstreams` stands.
    pub(super) position: String,
}

impl Route {
    /// Returns whether it is for `model`; a call that names none goes by routes for every model.
    pub fn is_for(&self, model: Option<&str>) -> bool {
        match model {
            Some(model) => glob(&self.model, model),
            None => self.model.bytes().all(|byte| byte == b'*'),
        }
    }

    pub(super) fn read(element: &Element<'_>) -> Result<Self, SettingError> {
        let (mut model, mut upstreams, mut beats) = (None, None, BeatsLayer::default());
        for entry in &element.entries {
            match entry.key() {
                "model" => model = Some(entry.text()?.to_owned()),
                "upstreams" => {
                    let names = entry.texts()?;
                    if names.is_empty() {
                        return Err(entry.refuse("names nobody"));
                    }
                    upstreams = Some((names, entry.position().unwrap_or_default()));
                }
                "beats" => beats = BeatsLayer::read(entry)?,
                _ => return Err(entry.refuse("is no key of a route")),
            }
        }
        let model = model.ok_or_else(|| element.missing("model"))?;
        let (upstreams, position) = upstreams.ok_or_else(|| element.missing("upstreams"))?;
        Ok(Self {
            model,
            upstreams,
            beats,
            origin: element.origin(),
            position,
        })
    }
}
