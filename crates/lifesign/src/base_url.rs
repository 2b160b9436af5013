//! Where an upstream's paths begin.

use std::fmt;
use std::str::FromStr;

use http::Uri;
use http::uri::InvalidUri;

use crate::transport::{Endpoint, EndpointError};

/// An upstream's base URL: what stands before a wire's path.
///
/// A URL without a path gets `/v1`, since that is where every wire's paths begin; any other path is
/// kept as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl {
    endpoint: Endpoint,
    /// Without a slash at its end.
    text: String,
}

/// A text that is no base URL.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BaseUrlError {
    /// Scheme, host or port cannot be used.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// It is no URL at all.
    #[error("the URL cannot be read: {0}")]
    Invalid(#[from] InvalidUri),
    /// A query belongs to a request, not to a base.
    #[error("the URL must not carry a query")]
    Query,
    /// A fragment is never sent.
    #[error("the URL must not carry a fragment")]
    Fragment,
}

impl BaseUrl {
    /// Reads a base URL.
    ///
    /// # Errors
    ///
    /// Fails where the text is no `http` or `https` URL, or carries credentials, a query or a
    /// fragment.
    pub fn parse(text: &str) -> Result<Self, BaseUrlError> {
        let text = text.trim();
        if text.contains('#') {
            return Err(BaseUrlError::Fragment);
        }
        let uri: Uri = text.parse()?;
        let endpoint = Endpoint::parse(&uri, false)?;
        if uri.query().is_some() {
            return Err(BaseUrlError::Query);
        }
        let path = uri.path().trim_end_matches('/');
        let path = if path.is_empty() { "/v1" } else { path };
        let scheme = if endpoint.tls { "https" } else { "http" };
        let text = format!("{scheme}://{}{path}", endpoint.authority());
        Ok(Self { endpoint, text })
    }

    /// Returns the URL of `path`, which begins with a slash.
    ///
    /// # Errors
    ///
    /// Fails where the two do not make a URL.
    pub fn join(&self, path: &str) -> Result<Uri, InvalidUri> {
        [self.text.as_str(), path].concat().try_into()
    }

    /// Returns the host in lower case.
    pub fn host(&self) -> &str {
        &self.endpoint.host
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for BaseUrl {
    type Err = BaseUrlError;

    fn from_str(text: &str) -> Result<Self, BaseUrlError> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_without_a_path_gets_v1_and_any_other_path_is_kept() {
        for (given, expected) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/v1"),
            ("http://127.0.0.1:8080/", "http://127.0.0.1:8080/v1"),
            ("https://API.openai.com/v1", "https://api.openai.com/v1"),
            ("https://api.openai.com/v1/", "https://api.openai.com/v1"),
            (
                "https://openrouter.ai/api/v1",
                "https://openrouter.ai/api/v1",
            ),
            ("http://[::1]:9/x//", "http://[::1]:9/x"),
        ] {
            assert_eq!(
                BaseUrl::parse(given).unwrap().to_string(),
                expected,
                "{given}"
            );
        }
    }

    #[test]
    fn what_is_no_base_is_refused_and_says_why() {
        for (given, expected) in [
            (
                "api.openai.com",
                "the URL must begin with http:// or https://",
            ),
            ("ftp://host", "the URL must begin with http:// or https://"),
            (
                "http://key@host/v1",
                "the URL must not carry a user name or password",
            ),
            ("http://host/v1?key=1", "the URL must not carry a query"),
            ("http://host/v1#x", "the URL must not carry a fragment"),
            (
                "http://host:99999/v1",
                "the port must be a number from 1 to 65535",
            ),
            ("http://host:0", "the port must be a number from 1 to 65535"),
        ] {
            assert_eq!(
                BaseUrl::parse(given).unwrap_err().to_string(),
                expected,
                "{given}"
            );
        }
    }
}
