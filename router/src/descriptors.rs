//! How many file descriptors the clients of a router may take: a connection is one.
//!
//! Without a bound of their own a crowd takes the last one, and then no client is let in, and no shard can be reached.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Of every so many descriptors one is for connections to shards and between our own processes, logs and probes, and for
/// clients' connections that have been told to end and have not yet.
const OURS: u64 = 8;

/// Allows this process all descriptors that it may have, and tells how many of them are for clients.
pub fn for_clients() -> u64 {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    if let Err(error) = raised {
        tracing::warn!(%error, "the limit of file descriptors stays as it is");
    }
    share(getrlimit(Resource::Nofile).current)
}

/// # Arguments
/// * `limit` - none is more than any kernel has.
fn share(limit: Option<u64>) -> u64 {
    let limit = limit.unwrap_or(u64::from(u32::MAX));
    limit - limit / OURS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_leave_some_for_shards() {
        assert_eq!(share(Some(1024)), 896);
        assert_eq!(share(Some(20_000)), 17_500);
        assert!(share(None) > 1 << 30);
    }
}
