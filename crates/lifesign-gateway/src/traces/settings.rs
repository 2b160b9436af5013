//! Where spans go, and what they say of the process that sends them.

use std::fmt;
use std::str::FromStr;

use http::uri::{InvalidUri, PathAndQuery};
use http::{HeaderName, HeaderValue, Uri};
use lifesign::transport::{Endpoint, EndpointError};

use super::pairs;

/// How spans are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OtlpProtocol {
    /// gRPC, which is HTTP/2. Collectors listen on 4317.
    Grpc,
    /// Protobuf in the body of a POST, over HTTP/1.1. Collectors listen on 4318.
    #[default]
    HttpProtobuf,
}

impl OtlpProtocol {
    /// Both, in the order of [`WORDS`](Self::WORDS).
    pub(crate) const ALL: [Self; 2] = [Self::Grpc, Self::HttpProtobuf];
    /// The words for them, which are OpenTelemetry's.
    pub(crate) const WORDS: [&str; 2] = ["grpc", "http/protobuf"];
}

/// Where a collector is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectorUrl {
    endpoint: Endpoint,
    /// Without a slash at its end; empty where there is none.
    path: String,
}

/// A text that is no collector's URL.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CollectorUrlError {
    /// Scheme, host or port cannot be used.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// A fragment is never sent.
    #[error("the URL must not carry a fragment")]
    Fragment,
    /// It is no URL at all.
    #[error("the URL cannot be read: {0}")]
    Invalid(#[from] InvalidUri),
    /// A query has no meaning for a collector, and may be a secret.
    #[error("the URL must not carry a query")]
    Query,
}

impl CollectorUrl {
    /// Reads the URL of a collector, without what each protocol puts behind it.
    ///
    /// # Errors
    ///
    /// Fails where the text is no `http` or `https` URL, or carries credentials, a query or a
    /// fragment.
    pub fn parse(text: &str) -> Result<Self, CollectorUrlError> {
        let text = text.trim();
        if text.contains('#') {
            return Err(CollectorUrlError::Fragment);
        }
        let uri: Uri = text.parse()?;
        let endpoint = Endpoint::parse(&uri, false)?;
        if uri.query().is_some() {
            return Err(CollectorUrlError::Query);
        }
        let path = uri.path().trim_end_matches('/').to_owned();
        Ok(Self { endpoint, path })
    }

    /// Returns whether the URL has a path, which gRPC knows nothing of.
    pub fn has_path(&self) -> bool {
        !self.path.is_empty()
    }

    pub(super) fn endpoint(&self, protocol: OtlpProtocol) -> Endpoint {
        Endpoint {
            http2: protocol == OtlpProtocol::Grpc,
            ..self.endpoint.clone()
        }
    }

    /// Returns the path that spans are posted to.
    pub(super) fn path(&self, protocol: OtlpProtocol) -> PathAndQuery {
        let text = match protocol {
            OtlpProtocol::Grpc => GRPC_PATH.to_owned(),
            OtlpProtocol::HttpProtobuf if self.path.ends_with(HTTP_PATH) => self.path.clone(),
            OtlpProtocol::HttpProtobuf => format!("{}{HTTP_PATH}", self.path),
        };
        // It is part of a URL that was read, with plain characters behind it.
        PathAndQuery::try_from(text).unwrap_or_else(|_| PathAndQuery::from_static(HTTP_PATH))
    }
}

impl fmt::Display for CollectorUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.endpoint.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.endpoint.authority(), self.path)
    }
}

impl FromStr for CollectorUrl {
    type Err = CollectorUrlError;

    fn from_str(text: &str) -> Result<Self, CollectorUrlError> {
        Self::parse(text)
    }
}

/// Where spans go, and what they say of the process that sends them.
#[derive(Clone, Debug)]
pub struct TraceSettings {
    /// The collector.
    pub url: CollectorUrl,
    /// How it is spoken to.
    pub protocol: OtlpProtocol,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) service: String,
    pub(super) resource: Vec<(String, String)>,
}

/// A list of `key=value` that cannot be used. It tells nothing of the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PairsError(pub(super) &'static str);

impl TraceSettings {
    /// Sends spans of the service `lifesign` to `url`.
    pub fn new(url: CollectorUrl, protocol: OtlpProtocol) -> Self {
        Self {
            url,
            protocol,
            headers: Vec::new(),
            service: SERVICE.to_owned(),
            resource: Vec::new(),
        }
    }

    /// Sends these headers along, such as the key that a collector wants: `name=value`, commas
    /// between, values percent-encoded.
    ///
    /// # Errors
    ///
    /// Fails where the text is no such list, or where a header cannot be sent.
    pub fn with_headers(mut self, text: &str) -> Result<Self, PairsError> {
        self.headers = headers(text)?;
        Ok(self)
    }

    /// Names the service.
    #[must_use]
    pub fn with_service(mut self, name: impl Into<String>) -> Self {
        self.service = name.into();
        self
    }

    /// Says more of the process: `name=value`, commas between, values percent-encoded. A
    /// `service.name` among it names the service.
    ///
    /// # Errors
    ///
    /// Fails where the text is no such list.
    pub fn with_resource(mut self, text: &str) -> Result<Self, PairsError> {
        for (name, value) in pairs::parse(text).map_err(PairsError)? {
            if name == SERVICE_NAME {
                self.service = value;
            } else {
                self.resource.push((name, value));
            }
        }
        Ok(self)
    }
}

fn headers(text: &str) -> Result<Vec<(HeaderName, HeaderValue)>, PairsError> {
    let pairs = pairs::parse(text).map_err(PairsError)?;
    let header = |(name, value): (String, String)| {
        let name = HeaderName::try_from(name).map_err(|_| PairsError("names no header"))?;
        let mut value = HeaderValue::try_from(value)
            .map_err(|_| PairsError("has a value that no header can carry"))?;
        value.set_sensitive(true);
        Ok((name, value))
    };
    pairs.into_iter().map(header).collect()
}

pub(super) const SERVICE_NAME: &str = "service.name";
const SERVICE: &str = "lifesign";
const GRPC_PATH: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
const HTTP_PATH: &str = "/v1/traces";

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_url_says_where_spans_are_posted_to() {
        for (given, shown, posted) in [
            (
                "http://localhost:4318",
                "http://localhost:4318",
                "/v1/traces",
            ),
            (" http://[::1]:4318/ ", "http://[::1]:4318", "/v1/traces"),
            ("https://h/otlp/", "https://h/otlp", "/otlp/v1/traces"),
            ("https://h/v1/traces", "https://h/v1/traces", "/v1/traces"),
        ] {
            let url = CollectorUrl::parse(given).unwrap();

            assert_eq!(url.to_string(), shown);
            assert_eq!(url.path(OtlpProtocol::HttpProtobuf), posted);
        }
        let url = CollectorUrl::parse("http://localhost:4317").unwrap();
        assert_eq!(url.path(OtlpProtocol::Grpc), GRPC_PATH);
        assert!(url.endpoint(OtlpProtocol::Grpc).http2);
        assert!(!url.endpoint(OtlpProtocol::HttpProtobuf).http2);
    }

    #[test]
    fn what_is_no_url_of_a_collector_is_refused_and_says_why() {
        for (given, expected) in [
            (
                "localhost:4317",
                "the URL must begin with http:// or https://",
            ),
            (
                "grpc://h:4317",
                "the URL must begin with http:// or https://",
            ),
            (
                "http://u:p@h",
                "the URL must not carry a user name or password",
            ),
            ("http://h?key=1", "the URL must not carry a query"),
            ("http://h#a", "the URL must not carry a fragment"),
            ("http://h:0", "the port must be a number from 1 to 65535"),
        ] {
            let refused = CollectorUrl::parse(given).unwrap_err();
            assert_eq!(refused.to_string(), expected, "{given}");
        }
    }

    #[test]
    fn headers_are_hidden_and_those_that_cannot_be_sent_refused() {
        let url = CollectorUrl::parse("http://h").unwrap();
        let settings = TraceSettings::new(url, OtlpProtocol::Grpc);

        let with = settings.clone().with_headers("api-key=se%20cret").unwrap();

        assert_eq!(with.headers[0].1, "se cret");
        assert!(!format!("{with:?}").contains("cret"));
        for (text, problem) in [
            ("a b=secret", "names no header"),
            ("a=secret%0A", "has a value that no header can carry"),
        ] {
            let refused = settings.clone().with_headers(text).unwrap_err();
            assert_eq!(refused.to_string(), problem);
        }
    }

    #[test]
    fn the_service_is_named_by_the_resource_unless_somebody_does() {
        let url = CollectorUrl::parse("http://h").unwrap();
        let settings = TraceSettings::new(url, OtlpProtocol::Grpc);

        let named = settings.with_resource("service.name=a,region=b").unwrap();

        assert_eq!(named.service, "a");
        assert_eq!(named.resource, [("region".to_owned(), "b".to_owned())]);
        assert_eq!(named.with_service("c").service, "c");
    }
}
