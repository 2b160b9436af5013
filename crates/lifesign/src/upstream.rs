//! A provider's endpoint, as calls know it.

use std::fmt;

use lifesign_core::{Failure, HoldKey, Layer, SettingError, Settings, Target, resolve};
use lifesign_wire::Wire;
use secrecy::{ExposeSecret, SecretString};

use crate::base_url::{BaseUrl, BaseUrlError};
use crate::holds::hold_key;
use crate::transport::Endpoint;

/// A provider's endpoint: its wire, its base URL and what authorises a call there.
///
/// # Example
///
/// This example shows an upstream with a key.
///
/// ```
/// use lifesign::{Upstream, Wire};
///
/// let upstream = Upstream::new(Wire::ANTHROPIC, "https://api.anthropic.com")?.with_key("secret");
///
/// assert_eq!(upstream.base_url().to_string(), "https://api.anthropic.com/v1");
/// assert!(!format!("{upstream:?}").contains("secret"));
/// # Ok::<(), lifesign::BaseUrlError>(())
/// ```
#[derive(Clone)]
pub struct Upstream {
    name: String,
    wire: Wire,
    base_url: BaseUrl,
    key: Option<SecretString>,
    http2: bool,
}

impl Upstream {
    /// Returns an upstream that is named after its host, has no key and speaks HTTP/1.1.
    ///
    /// # Errors
    ///
    /// Fails where `base_url` is none.
    pub fn new(wire: Wire, base_url: &str) -> Result<Self, BaseUrlError> {
        Ok(Self::of(wire, BaseUrl::parse(base_url)?))
    }

    /// Returns an upstream that is named after its host, has no key and speaks HTTP/1.1.
    pub fn of(wire: Wire, base_url: BaseUrl) -> Self {
        Self {
            name: base_url.host().to_owned(),
            wire,
            base_url,
            key: None,
            http2: false,
        }
    }

    /// Names the upstream in records and failures.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Authorises its calls with `key`.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<SecretString>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Speaks HTTP/2: by agreement over TLS, and taken for granted without.
    #[must_use]
    pub fn with_http2(mut self) -> Self {
        self.http2 = true;
        self
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its wire.
    pub const fn wire(&self) -> Wire {
        self.wire
    }

    /// Returns where its paths begin.
    pub const fn base_url(&self) -> &BaseUrl {
        &self.base_url
    }

    /// Returns the settings of a call to `model` for which `layer` is all that was set.
    ///
    /// # Errors
    ///
    /// Fails where the layer's profile asks for a setting that is missing.
    pub(crate) fn settings(
        &self,
        model: Option<&str>,
        layer: &Layer,
    ) -> Result<Settings, SettingError> {
        let wire = self.wire.defaults();
        let target = Target {
            wire: &wire,
            host: Some(self.base_url.host()),
            model,
        };
        resolve(&[layer], &target)
    }

    /// Returns where its connections lead.
    pub fn endpoint(&self) -> Endpoint {
        Endpoint {
            http2: self.http2,
            ..self.base_url.endpoint().clone()
        }
    }

    /// Returns the header that authorises a call.
    pub fn authorization(&self) -> Option<(&'static str, String)> {
        self.key
            .as_ref()
            .map(|key| self.wire.authorize(key.expose_secret()))
    }

    /// Takes the key out of what the provider said: some repeat what they were sent.
    pub fn mask(&self, failure: &mut Failure) {
        let texts = [
            &mut failure.provider_message,
            &mut failure.detail,
            &mut failure.advice,
            &mut failure.request_id,
        ];
        for text in texts.into_iter().flatten() {
            *text = self.masked(text);
        }
    }

    /// Returns `text` without the key.
    pub fn masked(&self, text: &str) -> String {
        let key = self.key.as_ref().map(ExposeSecret::expose_secret);
        // Shorter ones stand for nothing, and would be found in ordinary words.
        match key.filter(|key| key.len() >= SHORTEST_KEY) {
            Some(key) => text.replace(key, MASK),
            None => text.to_owned(),
        }
    }

    /// Says so where a call was turned away that carried no key.
    pub fn advise(&self, failure: &mut Failure) {
        if self.key.is_none() && matches!(failure.status, Some(401 | 403)) {
            failure.advice = Some(format!(
                "no key was sent; the wire's usual variable is {}",
                self.wire.key_variable()
            ));
        }
    }

    /// Returns what a hold of a call to `model` is on.
    pub fn hold_key(&self, model: Option<&str>) -> HoldKey {
        let credential = self.key.as_ref().map(ExposeSecret::expose_secret);
        hold_key(
            format!("{} {}", self.name, self.base_url),
            model,
            credential,
        )
    }
}

impl fmt::Debug for Upstream {
    /// Shows everything but the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream")
            .field("name", &self.name)
            .field("wire", &self.wire)
            .field("base_url", &self.base_url.to_string())
            .field("has_key", &self.key.is_some())
            .field("http2", &self.http2)
            .finish()
    }
}

/// No provider hands out a shorter key.
const SHORTEST_KEY: usize = 8;

/// What stands in the place of a key.
const MASK: &str = "[key]";
