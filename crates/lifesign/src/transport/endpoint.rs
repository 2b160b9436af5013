//! Where requests go: scheme, host and port of a base URL.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use http::Uri;
use http::uri::{PathAndQuery, Scheme};

/// Where an upstream's requests go. Two upstreams with equal endpoints share connections.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// Whether TLS is spoken.
    pub tls: bool,
    /// The host in lower case; an IPv6 address without its brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Whether HTTP/2 is offered (over TLS) or taken for granted (without).
    pub http2: bool,
}

/// A URL that names no endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// The URL has no host.
    #[error("the URL names no host")]
    NoHost,
    /// What follows the host is no port.
    #[error("the port must be a number from 1 to 65535")]
    Port,
    /// The scheme is missing or another than `http` and `https`.
    #[error("the URL must begin with http:// or https://")]
    Scheme,
    /// The URL carries a user name or password.
    #[error("the URL must not carry a user name or password")]
    Credentials,
}

impl Endpoint {
    /// Reads the endpoint off a URL.
    ///
    /// # Errors
    ///
    /// Fails where the scheme is not `http` or `https`, where there is no host, and where the URL
    /// carries credentials, which belong into a key.
    pub fn parse(url: &Uri, http2: bool) -> Result<Self, EndpointError> {
        let tls = match url.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(EndpointError::Scheme),
        };
        let authority = url.authority().ok_or(EndpointError::NoHost)?;
        if authority.as_str().contains('@') {
            return Err(EndpointError::Credentials);
        }
        let host = authority
            .host()
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_ascii_lowercase();
        if host.is_empty() {
            return Err(EndpointError::NoHost);
        }
        let after_host = authority
            .as_str()
            .strip_prefix(authority.host())
            .unwrap_or_default();
        let port = match after_host.strip_prefix(':') {
            None | Some("") => default_port(tls),
            Some(digits) => digits
                .parse()
                .ok()
                .filter(|port| *port > 0)
                .ok_or(EndpointError::Port)?,
        };
        Ok(Self {
            tls,
            host,
            port,
            http2,
        })
    }

    /// Returns the address, where the host is one and needs no looking up.
    pub fn ip(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// Returns `host` or `host:port` as a `Host` header has it: without the scheme's own port.
    pub fn authority(&self) -> String {
        if self.port == default_port(self.tls) {
            bracketed(&self.host)
        } else {
            self.to_string()
        }
    }

    /// Returns the same place without HTTP/2.
    pub(super) fn with_http1(&self) -> Self {
        Self {
            http2: false,
            ..self.clone()
        }
    }

    /// Returns the whole URL of what `uri` asks for here.
    pub(super) fn absolute(&self, uri: &Uri) -> Option<Uri> {
        let scheme = if self.tls {
            Scheme::HTTPS
        } else {
            Scheme::HTTP
        };
        Uri::builder()
            .scheme(scheme)
            .authority(self.authority())
            .path_and_query(
                uri.path_and_query()
                    .cloned()
                    .unwrap_or_else(|| PathAndQuery::from_static("/")),
            )
            .build()
            .ok()
    }
}

impl fmt::Display for Endpoint {
    /// Writes `host:port`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", bracketed(&self.host), self.port)
    }
}

fn bracketed(host: &str) -> String {
    if host.parse::<Ipv6Addr>().is_ok() {
        format!("[{host}]")
    } else {
        host.to_owned()
    }
}

const fn default_port(tls: bool) -> u16 {
    if tls { 443 } else { 80 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Endpoint, EndpointError> {
        Endpoint::parse(&url.parse().unwrap(), false)
    }

    #[test]
    fn a_url_gives_host_port_and_tls() {
        let endpoint = parse("https://API.example.com/v1").unwrap();

        assert_eq!(
            endpoint,
            Endpoint {
                tls: true,
                host: "api.example.com".into(),
                port: 443,
                http2: false
            }
        );
        assert_eq!(endpoint.authority(), "api.example.com");
        assert_eq!(endpoint.to_string(), "api.example.com:443");
    }

    #[test]
    fn an_ipv6_address_keeps_its_brackets_only_where_a_port_may_follow() {
        let endpoint = parse("http://[::1]:8080/v1").unwrap();

        assert_eq!(endpoint.host, "::1");
        assert_eq!(endpoint.ip(), Some(IpAddr::V6(Ipv6Addr::LOCALHOST)));
        assert_eq!(endpoint.authority(), "[::1]:8080");
    }

    #[test]
    fn a_url_that_names_no_endpoint_is_refused() {
        assert_eq!(parse("ftp://host/"), Err(EndpointError::Scheme));
        assert_eq!(parse("/v1/messages"), Err(EndpointError::Scheme));
        assert_eq!(
            parse("http://user:word@host/"),
            Err(EndpointError::Credentials)
        );
    }
}
