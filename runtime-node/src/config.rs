//! What a node is told: raw as [`NodeArgs`], checked as [`Config`].

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use clap::Args as ClapArgs;
use tonic::transport::Endpoint;

/// The command line and environment.
#[derive(ClapArgs, Clone, Debug)]
pub struct NodeArgs {
    /// Name of this node, unique among all: the Pod's.
    #[arg(long, env = "TENON_NAME", default_value_t = hostname())]
    pub name: String,
    /// Address to listen on.
    #[arg(long, env = "TENON_LISTEN_IP", default_value = "0.0.0.0")]
    pub listen_ip: IpAddr,
    /// Port of shard 0; shard i listens i ports above it. 0 lets the system choose each.
    #[arg(long, env = "TENON_SHARD_PORT", default_value_t = 7100)]
    pub shard_port: u16,
    /// Pinned threads. By default one for each CPU.
    #[arg(long, env = "TENON_SHARDS")]
    pub shards: Option<u16>,
    /// URL of the operator's catalog.
    #[arg(long, env = "TENON_CATALOG")]
    pub catalog: String,
    /// Isolates that a shard keeps.
    #[arg(long, env = "TENON_ISOLATES_PER_SHARD", default_value_t = 200)]
    pub isolates_per_shard: usize,
    /// Invocations at once on a shard, over which it sheds.
    #[arg(long, env = "TENON_MAX_INFLIGHT", default_value_t = 1024)]
    pub max_inflight: u32,
    /// Let the system place the shards' threads instead of pinning each to a CPU.
    #[arg(long, env = "TENON_NO_PIN")]
    pub no_pin: bool,
    /// How long invocations may go on after the node was asked to end, in seconds.
    #[arg(long, env = "TENON_DRAIN_GRACE", default_value = "30s", value_parser = parse_seconds)]
    pub drain_grace: Duration,
}

/// A node's configuration, checked.
#[derive(Clone, Debug)]
pub struct Config {
    pub name: String,
    pub listen_ip: IpAddr,
    pub shard_port: u16,
    pub shards: u16,
    pub catalog: Endpoint,
    pub isolates_per_shard: usize,
    pub max_inflight: u32,
    pub pin: bool,
    pub drain_grace: Duration,
}

/// An argument that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("--catalog {url:?} is not a URL such as http://tenon-operator:7070: {source}")]
    Catalog { url: String, source: tonic::transport::Error },
    #[error("--shards must be at least 1")]
    NoShards,
    #[error("--shard-port {port} leaves no room for {shards} shards: the last port is 65535")]
    Ports { port: u16, shards: u16 },
}

impl TryFrom<NodeArgs> for Config {
    type Error = ConfigError;

    fn try_from(args: NodeArgs) -> Result<Self, ConfigError> {
        let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
        let shards = args.shards.unwrap_or(u16::try_from(cpus).unwrap_or(u16::MAX));
        if shards == 0 {
            return Err(ConfigError::NoShards);
        }
        if args.shard_port != 0 && args.shard_port.checked_add(shards - 1).is_none() {
            return Err(ConfigError::Ports { port: args.shard_port, shards });
        }
        let catalog = Endpoint::from_shared(args.catalog.clone())
            .map_err(|source| ConfigError::Catalog { url: args.catalog, source })?;
        Ok(Self {
            name: args.name,
            listen_ip: args.listen_ip,
            shard_port: args.shard_port,
            shards,
            catalog,
            isolates_per_shard: args.isolates_per_shard,
            max_inflight: args.max_inflight,
            // Two threads pinned to one CPU would starve each other.
            pin: !args.no_pin && usize::from(shards) <= cpus,
            drain_grace: args.drain_grace,
        })
    }
}

impl Config {
    /// Where shard `i` listens.
    pub fn shard_address(&self, i: u16) -> SocketAddr {
        let port = if self.shard_port == 0 { 0 } else { self.shard_port + i };
        SocketAddr::new(self.listen_ip, port)
    }
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
        let config = config(&["--shards", "3", "--shard-port", "7100"]).unwrap();
        assert_eq!(config.shard_address(2).port(), 7102);
    }

    #[test]
    fn what_cannot_work_is_named() {
        assert!(matches!(config(&["--shards", "0"]), Err(ConfigError::NoShards)));
        assert!(matches!(config(&["--shards", "2", "--shard-port", "65535"]), Err(ConfigError::Ports { .. })));
        assert!(matches!(config(&["--catalog", "no url at all"]), Err(ConfigError::Catalog { .. })));
    }

    #[test]
    fn more_shards_than_cpus_are_not_pinned() {
        assert!(!config(&["--shards", "4096"]).unwrap().pin);
    }
}
