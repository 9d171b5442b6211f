//! A node's configuration: raw as [`NodeArgs`], validated as [`Config`].
//!
//! Each part of a [`Config`] defines its defaults in one place, its [`Default`]. The flags, `tenon
//! dev` and tests change only the values that they need to.

mod args;
mod front;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use ipnet::IpNet;
use tenon_egress::{InvalidProxy, Proxy, Resolver};
use tenon_engine::exception::ExceptionSink;
use tenon_engine::inspector::Inspector;
use tenon_lifecycle::tls::{self, Tls, WrongScheme};
use tenon_proto::id::ShardId;
use tenon_router::FrontArgsError;
use tonic::transport::Endpoint;

use crate::services::{InvalidRouter, RouterUrl};

pub use args::{NodeArgs, Seconds, Withheld};
pub use front::FrontConfig;

const MIB: u64 = 1 << 20;

/// A node's validated configuration.
#[derive(Clone, Debug)]
pub struct Config {
    pub name: String,
    pub listen: ListenConfig,
    /// The operators' catalog.
    pub catalog: CatalogConfig,
    /// URL of the routers' internal listener. Without it, [`Node::spawn`](crate::node::Node::spawn)
    /// uses the internal listener of the node's own front. Without a front either, Workers call
    /// only Workers on their own shard.
    pub router: Option<RouterUrl>,
    pub pool: PoolConfig,
    pub admission: AdmissionConfig,
    pub memory: MemoryConfig,
    pub egress: EgressConfig,
    pub drain: DrainConfig,
    /// The front of this node, if clients connect to it without a router.
    pub front: Option<FrontConfig>,
    /// Whether the fronts of other nodes may send requests to the shards.
    pub admit_fronts: bool,
    /// Port of the loopback interface on which a supervisor takes profiles, if it takes any. With 0
    /// the system chooses the port.
    pub profile_port: Option<u16>,
    /// TLS between operator, routers and node. The conversion from [`NodeArgs`] leaves it `None`:
    /// the caller opens the certificates.
    pub tls: Option<Tls>,
    /// Lets clients debug the Workers. No argument sets it, because debugging is not allowed on a
    /// cluster.
    pub inspector: Option<Arc<Inspector>>,
    /// Receives the exceptions that Workers do not catch. No argument sets it, because a node on a
    /// cluster only logs them.
    pub exceptions: Option<Arc<dyn ExceptionSink>>,
}

/// Addresses of the catalog.
#[derive(Clone, Debug)]
pub struct CatalogConfig {
    /// The address of the operators that are ready.
    pub ready: Endpoint,
    /// The address of all operators, which also send revisions before they are ready.
    pub starting: Option<Endpoint>,
    /// Maximum time for which a cold start waits for an operator that answers.
    pub wait: Duration,
}

/// Configuration of the shards and lanes and of their addresses.
#[derive(Clone, Debug)]
pub struct ListenConfig {
    pub ip: IpAddr,
    /// Port of shard 0. With 0 the system chooses each port.
    pub shard_port: u16,
    pub shards: u16,
    pub lanes: u16,
    /// Whether each shard is pinned to a CPU.
    pub pin: bool,
}

/// Configuration of a shard's isolates.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// Maximum number of isolates.
    pub isolates: usize,
    /// Maximum number of isolates made ahead of demand.
    pub spares: usize,
    /// Time after which an idle isolate is evicted.
    pub idle_timeout: Duration,
    /// Directory for revisions and compiled code. Without a directory, they are kept in memory
    /// only.
    pub code_cache_dir: Option<PathBuf>,
}

/// Bounds on the requests of a shard.
#[derive(Clone, Debug)]
pub struct AdmissionConfig {
    /// Maximum number of concurrent invocations.
    pub max_inflight: u32,
    /// Maximum length of each queue.
    pub max_waiting: usize,
}

/// Configuration of the node's memory.
#[derive(Clone, Debug)]
pub struct MemoryConfig {
    /// Memory budget of the node, or of one process after [`Config::for_one_process`], in bytes.
    /// Without a configured budget, the container's limit is the budget, or else the machine's
    /// memory.
    pub budget: Option<u64>,
    /// Memory for cached responses, in bytes.
    pub response_cache: u64,
    /// The number of processes that share the node's memory: 1 if its shards are threads of one
    /// process.
    pub processes: u16,
    /// Root of the file system from which the kernel's memory files are read.
    pub root: PathBuf,
}

/// Configuration of the connections that Workers make.
#[derive(Clone, Debug, Default)]
pub struct EgressConfig {
    /// Networks that Workers may reach although they are not public.
    pub allow: Vec<IpNet>,
    /// Networks that Workers may not reach although they are public or allowed.
    pub deny: Vec<IpNet>,
    /// PEM files with certificates to trust in addition to the system's.
    pub ca_files: Vec<PathBuf>,
    pub proxy: Option<Proxy>,
}

/// Configuration of a node's drain.
#[derive(Clone, Debug)]
pub struct DrainConfig {
    /// Time for which invocations may continue after the drain has begun.
    pub grace: Duration,
}

impl CatalogConfig {
    /// Default of [`wait`](Self::wait): less than the default wall-clock limit of a request, so
    /// that the client learns the reason.
    pub const WAIT: Duration = Duration::from_secs(25);
}

impl From<Endpoint> for CatalogConfig {
    /// Returns the configuration with one address.
    fn from(ready: Endpoint) -> Self {
        Self { ready, starting: None, wait: Self::WAIT }
    }
}

impl Default for ListenConfig {
    /// Returns one shard and one lane for each CPU. The shards are pinned if that is possible.
    fn default() -> Self {
        let shards = cpus();
        Self {
            ip: Ipv4Addr::UNSPECIFIED.into(),
            shard_port: 7100,
            shards,
            lanes: shards,
            pin: may_pin(shards),
        }
    }
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self {
            isolates: 200,
            spares: 8,
            idle_timeout: Duration::from_secs(600),
            code_cache_dir: None,
        }
    }
}

impl Default for AdmissionConfig {
    fn default() -> Self {
        // As many requests may wait as may be in flight, so that a burst of clients for one Worker
        // is served: most invocations take less than a millisecond.
        Self { max_inflight: 1024, max_waiting: 1024 }
    }
}

impl Default for MemoryConfig {
    fn default() -> Self {
        Self { budget: None, response_cache: 64 * MIB, processes: 1, root: PathBuf::from("/") }
    }
}

impl Default for DrainConfig {
    fn default() -> Self {
        Self { grace: Duration::from_secs(30) }
    }
}

/// An invalid argument.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{flag} {url:?} is not a URL such as http://tenon-operator:7070: {source}")]
    Catalog { flag: &'static str, url: String, source: tonic::transport::Error },
    #[error("--router {0}")]
    Router(#[from] InvalidRouter),
    #[error("{flag} {source}")]
    Scheme { flag: &'static str, source: WrongScheme },
    #[error("--egress-proxy {0}")]
    Proxy(#[from] InvalidProxy),
    #[error("{0} requires --egress-proxy; set --egress-proxy, or leave {0} out")]
    NoProxy(&'static str),
    #[error(
        "--shard-port {port} leaves too few ports for {shards} shards and {lanes} lanes; choose a lower port"
    )]
    Ports { port: u16, shards: u16, lanes: u16 },
    #[error(transparent)]
    Front(#[from] FrontArgsError),
    #[error("--shards {0} exceeds the maximum of 1024; run more nodes instead")]
    Shards(u16),
}

impl TryFrom<NodeArgs> for Config {
    type Error = ConfigError;

    fn try_from(args: NodeArgs) -> Result<Self, ConfigError> {
        let listen = listen(&args)?;
        let proxy = proxy(&args)?;
        let endpoint = |flag, url: &String| {
            Endpoint::from_shared(url.clone()).map_err(|source| ConfigError::Catalog {
                flag,
                url: url.clone(),
                source,
            })
        };
        let catalog = CatalogConfig {
            ready: endpoint("--catalog", &args.catalog)?,
            starting: args
                .starting_catalog
                .as_ref()
                .map(|url| endpoint("--starting-catalog", url))
                .transpose()?,
            wait: args.catalog_wait.0,
        };
        let front = FrontConfig::of(&args, catalog.ready.uri())?;
        let router: Option<RouterUrl> = args.router.map(|url| url.parse()).transpose()?;
        let uses_tls = args.tls.tls_dir.is_some();
        let check = |flag, url: &Uri| {
            tls::check_scheme(url, uses_tls).map_err(|source| ConfigError::Scheme { flag, source })
        };
        check("--catalog", catalog.ready.uri())?;
        let starting = catalog.starting.as_ref();
        starting.map_or(Ok(()), |starting| check("--starting-catalog", starting.uri()))?;
        router.iter().try_for_each(|router| check("--router", &router.0))?;
        Ok(Self {
            name: args.name,
            listen,
            catalog,
            router,
            pool: PoolConfig {
                isolates: args.isolates_per_shard,
                spares: args.spare_isolates,
                idle_timeout: args.isolate_idle_timeout.0,
                code_cache_dir: args.code_cache_dir,
            },
            admission: AdmissionConfig {
                max_inflight: args.max_inflight,
                max_waiting: args.max_waiting,
            },
            memory: MemoryConfig {
                budget: args.memory_budget.map(|mib| mib.saturating_mul(MIB)),
                response_cache: args.response_cache.saturating_mul(MIB),
                ..MemoryConfig::default()
            },
            egress: EgressConfig {
                allow: args.egress_allow,
                deny: args.egress_deny,
                ca_files: args.egress_ca_file,
                proxy,
            },
            drain: DrainConfig { grace: args.drain_grace.0 },
            admit_fronts: args.admit_fronts || front.is_some(),
            front,
            profile_port: args.profile_port,
            tls: None,
            inspector: None,
            exceptions: None,
        })
    }
}

impl Config {
    /// Returns a configuration with the defaults.
    ///
    /// # Arguments
    /// * `name` - name of the node, unique among all nodes.
    pub fn new(name: String, catalog: Endpoint) -> Self {
        Self {
            name,
            listen: ListenConfig::default(),
            catalog: catalog.into(),
            router: None,
            pool: PoolConfig::default(),
            admission: AdmissionConfig::default(),
            memory: MemoryConfig::default(),
            egress: EgressConfig::default(),
            drain: DrainConfig::default(),
            front: None,
            admit_fronts: false,
            profile_port: None,
            tls: None,
            inspector: None,
            exceptions: None,
        }
    }

    /// Returns the configuration of one shard or lane that is a process of its own, with its part
    /// of the node's resources.
    #[must_use]
    pub fn for_one_process(self) -> Self {
        let processes = self.listen.shards.saturating_add(self.listen.lanes).max(1);
        let memory = MemoryConfig {
            processes,
            budget: self.memory.budget.map(|budget| budget / u64::from(processes)),
            response_cache: self.memory.response_cache / u64::from(processes),
            ..self.memory
        };
        let shards = self.listen.shards;
        let front = self.front.map(|front| front.for_one_of(shards));
        Self { memory, front, ..self }
    }
}

impl ListenConfig {
    /// Returns the address of a shard or lane.
    pub fn address(&self, id: ShardId) -> SocketAddr {
        let above = if id.is_lane() { self.shards + id.position() } else { id.position() };
        let port = if self.shard_port == 0 { 0 } else { self.shard_port + above };
        SocketAddr::new(self.ip, port)
    }

    /// Returns every shard, then every lane, with its address.
    pub fn addresses(&self) -> impl Iterator<Item = (ShardId, SocketAddr)> {
        let ids = (0..self.shards).map(ShardId).chain((0..self.lanes).map(ShardId::lane));
        ids.map(|id| (id, self.address(id)))
    }
}

impl MemoryConfig {
    /// Returns the part of a budget that belongs to this process.
    ///
    /// # Arguments
    /// * `budget` - the node's budget, or this process's own budget if one was configured, in
    ///   bytes.
    pub fn share(&self, budget: u64) -> u64 {
        if self.budget.is_some() { budget } else { budget / u64::from(self.processes) }
    }
}

/// Maximum number of shards, which exceeds the number of cores of any machine. Shard ids would
/// allow more.
const MAX_SHARDS: u16 = 1024;

fn listen(args: &NodeArgs) -> Result<ListenConfig, ConfigError> {
    let shards = args.shard_count();
    if shards > MAX_SHARDS {
        return Err(ConfigError::Shards(shards));
    }
    let (port, lanes) = (args.shard_port, args.lanes.unwrap_or(shards));
    if port != 0 && port.checked_add(shards + lanes - 1).is_none() {
        return Err(ConfigError::Ports { port, shards, lanes });
    }
    Ok(ListenConfig {
        ip: args.listen_ip,
        shard_port: port,
        shards,
        lanes,
        pin: !args.no_pin && may_pin(shards),
    })
}

fn proxy(args: &NodeArgs) -> Result<Option<Proxy>, ConfigError> {
    let [url, user_name, password] =
        [&args.egress_proxy, &args.egress_proxy_username, &args.egress_proxy_password].map(
            |withheld| {
                // Templates often express "not set" as an empty variable.
                withheld
                    .as_ref()
                    .map(|Withheld(text)| text.as_str())
                    .filter(|text| !text.is_empty())
            },
        );
    let Some(url) = url else {
        let without_proxy = |flag| Err(ConfigError::NoProxy(flag));
        return match (user_name, password, args.egress_proxy_resolver) {
            (Some(_), ..) => without_proxy("--egress-proxy-username"),
            (_, Some(_), _) => without_proxy("--egress-proxy-password"),
            (.., Resolver::Proxy) => without_proxy("--egress-proxy-resolver"),
            _ => Ok(None),
        };
    };
    let proxy = url.parse::<Proxy>()?.with_resolver(args.egress_proxy_resolver);
    Ok(Some(match (user_name, password) {
        (None, None) => proxy,
        (user_name, password) => proxy.with_credentials(
            user_name.unwrap_or_default().as_bytes(),
            password.unwrap_or_default().as_bytes(),
        )?,
    }))
}

/// Returns the number of CPUs that the process may use: most containers have a CPU quota below the
/// machine's number of CPUs.
fn cpus() -> u16 {
    std::thread::available_parallelism()
        .ok()
        .and_then(|cpus| u16::try_from(cpus.get()).ok())
        .unwrap_or(1)
}

/// Returns whether shards may be pinned: only if every CPU that the process may run on gets a
/// shard. With fewer shards than CPUs, every node on a machine would pin its shards to the same
/// CPUs; with more, two shards on a CPU would starve each other.
fn may_pin(shards: u16) -> bool {
    core_affinity::get_core_ids().is_some_and(|cores| cores.len() == usize::from(shards))
}

#[cfg(test)]
mod tests;
