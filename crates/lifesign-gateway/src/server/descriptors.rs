//! How many connections the process can hold.

use std::io;

/// Raises the soft limit of descriptors to the hard one; returns it.
pub(crate) fn raise_descriptors() -> io::Result<u64> {
    rlimit::increase_nofile_limit(u64::MAX)
}

/// Returns how many connections to take: `asked` if it is less than what `descriptors` allow when
/// each connection has one to an upstream behind it.
pub(super) fn most_connections(asked: Option<usize>, descriptors: u64) -> usize {
    let free = descriptors.saturating_sub(OURS).max(2);
    let allowed = usize::try_from(free / 2).unwrap_or(usize::MAX);
    asked.unwrap_or(CONNECTIONS).min(allowed)
}

/// Connections at once where nothing was asked for.
const CONNECTIONS: usize = 10_000;
/// What listeners, runtimes, files, and connections that are being refused need.
const OURS: u64 = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_descriptors_are_for_upstreams() {
        assert_eq!(most_connections(None, 1 << 20), 10_000);
        assert_eq!(most_connections(None, 20_000), 9_744);
        assert_eq!(most_connections(Some(100), 20_000), 100);
        assert_eq!(most_connections(Some(50_000), 1_024), 256);
        assert_eq!(most_connections(None, 100), 1);
    }

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let raised = raise_descriptors().unwrap();

        assert_eq!(rlimit::Resource::NOFILE.get().unwrap(), (raised, raised));
    }
}
