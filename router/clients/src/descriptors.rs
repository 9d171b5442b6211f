//! Bounds the number of file descriptors that the clients of a router may take: each connection
//! takes one.
//!
//! Without this bound, a crowd of clients could use up all descriptors: the router could then
//! neither accept a client nor connect to a shard.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// One in this many descriptors is reserved for connections to shards and between the platform's
/// own processes, for logs and probes, and for client connections that the router has ordered
/// to end and that have not ended yet.
const RESERVED_DIVISOR: u64 = 8;

/// Raises the soft limit of file descriptors to the hard limit, and returns the number of
/// descriptors for clients.
pub fn for_clients() -> u64 {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    if let Err(error) = raised {
        tracing::warn!(%error, "cannot raise the limit of file descriptors");
    }
    share(getrlimit(Resource::Nofile).current)
}

/// Returns the clients' share of a limit.
///
/// # Arguments
/// * `limit` - the number of descriptors; `None` means no limit.
fn share(limit: Option<u64>) -> u64 {
    let limit = limit.unwrap_or(u64::from(u32::MAX));
    limit - limit / RESERVED_DIVISOR
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_leave_descriptors_for_shards() {
        assert_eq!(share(Some(1024)), 896);
        assert_eq!(share(Some(20_000)), 17_500);
        assert!(share(None) > 1 << 30);
    }
}
