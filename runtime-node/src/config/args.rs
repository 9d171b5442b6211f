//! A node's command line and environment, before validation. The defaults are those of the
//! configuration.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args as ClapArgs;
use ipnet::IpNet;
use tenon_egress::Resolver;
use tenon_lifecycle::tls::TlsArgs;
use tenon_router::FrontArgs;

use super::{
    AdmissionConfig, CatalogConfig, DrainConfig, ListenConfig, MIB, MemoryConfig, PoolConfig, cpus,
};

/// The command line and environment.
#[derive(ClapArgs, Clone, Debug)]
pub struct NodeArgs {
    /// Name of this node, unique among all nodes, such as the name of its Pod.
    #[arg(long, env = "TENON_NAME", default_value_t = hostname())]
    pub name: String,
    /// IP address to listen on.
    #[arg(long, env = "TENON_LISTEN_IP", default_value_t = ListenConfig::default().ip)]
    pub listen_ip: IpAddr,
    /// Port of shard 0; shard i listens i ports above it. With 0 the system chooses each port.
    #[arg(long, env = "TENON_SHARD_PORT", default_value_t = ListenConfig::default().shard_port)]
    pub shard_port: u16,
    /// Number of shards, each a thread that runs Workers. By default one for each CPU.
    #[arg(long, env = "TENON_SHARDS", value_parser = at_least_one::<u16>)]
    pub shards: Option<u16>,
    /// Number of lanes: shards that the kernel schedules last. They run Workers that are not known
    /// yet or are heavy, so that other Workers do not wait for them. Lane i listens i + 1 ports
    /// above the last shard. By default as many as shards.
    #[arg(long, env = "TENON_LANES", value_parser = clap::value_parser!(u16).range(0..=1024))]
    pub lanes: Option<u16>,
    /// URL of the operator's catalog: http://HOST:PORT, or https:// with --tls-dir.
    #[arg(long, env = "TENON_CATALOG")]
    pub catalog: String,
    /// URL at which all operators serve the catalog, including those that are not ready. Cold starts
    /// use it while no operator is ready.
    #[arg(long, env = "TENON_STARTING_CATALOG")]
    pub starting_catalog: Option<String>,
    /// Maximum time for which a cold start waits for an operator that answers, in seconds. Requests
    /// that wait for the start end at their own limits.
    #[arg(long, env = "TENON_CATALOG_WAIT", default_value_t = Seconds(CatalogConfig::WAIT))]
    pub catalog_wait: Seconds,
    /// URL of the routers' internal listener, through which Workers call one another. Without it, a
    /// Worker reaches only Workers on its own shard.
    #[arg(long, env = "TENON_ROUTER")]
    pub router: Option<String>,
    /// Maximum number of isolates of a shard. One namespace may have half of them, or seven eighths
    /// while no other namespace has requests.
    #[arg(long, env = "TENON_ISOLATES_PER_SHARD", default_value_t = PoolConfig::default().isolates, value_parser = at_least_one::<usize>)]
    pub isolates_per_shard: usize,
    /// Maximum number of spare isolates that a shard makes ahead of demand.
    #[arg(long, env = "TENON_SPARE_ISOLATES", default_value_t = PoolConfig::default().spares)]
    pub spare_isolates: usize,
    /// Directory for revisions without secrets and for compiled code, so that they outlive the
    /// process; no other program may write there. By default they are kept in memory only.
    #[arg(long, env = "TENON_CODE_CACHE_DIR")]
    pub code_cache_dir: Option<PathBuf>,
    /// Maximum number of concurrent invocations on a shard; further ones queue. One namespace may
    /// have half of them, or seven eighths while no other namespace has requests.
    #[arg(long, env = "TENON_MAX_INFLIGHT", default_value_t = AdmissionConfig::default().max_inflight, value_parser = at_least_one::<u32>)]
    pub max_inflight: u32,
    /// Maximum length of each queue: for a permit of the shard, of a namespace or of a Worker, and
    /// for the start of a Worker. Further invocations are shed.
    #[arg(long, env = "TENON_MAX_WAITING", default_value_t = AdmissionConfig::default().max_waiting)]
    pub max_waiting: usize,
    /// Time after which an idle isolate is evicted, in seconds.
    #[arg(long, env = "TENON_ISOLATE_IDLE_TIMEOUT", default_value_t = Seconds(PoolConfig::default().idle_timeout))]
    pub isolate_idle_timeout: Seconds,
    /// Memory that the node may use, in MiB. By default its container's limit, or else the
    /// machine's memory.
    #[arg(long, env = "TENON_MEMORY_BUDGET", value_parser = at_least_one::<u64>)]
    pub memory_budget: Option<u64>,
    /// Networks that Workers may reach although they are not public, such as 10.20.0.0/16.
    /// Otherwise this machine, the cluster and private networks are refused. A cloud's metadata
    /// service must be listed as a single address, and loopback addresses by a network that has no
    /// others.
    #[arg(long, env = "TENON_EGRESS_ALLOW", value_delimiter = ',', value_name = "CIDR")]
    pub egress_allow: Vec<IpNet>,
    /// Networks that Workers may not reach although they are public, such as a cluster's own.
    /// Overrides --egress-allow.
    #[arg(long, env = "TENON_EGRESS_DENY", value_delimiter = ',', value_name = "CIDR")]
    pub egress_deny: Vec<IpNet>,
    /// PEM files with certificates that Workers' connections trust in addition to the system's.
    #[arg(long, env = "TENON_EGRESS_CA_FILE", value_delimiter = ',')]
    pub egress_ca_file: Vec<PathBuf>,
    /// Proxy for all connections of Workers, by CONNECT to any port:
    /// http://[user:password@]host:port, or https:// for TLS to the proxy itself. Variables such as
    /// HTTP_PROXY are ignored.
    #[arg(long, env = "TENON_EGRESS_PROXY", hide_env_values = true, value_name = "URL")]
    pub egress_proxy: Option<Withheld>,
    /// User name for the proxy, if its URL has none.
    #[arg(long, env = "TENON_EGRESS_PROXY_USERNAME", hide_env_values = true)]
    pub egress_proxy_username: Option<Withheld>,
    /// Password for the user name of the proxy.
    #[arg(long, env = "TENON_EGRESS_PROXY_PASSWORD", hide_env_values = true)]
    pub egress_proxy_password: Option<Withheld>,
    /// Side that resolves the names that Workers connect to through a proxy. With `proxy`, only the
    /// proxy can refuse names that lead to internal addresses, and must do so.
    #[arg(long, env = "TENON_EGRESS_PROXY_RESOLVER", value_enum, default_value = "node")]
    pub egress_proxy_resolver: Resolver,
    /// Memory for responses that Workers cache (`caches`), in MiB; each namespace may have half of
    /// it.
    #[arg(long, env = "TENON_RESPONSE_CACHE", default_value_t = MemoryConfig::default().response_cache / MIB)]
    pub response_cache: u64,
    /// Do not pin shards to CPUs. By default each shard has a CPU of its own if there are exactly
    /// as many CPUs as shards.
    #[arg(long, env = "TENON_NO_PIN")]
    pub no_pin: bool,
    /// Time for which invocations may continue after the node has received a termination signal, in
    /// seconds.
    #[arg(long, env = "TENON_DRAIN_GRACE", default_value_t = Seconds(DrainConfig::default().grace))]
    pub drain_grace: Seconds,
    /// Port of the loopback interface on which `tenon profile` reaches this node, through a
    /// port-forward. Without it, no profiles are taken. With 0 the system chooses the port.
    #[arg(long, env = "TENON_PROFILE_PORT")]
    pub profile_port: Option<u16>,
    /// Address on which clients connect to this node without a router. The thread of each shard
    /// then answers requests for its own Workers itself, and forwards the others as a router does.
    /// Each shard's process gets the requests of all tenants and the keys of --https-certificates,
    /// so use this only for a pool whose Workers are all trusted.
    #[arg(long, env = "TENON_FRONT", value_name = "ADDRESS")]
    pub front: Option<SocketAddr>,
    /// Accept requests from nodes with --front, which forward requests like routers. Implied by
    /// --front.
    #[arg(long, env = "TENON_ADMIT_FRONTS")]
    pub admit_fronts: bool,
    #[command(flatten)]
    pub clients: FrontArgs,
    #[command(flatten)]
    pub tls: TlsArgs,
}

impl NodeArgs {
    /// Returns the number of shards.
    pub fn shard_count(&self) -> u16 {
        self.shards.unwrap_or_else(cpus)
    }
}

/// A command-line value that must not be logged: it may contain a password.
#[derive(Clone)]
pub struct Withheld(pub(super) String);

impl From<String> for Withheld {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Withheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("withheld")
    }
}

/// A time in whole seconds, such as `30s` or `30`.
#[derive(Clone, Copy, Debug)]
pub struct Seconds(pub Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}s", self.0.as_secs())
    }
}

impl FromStr for Seconds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let seconds = text.strip_suffix('s').unwrap_or(text).parse();
        let seconds =
            seconds.map_err(|_| format!("{text:?} is not a number of seconds, such as 30s"))?;
        Ok(Self(Duration::from_secs(seconds)))
    }
}

fn at_least_one<T: FromStr + PartialOrd + From<u8>>(text: &str) -> Result<T, String> {
    text.parse()
        .ok()
        .filter(|number| *number >= T::from(1))
        .ok_or_else(|| format!("{text:?} is not a positive integer"))
}

fn hostname() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or_else(|_| "node".to_owned(), |name| name.trim().to_owned())
}
