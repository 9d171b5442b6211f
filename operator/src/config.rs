//! What an operator is told.

use std::net::SocketAddr;

use clap::Args as ClapArgs;
use http::Uri;

/// The command line and environment. The cluster comes from the usual places: a kubeconfig, or the Pod's own account.
#[derive(ClapArgs, Clone, Debug)]
pub struct OperatorArgs {
    /// Where routers and nodes reach the catalog.
    #[arg(long, env = "TENON_CATALOG_LISTEN", default_value = "0.0.0.0:7070")]
    pub catalog_listen: SocketAddr,
    /// The namespace of the Lease and of what RuntimePools become.
    #[arg(long, env = "TENON_NAMESPACE", default_value = "tenon-system")]
    pub namespace: String,
    /// The domain below which Workers without routes get their hosts.
    #[arg(long, env = "TENON_DOMAIN", default_value = "tenon.localhost")]
    pub domain: String,
    /// The image of RuntimePools' nodes.
    #[arg(long, env = "TENON_NODE_IMAGE", default_value = concat!("ghcr.io/tenon-dev/runtime-node:", env!("CARGO_PKG_VERSION")))]
    pub node_image: String,
    /// URL at which nodes reach the catalog.
    #[arg(long, env = "TENON_CATALOG_URL", default_value = "http://tenon-operator:7070")]
    pub catalog_url: String,
    /// URL of the routers' inner door, where schedules' calls go and nodes' calls of one Worker by another.
    #[arg(long, env = "TENON_ROUTER_URL", default_value = "http://tenon-router:8081")]
    pub router_url: Uri,
    /// Name of this replica, unique among all: the Pod's.
    #[arg(long, env = "TENON_IDENTITY", default_value_t = hostname())]
    pub identity: String,
}

fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    name.map_or_else(|_| "operator".to_owned(), |name| name.trim().to_owned())
}
