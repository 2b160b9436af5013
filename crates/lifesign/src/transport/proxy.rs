//! Proxies named by environment variables, honoured as curl does.
//!
//! `http_proxy` counts in lower case only (a CGI program's `HTTP_PROXY` is the caller's header),
//! the other names in both cases, lower case first. An empty value is none. Loopback is not
//! special: whoever has a proxy and a local server says `no_proxy=localhost,127.0.0.1`.

mod socks;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use http::Uri;
use http::header::HeaderValue;
use hyper_util::client::proxy::matcher::Matcher;
use lifesign_core::Stage;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use self::socks::{SocksError, Target};
use super::endpoint::Endpoint;
use super::error::{ConnectError, ConnectErrorKind};
use super::meter::Layer;
use super::resolve::resolve;

/// The proxy variables of an environment.
#[derive(Clone, Default)]
pub struct ProxyEnv {
    http: Option<(&'static str, String)>,
    https: Option<(&'static str, String)>,
    no: String,
}

impl ProxyEnv {
    /// Reads this process's environment.
    pub fn from_env() -> Self {
        Self::read(|name| std::env::var(name).ok())
    }

    /// Reads an environment through `value`, which returns a variable's value.
    pub fn read(value: impl Fn(&str) -> Option<String>) -> Self {
        let first = |names: &[&'static str]| {
            names.iter().find_map(|name| {
                value(name)
                    .filter(|value| !value.is_empty())
                    .map(|value| (*name, value))
            })
        };
        Self {
            http: first(&["http_proxy", "all_proxy", "ALL_PROXY"]),
            https: first(&["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]),
            no: first(&["no_proxy", "NO_PROXY"]).map_or_else(String::new, |(_, value)| value),
        }
    }

    /// Returns an environment that names no proxy.
    pub fn none() -> Self {
        Self::default()
    }
}

impl fmt::Debug for ProxyEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The values may hold passwords.
        f.debug_struct("ProxyEnv")
            .field("http", &self.http.as_ref().map(|(name, _)| name))
            .field("https", &self.https.as_ref().map(|(name, _)| name))
            .field("no", &self.no)
            .finish()
    }
}

/// Which proxy leads to which endpoint.
#[derive(Debug)]
pub(super) struct Proxies {
    http: Option<Choice>,
    https: Option<Choice>,
    no: String,
}

#[derive(Clone, Debug)]
enum Choice {
    Good(Arc<Proxy>),
    /// A variable that names a proxy of no use, and the scheme in it.
    Bad(&'static str, String),
}

/// One proxy.
pub(super) struct Proxy {
    pub(super) kind: ProxyKind,
    pub(super) host: String,
    pub(super) port: u16,
    /// What an HTTP proxy wants to see, marked sensitive.
    pub(super) authorization: Option<HeaderValue>,
    /// User name and password for a SOCKS proxy.
    login: Option<(String, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProxyKind {
    Http,
    Https,
    /// SOCKS 5; names are looked up here, or by the proxy.
    Socks5 {
        remote_names: bool,
    },
}

impl ProxyKind {
    /// Whether the proxy reads plain HTTP requests itself.
    pub(super) fn forwards(self) -> bool {
        matches!(self, Self::Http | Self::Https)
    }
}

impl Proxies {
    pub(super) fn new(env: ProxyEnv) -> Self {
        let choice = |(variable, url): (&'static str, String)| match Proxy::parse(&url) {
            Some(proxy) => Choice::Good(Arc::new(proxy)),
            None => Choice::Bad(variable, scheme(&url).to_owned()),
        };
        Self {
            http: env.http.map(choice),
            https: env.https.map(choice),
            no: env.no,
        }
    }

    /// Returns the proxy that leads to `endpoint`, if one does.
    pub(super) fn choose(&self, endpoint: &Endpoint) -> Result<Option<&Arc<Proxy>>, ConnectError> {
        let choice = if endpoint.tls {
            &self.https
        } else {
            &self.http
        };
        match choice {
            None => Ok(None),
            Some(_) if is_exempt(&endpoint.host, &self.no) => Ok(None),
            Some(Choice::Good(proxy)) => Ok(Some(proxy)),
            Some(Choice::Bad(variable, scheme)) => Err(ConnectError::new(
                Stage::Proxy,
                ConnectErrorKind::ProxyUnsupported { variable },
                scheme.clone(),
            )),
        }
    }
}

impl Proxy {
    fn parse(url: &str) -> Option<Self> {
        let matcher = Matcher::builder().all(url.trim()).build();
        let found = matcher.intercept(&Uri::from_static("http://any"))?;
        let uri = found.uri();
        let kind = match uri.scheme_str() {
            None | Some("http") => ProxyKind::Http,
            Some("https") => ProxyKind::Https,
            Some("socks5") => ProxyKind::Socks5 {
                remote_names: false,
            },
            Some("socks5h") => ProxyKind::Socks5 { remote_names: true },
            Some(_) => return None,
        };
        // curl's defaults.
        let port = uri.port_u16().unwrap_or(match kind {
            ProxyKind::Https => 443,
            ProxyKind::Http | ProxyKind::Socks5 { .. } => 1080,
        });
        let host = uri.host()?.trim_matches(['[', ']']).to_owned();
        let authorization = found.basic_auth().cloned().map(|mut value| {
            value.set_sensitive(true);
            value
        });
        let login = found
            .raw_auth()
            .map(|(user, password)| (user.to_owned(), password.to_owned()));
        Some(Self {
            kind,
            host,
            port,
            authorization,
            login,
        })
    }

    /// Asks for a way to `endpoint`. A proxy that reads plain requests itself needs none for them.
    pub(super) async fn tunnel(
        &self,
        layer: &mut Layer,
        endpoint: &Endpoint,
    ) -> Result<(), ConnectError> {
        if let ProxyKind::Socks5 { remote_names } = self.kind {
            return self.socks(layer, endpoint, remote_names).await;
        }
        if !endpoint.tls {
            return Ok(());
        }
        let peer = self.to_string();
        let failed = |kind| ConnectError::new(Stage::Proxy, kind, peer.clone());
        let lost = |error| ConnectError::of_io(Stage::Proxy, peer.clone(), error);

        let mut request =
            format!("CONNECT {endpoint} HTTP/1.1\r\nhost: {endpoint}\r\n").into_bytes();
        if let Some(authorization) = &self.authorization {
            request.extend_from_slice(b"proxy-authorization: ");
            request.extend_from_slice(authorization.as_bytes());
            request.extend_from_slice(b"\r\n");
        }
        request.extend_from_slice(b"\r\n");
        layer.write_all(&request).await.map_err(lost)?;
        layer.flush().await.map_err(lost)?;

        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            // Byte by byte: what follows belongs to TLS.
            match layer.read_u8().await {
                Ok(byte) => answer.push(byte),
                Err(error) => return Err(lost(error)),
            }
            if answer.len() > ANSWER_LIMIT {
                return Err(failed(ConnectErrorKind::ProxyUnreadable));
            }
        }
        match status(&answer) {
            Some(200..=299) => Ok(()),
            Some(status) => Err(failed(ConnectErrorKind::ProxyAnswered { status })),
            None => Err(failed(ConnectErrorKind::ProxyUnreadable)),
        }
    }

    async fn socks(
        &self,
        layer: &mut Layer,
        endpoint: &Endpoint,
        remote_names: bool,
    ) -> Result<(), ConnectError> {
        let target = match endpoint.ip() {
            Some(ip) => Target::Address(ip),
            None if remote_names => Target::Name(&endpoint.host),
            None => match resolve(&endpoint.host, endpoint.port).await?.first() {
                Some(address) => Target::Address(address.ip()),
                None => Target::Name(&endpoint.host),
            },
        };
        let kind = match socks::connect(layer, target, endpoint.port, self.login.as_ref()).await {
            Ok(()) => return Ok(()),
            Err(SocksError::Io(error)) => {
                return Err(ConnectError::of_io(Stage::Proxy, self.to_string(), error));
            }
            Err(SocksError::Login) => ConnectErrorKind::ProxyLogin,
            Err(SocksError::Refused(reply)) => ConnectErrorKind::ProxyAnswered {
                status: reply.into(),
            },
            Err(SocksError::Unreadable) => ConnectErrorKind::ProxyUnreadable,
        };
        Err(ConnectError::new(Stage::Proxy, kind, self.to_string()))
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy")
            .field("kind", &self.kind)
            .field("host", &self.host)
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

/// Returns the scheme of a proxy's URL. The rest may hold a password.
fn scheme(url: &str) -> &str {
    url.split_once("://")
        .map(|(scheme, _)| scheme.trim())
        .filter(|scheme| scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()))
        .unwrap_or("no URL")
}

/// Reads the status of an answer that begins `HTTP/1.x NNN`.
fn status(answer: &[u8]) -> Option<u16> {
    let rest = answer.strip_prefix(b"HTTP/1.")?;
    let code = rest.get(2..5)?;
    if rest.get(1) != Some(&b' ') {
        return None;
    }
    std::str::from_utf8(code).ok()?.parse().ok()
}

/// Whether a `no_proxy` value names `host` (curl's lib/noproxy.c).
fn is_exempt(host: &str, no_proxy: &str) -> bool {
    if no_proxy.trim() == "*" {
        return true;
    }
    let mut entries = no_proxy
        .split(|c: char| c == ',' || c.is_ascii_whitespace())
        .filter(|entry| !entry.is_empty());
    if let Ok(ip) = host.parse::<IpAddr>() {
        return entries.any(|entry| covers(entry, ip));
    }
    let host = host.trim_end_matches('.');
    entries.any(|entry| {
        let name = entry.trim_start_matches('.').trim_end_matches('.');
        let Some(split) = host.len().checked_sub(name.len()) else {
            return false;
        };
        let (Some(before), Some(end)) = (host.get(..split), host.get(split..)) else {
            return false;
        };
        !name.is_empty()
            && end.eq_ignore_ascii_case(name)
            && (before.is_empty() || before.ends_with('.'))
    })
}

/// Whether an entry, an address or a network in CIDR form, covers `ip`.
fn covers(entry: &str, ip: IpAddr) -> bool {
    let (address, prefix) = match entry.split_once('/') {
        Some((address, prefix)) => match prefix.parse::<u32>() {
            Ok(prefix) => (address, Some(prefix)),
            Err(_) => return false,
        },
        None => (entry, None),
    };
    let Ok(network) = address.trim_matches(['[', ']']).parse::<IpAddr>() else {
        return false;
    };
    let (network, ip, width) = match (network, ip) {
        (IpAddr::V4(network), IpAddr::V4(ip)) => (
            u128::from(u32::from(network)),
            u128::from(u32::from(ip)),
            32,
        ),
        (IpAddr::V6(network), IpAddr::V6(ip)) => (u128::from(network), u128::from(ip), 128),
        _ => return false,
    };
    // curl reads a prefix of 0 as none at all.
    let prefix = prefix.filter(|prefix| *prefix != 0).unwrap_or(width);
    prefix <= width && (network ^ ip) >> (width - prefix) == 0
}

/// The longest answer to CONNECT that is read.
const ANSWER_LIMIT: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(url: &str) -> Endpoint {
        Endpoint::parse(&url.parse().unwrap(), false).unwrap()
    }

    fn env(variables: &[(&str, &str)]) -> Proxies {
        Proxies::new(ProxyEnv::read(|name| {
            variables
                .iter()
                .find(|(variable, _)| *variable == name)
                .map(|(_, value)| (*value).to_owned())
        }))
    }

    /// Returns `host:port` of the proxy used, "direct", or the error.
    fn way(variables: &[(&str, &str)], url: &str) -> String {
        match env(variables).choose(&endpoint(url)) {
            Ok(Some(proxy)) => proxy.to_string(),
            Ok(None) => "direct".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    /// An environment, a URL, and the way to it.
    type Row = (
        &'static [(&'static str, &'static str)],
        &'static str,
        &'static str,
    );

    #[test]
    fn variables_count_as_in_curl() {
        let http = "http://api.test/";
        let https = "https://api.test/";
        let rows: [Row; 16] = [
            (&[], http, "direct"),
            (&[("http_proxy", "http://p:3128")], http, "p:3128"),
            (&[("HTTP_PROXY", "http://p:3128")], http, "direct"),
            (&[("http_proxy", "http://p:3128")], https, "direct"),
            (&[("https_proxy", "http://p:3128")], https, "p:3128"),
            (&[("HTTPS_PROXY", "http://p:3128")], https, "p:3128"),
            (
                &[
                    ("HTTPS_PROXY", "http://upper:1"),
                    ("https_proxy", "http://lower:2"),
                ],
                https,
                "lower:2",
            ),
            (&[("https_proxy", "http://p:3128")], http, "direct"),
            (&[("all_proxy", "http://p:3128")], http, "p:3128"),
            (&[("ALL_PROXY", "http://p:3128")], https, "p:3128"),
            (
                &[("https_proxy", ""), ("ALL_PROXY", "http://p:3128")],
                https,
                "p:3128",
            ),
            (&[("https_proxy", "p:3128")], https, "p:3128"),
            (&[("https_proxy", "http://p")], https, "p:1080"),
            (&[("https_proxy", "https://p")], https, "p:443"),
            (&[("ALL_PROXY", "socks5h://p")], https, "p:1080"),
            (&[("http_proxy", "socks5://p:9")], http, "p:9"),
        ];

        for (variables, url, expected) in rows {
            assert_eq!(way(variables, url), expected, "{variables:?} {url}");
        }
    }

    #[test]
    fn loopback_is_not_special() {
        assert_eq!(
            way(&[("http_proxy", "http://p:3128")], "http://127.0.0.1:8080/"),
            "p:3128"
        );
    }

    #[test]
    fn no_proxy_exempts_names_suffixes_and_networks() {
        let rows = [
            ("api.test", "*", true),
            ("api.test", "*, other.test", false),
            ("api.test", "api.test", true),
            ("api.test", "API.Test", true),
            ("api.test", ".api.test", true),
            ("sub.api.test", "api.test", true),
            ("sub.api.test", ".api.test", true),
            ("notapi.test", "api.test", false),
            ("api.test", "sub.api.test", false),
            ("api.test", "other.test,api.test", true),
            ("api.test", "other.test api.test", true),
            ("api.test.", "api.test", true),
            ("api.test", "api.test:443", false),
            ("api.test", "", false),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3", "10.0.0.0/8", true),
            ("11.1.2.3", "10.0.0.0/8", false),
            ("10.1.2.3", "10.1.2.4/31", false),
            ("10.1.2.3", "10.1.2.2/31", true),
            ("10.1.2.3", "10.0.0.0/33", false),
            ("10.1.2.3", "2.3", false),
            ("::1", "::1", true),
            ("::1", "[::1]", true),
            ("fd00::7", "fd00::/8", true),
            ("fe00::7", "fd00::/8", false),
        ];

        for (host, no_proxy, expected) in rows {
            assert_eq!(
                is_exempt(host, no_proxy),
                expected,
                "{host} in {no_proxy:?}"
            );
        }
    }

    #[test]
    fn a_proxy_of_an_unknown_kind_is_an_error_that_names_the_variable() {
        let said = way(&[("all_proxy", "gopher://p:70")], "https://api.test/");

        assert_eq!(
            said,
            "`all_proxy` names a proxy of an unknown kind (gopher); http, https, socks5 and socks5h are \
             supported"
        );
    }

    #[test]
    fn a_proxys_password_is_sent_and_never_printed() {
        let proxies = env(&[("https_proxy", "http://me:pass%20word@p:3128")]);
        let proxy = proxies
            .choose(&endpoint("https://api.test/"))
            .unwrap()
            .unwrap();

        assert_eq!(
            proxy.authorization.as_ref().unwrap(),
            // base64 of "me:pass word".
            "Basic bWU6cGFzcyB3b3Jk"
        );
        let printed = format!("{proxies:?} {proxy} {proxy:?}");
        assert!(!printed.contains("pass"), "{printed}");
        assert!(!printed.contains("bWU6"), "{printed}");
    }
}
