//! Starts the node's front: the router that runs on the threads of the node's shards.
//!
//! ```text
//!  client ─► the thread of any shard ─► front ─┬─ the thread's own shard: inline
//!                                              └─ any other shard or lane: over a connection
//! ```
//!
//! A shard's process watches the catalog itself, as a router does, on a thread of its own. The
//! supervisor could watch the catalog once for all processes, but would then have to keep what
//! tenants wrote, and a process that restarts would depend on the supervisor for its table. A
//! process without a table leaves its clients to the other shards of the node.

use prometheus::Registry;
use tenon_lifecycle::drain;
use tenon_lifecycle::readiness::Readiness;
use tenon_proto::id::ShardId;
use tenon_router::{FrontThread, Listeners, Router, descriptors};

use crate::config::{Config, FrontConfig};
use crate::node::SpawnError;

/// A started front, whose threads the shards run.
pub(super) struct Front {
    pub(super) router: Router,
    /// The part of each shard's thread, in the order of the shards.
    pub(super) threads: Vec<FrontThread>,
}

/// Starts a front, which holds `readiness` until the catalog has arrived.
///
/// # Arguments
/// * `config` - the configuration of the process.
/// * `process` - the shard whose process this is, if shards have processes of their own.
/// * `listeners` - the listeners of each shard's thread.
///
/// # Errors
/// Fails if a part of the configuration is unusable, or the system cannot create a thread.
pub(super) fn start(
    config: &Config,
    FrontConfig { router, .. }: FrontConfig,
    process: Option<ShardId>,
    listeners: Vec<Listeners>,
    drain: drain::Watch,
    registry: &Registry,
    readiness: &Readiness,
) -> Result<Front, SpawnError> {
    let mut sites = router.sites;
    let name = match process {
        Some(id) => {
            // No other process may use the directory.
            sites.directory.push(format!("shard-{id}"));
            format!("front/{}/{id}", config.name)
        }
        None => format!("front/{}", config.name),
    };
    let client_connections = router.client_connections.min(descriptors::for_clients());
    let tls = config.tls.clone();
    let router = tenon_router::Config { name, tls, sites, client_connections, ..router };
    let (router, threads) = Router::with_listeners(router, listeners, drain, registry, readiness)?;
    Ok(Front { router, threads })
}
