//! A node's configuration: raw as [`NodeArgs`], validated as [`Config`].

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args as ClapArgs;
use http::Uri;
use ipnet::IpNet;
use tenon_egress::{InvalidProxy, Proxy, Resolver};
use tenon_lifecycle::tls::{self, Tls, TlsArgs, WrongScheme};
use tenon_proto::id::ShardId;
use tonic::transport::Endpoint;

use crate::services::{InvalidRouter, RouterUrl};

/// The command line and environment.
#[derive(ClapArgs, Clone, Debug)]
pub struct NodeArgs {
    /// Name of this node, unique among all nodes, such as the Pod's.
    #[arg(long, env = "TENON_NAME", default_value_t = hostname())]
    pub name: String,
    /// IP address to listen on.
    #[arg(long, env = "TENON_LISTEN_IP", default_value = "0.0.0.0")]
    pub listen_ip: IpAddr,
    /// Port of shard 0; shard i listens i ports above it. With 0 the system chooses each port.
    #[arg(long, env = "TENON_SHARD_PORT", default_value_t = 7100)]
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
    /// URL of the routers' internal listener, through which Workers call one another. Without it, a
    /// Worker reaches only Workers on its own shard.
    #[arg(long, env = "TENON_ROUTER")]
    pub router: Option<String>,
    /// Maximum number of isolates of a shard. One namespace may have half of them, or seven eighths
    /// while no other namespace has requests.
    #[arg(long, env = "TENON_ISOLATES_PER_SHARD", default_value_t = 200, value_parser = at_least_one::<usize>)]
    pub isolates_per_shard: usize,
    /// Maximum number of spare isolates that a shard makes ahead of demand.
    #[arg(long, env = "TENON_SPARE_ISOLATES", default_value_t = 8)]
    pub spare_isolates: usize,
    /// Directory for compiled code, so that it outlives the process; no other program may write
    /// there. By default compiled code is kept in memory only.
    #[arg(long, env = "TENON_CODE_CACHE_DIR")]
    pub code_cache_dir: Option<PathBuf>,
    /// Maximum number of concurrent invocations on a shard; further ones queue. One namespace may
    /// have half of them, or seven eighths while no other namespace has requests.
    #[arg(long, env = "TENON_MAX_INFLIGHT", default_value_t = 1024, value_parser = at_least_one::<u32>)]
    pub max_inflight: u32,
    /// Maximum length of each queue: for a permit of the shard, of a namespace or of a Worker, and
    /// for the start of a Worker. Further invocations are shed.
    #[arg(long, env = "TENON_MAX_WAITING", default_value_t = 100)]
    pub max_waiting: usize,
    /// Time after which an idle isolate is evicted, in seconds.
    #[arg(long, env = "TENON_ISOLATE_IDLE_TIMEOUT", default_value = "600s", value_parser = parse_seconds)]
    pub isolate_idle_timeout: Duration,
    /// Memory that the node may use, in MiB. By default its container's limit, or else the machine's memory.
    #[arg(long, env = "TENON_MEMORY_BUDGET", value_parser = at_least_one::<u64>)]
    pub memory_budget: Option<u64>,
    /// Networks that Workers may reach although they are not public, such as 10.20.0.0/16.
    /// Otherwise this machine, the cluster and private networks are refused. A cloud's metadata
    /// service must be listed as a single address.
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
    /// Password for that user name.
    #[arg(long, env = "TENON_EGRESS_PROXY_PASSWORD", hide_env_values = true)]
    pub egress_proxy_password: Option<Withheld>,
    /// Side that resolves the names that Workers connect to through a proxy. With `proxy`, only the
    /// proxy can refuse names that lead to internal addresses, and must do so.
    #[arg(long, env = "TENON_EGRESS_PROXY_RESOLVER", value_enum, default_value = "node")]
    pub egress_proxy_resolver: Resolver,
    /// Memory for responses that Workers cache (`caches`), in MiB; each namespace may have half of
    /// it.
    #[arg(long, env = "TENON_RESPONSE_CACHE", default_value_t = 64)]
    pub response_cache: u64,
    /// Do not pin shards to CPUs. By default each shard has a CPU of its own if there are exactly
    /// as many CPUs as shards.
    #[arg(long, env = "TENON_NO_PIN")]
    pub no_pin: bool,
    /// Time for which invocations may continue after the node was asked to end, in seconds.
    #[arg(long, env = "TENON_DRAIN_GRACE", default_value = "30s", value_parser = parse_seconds)]
    pub drain_grace: Duration,
    #[command(flatten)]
    pub tls: TlsArgs,
}

/// A command-line value that must not be logged: it may contain a password.
#[derive(Clone)]
pub struct Withheld(String);

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

/// A node's validated configuration.
#[derive(Clone, Debug)]
pub struct Config {
    pub name: String,
    pub listen_ip: IpAddr,
    pub shard_port: u16,
    pub shards: u16,
    pub lanes: u16,
    /// The number of processes that share the node's resources: 1 if its shards are threads of one
    /// process.
    pub processes: u16,
    pub catalog: Endpoint,
    /// URL of the routers' internal listener.
    pub router: Option<RouterUrl>,
    pub isolates_per_shard: usize,
    pub spare_isolates: usize,
    pub code_cache_dir: Option<PathBuf>,
    pub max_inflight: u32,
    pub max_waiting: usize,
    pub isolate_idle_timeout: Duration,
    /// Memory budget, in bytes.
    pub memory_budget: Option<u64>,
    /// Root of the file system from which the kernel's memory files are read.
    pub root: PathBuf,
    pub egress_allow: Vec<IpNet>,
    pub egress_deny: Vec<IpNet>,
    pub egress_ca_files: Vec<PathBuf>,
    pub egress_proxy: Option<Proxy>,
    /// Memory for cached responses, in bytes.
    pub response_cache: u64,
    pub pin: bool,
    pub drain_grace: Duration,
    /// TLS between operator, routers and node. Not set from the arguments: the caller opens it.
    pub tls: Option<Tls>,
}

/// An argument that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("--catalog {url:?} is not a URL such as http://tenon-operator:7070: {source}")]
    Catalog { url: String, source: tonic::transport::Error },
    #[error("--router {0}")]
    Router(#[from] InvalidRouter),
    #[error("{flag} {source}")]
    Scheme { flag: &'static str, source: WrongScheme },
    #[error("--egress-proxy {0}")]
    Proxy(#[from] InvalidProxy),
    #[error("{0} requires --egress-proxy")]
    NoProxy(&'static str),
    #[error("--shard-port {port} leaves too few ports for {shards} shards and {lanes} lanes; choose a lower port")]
    Ports { port: u16, shards: u16, lanes: u16 },
    #[error("--shards {0} exceeds the maximum of 1024; run more nodes instead")]
    Shards(u16),
}

impl TryFrom<NodeArgs> for Config {
    type Error = ConfigError;

    fn try_from(args: NodeArgs) -> Result<Self, ConfigError> {
        let shards = args.shards.unwrap_or_else(cpus);
        if shards > MOST_SHARDS {
            return Err(ConfigError::Shards(shards));
        }
        let lanes = args.lanes.unwrap_or(shards);
        if args.shard_port != 0 && args.shard_port.checked_add(shards + lanes - 1).is_none() {
            return Err(ConfigError::Ports { port: args.shard_port, shards, lanes });
        }
        let egress_proxy = proxy(&args)?;
        let catalog = Endpoint::from_shared(args.catalog.clone())
            .map_err(|source| ConfigError::Catalog { url: args.catalog, source })?;
        let router: Option<RouterUrl> = args.router.map(|url| url.parse()).transpose()?;
        let uses_tls = args.tls.tls_dir.is_some();
        let check =
            |flag, url: &Uri| tls::check_scheme(url, uses_tls).map_err(|source| ConfigError::Scheme { flag, source });
        check("--catalog", catalog.uri())?;
        router.iter().try_for_each(|router| check("--router", &router.0))?;
        Ok(Self {
            router,
            name: args.name,
            listen_ip: args.listen_ip,
            shard_port: args.shard_port,
            shards,
            lanes,
            processes: 1,
            catalog,
            isolates_per_shard: args.isolates_per_shard,
            spare_isolates: args.spare_isolates,
            code_cache_dir: args.code_cache_dir,
            max_inflight: args.max_inflight,
            max_waiting: args.max_waiting,
            isolate_idle_timeout: args.isolate_idle_timeout,
            memory_budget: args.memory_budget.map(|mib| mib.saturating_mul(1 << 20)),
            root: PathBuf::from("/"),
            response_cache: args.response_cache.saturating_mul(1 << 20),
            egress_allow: args.egress_allow,
            egress_deny: args.egress_deny,
            egress_ca_files: args.egress_ca_file,
            egress_proxy,
            pin: !args.no_pin && may_pin(shards),
            drain_grace: args.drain_grace,
            tls: None,
        })
    }
}

impl Config {
    /// Returns the address of a shard or lane.
    pub fn address(&self, id: ShardId) -> SocketAddr {
        let above = if id.is_lane() { self.shards + id.position() } else { id.position() };
        let port = if self.shard_port == 0 { 0 } else { self.shard_port + above };
        SocketAddr::new(self.listen_ip, port)
    }

    /// Returns every shard, then every lane, with its address.
    pub fn seats(&self) -> impl Iterator<Item = (ShardId, SocketAddr)> {
        let ids = (0..self.shards).map(ShardId).chain((0..self.lanes).map(ShardId::lane));
        ids.map(|id| (id, self.address(id)))
    }

    /// Returns the configuration of one shard or lane that is a process of its own, with its part
    /// of the node's resources.
    #[must_use]
    pub fn of_seat(self) -> Self {
        let processes = self.shards.saturating_add(self.lanes).max(1);
        Self {
            processes,
            memory_budget: self.memory_budget.map(|budget| budget / u64::from(processes)),
            response_cache: self.response_cache / u64::from(processes),
            ..self
        }
    }

    /// Returns the part of a budget that belongs to this process.
    ///
    /// # Arguments
    /// * `budget` - the node's budget in bytes, or this process's own if it was configured.
    pub fn share(&self, budget: u64) -> u64 {
        if self.memory_budget.is_some() { budget } else { budget / u64::from(self.processes) }
    }
}

/// More than any machine has cores for; ids of shards and lanes go higher.
const MOST_SHARDS: u16 = 1024;

fn proxy(args: &NodeArgs) -> Result<Option<Proxy>, ConfigError> {
    let [url, user_name, password] = [&args.egress_proxy, &args.egress_proxy_username, &args.egress_proxy_password]
        .map(|withheld| {
            // Templates often express "not set" as an empty variable.
            withheld.as_ref().map(|Withheld(text)| text.as_str()).filter(|text| !text.is_empty())
        });
    let Some(url) = url else {
        let of_no_use = |flag| Err(ConfigError::NoProxy(flag));
        return match (user_name, password, args.egress_proxy_resolver) {
            (Some(_), ..) => of_no_use("--egress-proxy-username"),
            (_, Some(_), _) => of_no_use("--egress-proxy-password"),
            (.., Resolver::Proxy) => of_no_use("--egress-proxy-resolver"),
            _ => Ok(None),
        };
    };
    let proxy = url.parse::<Proxy>()?.with_resolver(args.egress_proxy_resolver);
    Ok(Some(match (user_name, password) {
        (None, None) => proxy,
        (user_name, password) => {
            proxy.with_credentials(user_name.unwrap_or_default().as_bytes(), password.unwrap_or_default().as_bytes())?
        }
    }))
}

/// Counts the CPUs that the process may use: most containers have a CPU quota below the machine's
/// CPUs.
fn cpus() -> u16 {
    std::thread::available_parallelism().ok().and_then(|cpus| u16::try_from(cpus.get()).ok()).unwrap_or(1)
}

/// Allows pinning only if every CPU that the process may run on gets one shard. With fewer shards
/// than CPUs, every node on a machine would pin its shards to the same CPUs; with more, two shards
/// on a CPU would starve each other.
fn may_pin(shards: u16) -> bool {
    core_affinity::get_core_ids().is_some_and(|cores| cores.len() == usize::from(shards))
}

fn at_least_one<T: FromStr + PartialOrd + From<u8>>(text: &str) -> Result<T, String> {
    text.parse()
        .ok()
        .filter(|number| *number >= T::from(1))
        .ok_or_else(|| format!("{text:?} is not a positive integer"))
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.strip_suffix('s').unwrap_or(text);
    seconds.parse().map(Duration::from_secs).map_err(|_| format!("{text:?} is not a number of seconds, such as 30s"))
}

fn hostname() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or_else(|_| "node".to_owned(), |name| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: NodeArgs,
    }

    fn config(args: &[&str]) -> Result<Config, ConfigError> {
        let catalog: &[&str] = if args.contains(&"--catalog") { &[] } else { &["--catalog", "http://operator:7070"] };
        let line = ["node"].iter().chain(catalog).chain(args);
        Command::try_parse_from(line).unwrap().args.try_into()
    }

    #[test]
    fn shards_listen_on_ports_in_a_row() {
        let config = config(&["--shards", "3", "--lanes", "2", "--shard-port", "7100"]).unwrap();
        let ports: Vec<_> = config.seats().map(|(id, address)| (id.to_string(), address.port())).collect();
        let expected = [("0", 7100), ("1", 7101), ("2", 7102), ("lane-0", 7103), ("lane-1", 7104)];
        assert_eq!(ports, expected.map(|(id, port)| (id.to_owned(), port)));
    }

    #[test]
    fn what_cannot_work_is_named() {
        assert!(matches!(config(&["--shards", "2", "--shard-port", "65535"]), Err(ConfigError::Ports { .. })));
        assert!(matches!(config(&["--catalog", "no url at all"]), Err(ConfigError::Catalog { .. })));
        assert!(matches!(config(&["--router", "tenon-router:8081"]), Err(ConfigError::Router(_))));
        for line in [&["--router", "https://tenon-router:8081"][..], &["--tls-dir", "/etc/tenon/tls"]] {
            assert!(matches!(config(line), Err(ConfigError::Scheme { .. })), "{line:?}");
        }
        let tls =
            ["--tls-dir", "/etc/tenon/tls", "--catalog", "https://operator:7070", "--router", "https://router:8081"];
        assert!(config(&tls).is_ok());
        for flag in ["--shards", "--isolates-per-shard", "--max-inflight", "--memory-budget"] {
            let refused = Command::try_parse_from(["node", "--catalog", "http://operator:7070", flag, "0"]);
            assert!(refused.err().is_some_and(|error| error.to_string().contains(flag)), "{flag} 0");
        }
    }

    #[test]
    fn the_system_chooses_each_port_if_told_to() {
        let config = config(&["--shards", "2", "--shard-port", "0"]).unwrap();
        assert_eq!((config.address(ShardId(0)).port(), config.address(ShardId::lane(1)).port()), (0, 0));
    }

    #[test]
    fn networks_are_listed_with_commas_or_one_by_one() {
        let line = [
            "--egress-allow",
            "10.0.0.0/8,fd00::/8",
            "--egress-allow",
            "192.168.0.0/16",
            "--egress-deny",
            "1.1.1.1/32",
        ];
        let config = config(&line).unwrap();
        assert_eq!((config.egress_allow.len(), config.egress_deny.len()), (3, 1));
        let refused =
            Command::try_parse_from(["node", "--catalog", "http://operator:7070", "--egress-allow", "10.0.0.1"]);
        assert!(refused.err().is_some_and(|error| error.to_string().contains("--egress-allow")));
    }

    #[test]
    fn a_proxy_may_have_its_credentials_in_its_url_or_beside_it() {
        let url = ["--egress-proxy", "http://alice:geheim@proxy.test:3128"];
        let within = config(&url).unwrap().egress_proxy.unwrap();
        let beside = ["--egress-proxy-username", "alice", "--egress-proxy-password", "geheim"];
        let line = [&["--egress-proxy", "http://proxy.test:3128"], &beside[..]].concat();
        assert_eq!(config(&line).unwrap().egress_proxy, Some(within));
        let refused = |line: &[&str]| config(line).unwrap_err().to_string();
        assert!(refused(&[&url, &beside[..]].concat()).contains("keep one"));
        assert!(refused(&beside).contains("--egress-proxy-username requires --egress-proxy"));
        assert!(refused(&["--egress-proxy-resolver", "proxy"]).contains("requires --egress-proxy"));
        assert_eq!(config(&["--egress-proxy", "", "--egress-proxy-username", ""]).unwrap().egress_proxy, None);
    }

    #[test]
    fn what_may_have_a_password_in_it_is_not_repeated() {
        let line = ["--egress-proxy", "socks5://alice:geheim@proxy.test:1080", "--egress-proxy-password", "geheim"];
        let args =
            Command::try_parse_from(["node", "--catalog", "http://operator:7070"].iter().chain(&line)).unwrap().args;
        let said = format!("{args:?} {}", Config::try_from(args.clone()).unwrap_err());
        assert!(said.contains("--egress-proxy") && !said.contains("geheim"), "{said}");
        let config = config(&["--egress-proxy", "http://alice:geheim@proxy.test:3128"]).unwrap();
        assert!(!format!("{config:?}").contains("geheim"));
    }

    #[test]
    fn a_grace_is_so_many_seconds() {
        assert_eq!(config(&["--drain-grace", "90s"]).unwrap().drain_grace, Duration::from_secs(90));
        assert_eq!(config(&["--drain-grace", "5"]).unwrap().drain_grace, Duration::from_secs(5));
    }

    #[test]
    fn threads_are_pinned_only_when_each_cpu_gets_one() {
        assert!(!config(&["--shards", "512", "--shard-port", "7100"]).unwrap().pin);
        let cpus = core_affinity::get_core_ids().map_or(0, |cores| cores.len());
        assert_eq!(may_pin(u16::try_from(cpus).unwrap()), cpus > 0);
        assert!(!config(&["--no-pin"]).unwrap().pin);
    }
}
