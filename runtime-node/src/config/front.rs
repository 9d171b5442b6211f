//! The configuration of a node's front, which is a router on the threads of the node's shards.

use std::net::SocketAddr;

use http::Uri;
use tenon_router::{Addresses, Config, FrontArgsError, SitesConfig};

use super::NodeArgs;

/// The ratio of the memory that clients may occupy in a router to that in a node, which needs its
/// memory for isolates.
const MEMORY_RATIO: u64 = 4;

/// Configuration of a node's front.
#[derive(Clone, Debug)]
pub struct FrontConfig {
    /// The configuration of the router. The node sets its name, its TLS toward the platform's
    /// processes, and the number of its threads.
    pub router: Config,
    /// The address on which clients connect with TLS, if the front has certificates. The conversion
    /// from [`NodeArgs`] leaves the certificates out of `router`: the caller opens them.
    pub https_listen: Option<SocketAddr>,
}

impl FrontConfig {
    /// Returns the front that the arguments describe, if they describe one.
    pub(super) fn of(args: &NodeArgs, catalog: &Uri) -> Result<Option<Self>, FrontArgsError> {
        let Some(address) = args.front else { return Ok(None) };
        let base = Config::new(args.name.clone(), address, catalog.clone());
        let base = Config { client_memory: base.client_memory / MEMORY_RATIO, ..base };
        let router = args.clients.configure(base, "tenon-runtime-node", &args.name)?;
        let https_listen = args.clients.has_https().then_some(args.clients.https_listen);
        Ok(Some(Self { router, https_listen }))
    }

    /// Returns the addresses on which the front listens.
    pub fn addresses(&self) -> Addresses {
        Addresses { https: self.https_listen, ..self.router.addresses() }
    }

    /// Returns the configuration of one of `shards` processes, with its part of the node's
    /// resources.
    pub(super) fn for_one_of(self, shards: u16) -> Self {
        let shards = shards.max(1);
        let client_memory = self.router.client_memory / u64::from(shards);
        let capacity = self.router.sites.capacity / usize::from(shards);
        let sites = SitesConfig { capacity, ..self.router.sites };
        Self { router: Config { client_memory, sites, ..self.router }, ..self }
    }
}
