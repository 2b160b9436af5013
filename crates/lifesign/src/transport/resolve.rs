//! From a host's name to its addresses.

use std::net::SocketAddr;

use lifesign_core::Stage;

use super::error::{ConnectError, ConnectErrorKind};

/// Returns the addresses of `host` in the order in which they are to be tried.
pub(super) async fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, ConnectError> {
    let unresolved = || ConnectError::new(Stage::Dns, ConnectErrorKind::Unresolved, host);
    let found: Vec<SocketAddr> = tokio::net::lookup_host((host, port))
        .await
        .map_err(|error| unresolved().with(error))?
        .collect();
    if found.is_empty() {
        return Err(unresolved());
    }
    Ok(interleave(&found))
}

/// Alternates the families, beginning with the resolver's first (RFC 8305, section 4).
fn interleave(found: &[SocketAddr]) -> Vec<SocketAddr> {
    let first_is_v6 = found.first().is_some_and(SocketAddr::is_ipv6);
    let (mut one, mut other): (Vec<SocketAddr>, Vec<SocketAddr>) = found
        .iter()
        .copied()
        .partition(|address| address.is_ipv6() == first_is_v6);
    one.reverse();
    other.reverse();
    let mut order = Vec::with_capacity(found.len());
    while !(one.is_empty() && other.is_empty()) {
        order.extend(one.pop());
        order.extend(other.pop());
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(list: &[&str]) -> Vec<SocketAddr> {
        list.iter()
            .map(|address| address.parse().unwrap())
            .collect()
    }

    #[test]
    fn families_alternate_beginning_with_the_resolvers_first() {
        let found = addresses(&["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1", "2.2.2.2:1"]);

        let order = interleave(&found);

        assert_eq!(
            order,
            addresses(&["[::1]:1", "1.1.1.1:1", "[::2]:1", "2.2.2.2:1", "[::3]:1"])
        );
    }
}
