//! Names of this machine, and those that were configured beside them.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Returns whether a `Host` names loopback or one of `hosts`.
pub(super) fn is_allowed_host(host: &str, hosts: &[String]) -> bool {
    let Some((name, _port)) = split(host) else {
        return false;
    };
    is_loopback(name) || is_configured(host, hosts) || is_configured(name, hosts)
}

/// Returns whether an `Origin` is a page of loopback or of one of `hosts`.
pub(super) fn is_allowed_origin(origin: &str, hosts: &[String]) -> bool {
    if is_configured(origin, hosts) {
        return true;
    }
    let host = origin
        .strip_prefix("http://")
        .or_else(|| origin.strip_prefix("https://"));
    host.is_some_and(|host| is_allowed_host(host, hosts))
}

fn is_configured(name: &str, hosts: &[String]) -> bool {
    hosts.iter().any(|host| host.eq_ignore_ascii_case(name))
}

/// Takes a host and its port apart; the brackets of an IPv6 address go.
fn split(host: &str) -> Option<(&str, Option<u16>)> {
    let (name, rest) = match host.strip_prefix('[') {
        Some(inner) => inner.split_once(']')?,
        None => match host.find(':') {
            Some(colon) => host.split_at_checked(colon)?,
            None => (host, ""),
        },
    };
    let port = match rest.strip_prefix(':') {
        Some(port) => Some(port.parse().ok()?),
        None if rest.is_empty() => None,
        None => return None,
    };
    (!name.is_empty()).then_some((name, port))
}

fn is_loopback(name: &str) -> bool {
    // Browsers resolve `localhost` and what ends in it to loopback themselves (RFC 6761, 6.3).
    let name = name.strip_suffix('.').unwrap_or(name);
    if let Ok(address) = name.parse::<Ipv4Addr>() {
        return address.is_loopback();
    }
    if let Ok(address) = name.parse::<Ipv6Addr>() {
        return address.is_loopback();
    }
    let last = name.rsplit('.').next().unwrap_or(name);
    last.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_loopback_are_allowed_with_any_port() {
        for host in [
            "localhost",
            "LOCALHOST:80",
            "localhost.",
            "a.localhost:4631",
            "127.0.0.1",
            "127.8.9.1:1",
            "[::1]",
            "[::1]:4631",
        ] {
            assert!(is_allowed_host(host, &[]), "{host}");
        }
    }

    #[test]
    fn what_only_looks_like_loopback_is_not() {
        for host in [
            "",
            ":4631",
            "localhost.evil.test",
            "evillocalhost",
            "127.0.0.1.evil.test",
            "evil.test:localhost",
            "localhost:80:80",
            "localhost:99999",
            "[::1]evil.test",
            "[::1",
            "::1",
            "0.0.0.0",
            "192.168.0.1",
            "localhost@evil.test",
            "evil.test/localhost",
        ] {
            assert!(!is_allowed_host(host, &[]), "{host}");
        }
    }

    #[test]
    fn a_configured_host_is_allowed_alone_or_with_the_port_that_was_configured() {
        let hosts = ["gateway.test".to_owned(), "other.test:8443".to_owned()];

        assert!(is_allowed_host("Gateway.Test:4631", &hosts));
        assert!(is_allowed_host("other.test:8443", &hosts));
        assert!(!is_allowed_host("other.test", &hosts));
        assert!(!is_allowed_host("x.gateway.test", &hosts));
    }

    #[test]
    fn a_whole_origin_can_be_configured() {
        let hosts = ["vscode-webview://abc".to_owned()];

        assert!(is_allowed_origin("vscode-webview://abc", &hosts));
        assert!(!is_allowed_origin("vscode-webview://abd", &hosts));
        assert!(is_allowed_origin("http://[::1]:3000", &hosts));
        assert!(!is_allowed_origin("http://localhost/path", &hosts));
        assert!(!is_allowed_origin("ftp://localhost", &hosts));
    }
}
