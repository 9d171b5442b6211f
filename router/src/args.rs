//! The arguments of a process that serves clients: a router, or a node with a front.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, ArgGroup, Args};
use http::HeaderValue;
use ipnet::IpNet;
use prometheus::Registry;
use tenon_clients::pace::Pace;
use tenon_https::{Https, HttpsError, HttpsSettings};
use tenon_spans::{SpanArgs, SpanArgsError};

use crate::front::forwarded::TrustedProxies;
use crate::router::{Config, IDLE_TIMEOUT};
use crate::sites::SitesConfig;

/// The group of the arguments that provide certificates. Other arguments require at least one of
/// the group.
pub const CERTIFICATES: &str = "certificates";

/// The arguments that describe how clients are served.
#[derive(Args, Clone, Debug)]
#[command(group = ArgGroup::new(CERTIFICATES)
    .args(["https_certificates", "https_of_gateways"])
    .multiple(true))]
pub struct FrontArgs {
    #[command(flatten)]
    spans: SpanArgs,

    /// Address on which clients connect with TLS, if --https-certificates or --https-of-gateways is
    /// set.
    #[arg(long, env = "TENON_HTTPS_LISTEN", default_value = "0.0.0.0:8443")]
    pub https_listen: SocketAddr,

    /// Directory with a folder for each HTTPS certificate: tls.crt and tls.key, in PEM and reloaded
    /// when they change. A client gets the certificate for the host that it requests, or that of
    /// the first folder.
    #[arg(long, env = "TENON_HTTPS_CERTIFICATES", value_name = "DIR")]
    https_certificates: Option<PathBuf>,

    /// Also serve TLS with the certificates of Gateways, which the operator sends to routers but
    /// not to nodes.
    #[arg(long, env = "TENON_HTTPS_OF_GATEWAYS")]
    https_of_gateways: bool,

    /// Redirect requests without TLS to https on this port, which is 443 unless a load balancer
    /// publishes another one. Challenges of certificate authorities are served without TLS.
    #[arg(long, env = "TENON_HTTPS_REDIRECT", value_name = "PORT", requires = CERTIFICATES)]
    https_redirect: Option<u16>,

    /// Header Strict-Transport-Security of responses over TLS to which the Worker adds none, such
    /// as "max-age=31536000; includeSubDomains".
    #[arg(long, env = "TENON_HSTS", value_name = "VALUE", requires = CERTIFICATES)]
    hsts: Option<HeaderValue>,

    /// Networks of proxies and load balancers, such as 10.0.0.0/8. On connections from these
    /// networks, X-Forwarded-For, -Proto and -Host are trusted, and the client's address has its
    /// own share of requests and WebSockets. On other connections, these headers are replaced, and
    /// other headers of proxies are removed.
    #[arg(long, env = "TENON_TRUSTED_PROXIES", value_delimiter = ',', value_name = "NETWORK")]
    trusted_proxies: Vec<IpNet>,

    /// Connections from --trusted-proxies begin with a header of the PROXY protocol, version 1 or
    /// 2, which names the client. A connection from there without such a header is closed.
    #[arg(long, env = "TENON_PROXY_PROTOCOL", requires = "trusted_proxies")]
    proxy_protocol: bool,

    /// Directory for static files of Workers, which no other process may use. By default, a
    /// temporary directory is used.
    #[arg(long, env = "TENON_ASSETS_CACHE_DIR", value_name = "DIRECTORY")]
    assets_cache_dir: Option<PathBuf>,

    /// Capacity of --assets-cache-dir, in MiB. When the capacity is exceeded, the least recently
    /// used files are removed; they are fetched again when they are requested.
    #[arg(
        long,
        env = "TENON_ASSETS_CACHE_MIB",
        default_value_t = 4096,
        value_parser = clap::value_parser!(u32).range(32..)
    )]
    assets_cache_mib: u32,

    /// Log every request.
    #[arg(long, env = "TENON_ACCESS_LOG")]
    access_log: bool,

    /// Add the request id, the Worker, the node and the shard to every response as headers.
    #[arg(long, env = "TENON_DEBUG_HEADERS")]
    debug_headers: bool,

    /// Compress responses with zstd, gzip or brotli for clients that accept it, if their content is
    /// text and the Worker has not encoded it. A Worker opts out with "Cache-Control: no-transform"
    /// or "Content-Encoding: identity".
    #[arg(
        long,
        env = "TENON_COMPRESSION",
        value_name = "BOOL",
        default_value_t = true,
        action = ArgAction::Set
    )]
    compression: bool,

    /// Memory that clients may occupy, in MiB: connections, request heads and bodies in transit.
    /// Defaults to half of a router's memory, or an eighth of a node's: of the container's limit,
    /// or of the machine's memory.
    #[arg(long, env = "TENON_CLIENT_MEMORY", value_name = "MIB")]
    client_memory: Option<u32>,

    /// Seconds after which a client's connection is closed if it is idle between two requests. Set
    /// it higher than the idle timeout of a load balancer in front of the router. When memory is
    /// short, idle connections are closed earlier. HTTP/2 connections stay for as long as their
    /// client answers pings.
    #[arg(
        long,
        env = "TENON_IDLE_TIMEOUT",
        value_name = "SECONDS",
        default_value_t = IDLE_TIMEOUT.as_secs_f64()
    )]
    idle_timeout: f64,

    /// Seconds for which a client may pause while it sends a request's body, before the request
    /// ends with 408.
    #[arg(
        long,
        env = "TENON_BODY_GRACE",
        value_name = "SECONDS",
        default_value_t = Pace::default().grace.as_secs_f64()
    )]
    body_grace: f64,

    /// Minimum rate, in bytes per second, at which a client must send a request's body in the long
    /// run.
    #[arg(
        long,
        env = "TENON_BODY_RATE",
        value_name = "BYTES",
        default_value_t = Pace::default().rate
    )]
    body_rate: NonZeroU32,

    /// Seconds for which new connections are still accepted after SIGTERM, so that peers can learn
    /// of the drain first.
    #[arg(long, env = "TENON_DRAIN_LINGER", value_name = "SECONDS", default_value_t = 5.0)]
    drain_linger: f64,

    /// Seconds for which WebSockets may stay open after --drain-linger, before they are closed with
    /// code 1001.
    #[arg(long, env = "TENON_TUNNEL_GRACE", value_name = "SECONDS", default_value_t = 15.0)]
    tunnel_grace: f64,
}

/// The reason why the arguments are invalid.
#[derive(Debug, thiserror::Error)]
pub enum FrontArgsError {
    #[error("{0} is not a valid number of seconds; use one such as 2.5")]
    Seconds(&'static str),
    #[error(transparent)]
    Spans(#[from] SpanArgsError),
}

impl FrontArgs {
    /// Opens the certificates for clients, if there are any.
    ///
    /// # Errors
    /// Fails as [`Https::open`] and [`Https::of_gateways`] do.
    pub fn https(&self, registry: &Registry) -> Result<Option<(SocketAddr, Https)>, HttpsError> {
        let settings = HttpsSettings { redirect: self.https_redirect, hsts: self.hsts.clone() };
        let https = match self.https_certificates.clone() {
            Some(directory) => Https::open(directory, settings, registry)?,
            None if self.https_of_gateways => Https::of_gateways(settings, registry)?,
            None => return Ok(None),
        };
        Ok(Some((self.https_listen, https)))
    }

    /// Returns whether clients can connect with TLS.
    pub fn has_https(&self) -> bool {
        self.https_certificates.is_some() || self.https_of_gateways
    }

    /// Returns the configuration with these arguments. The certificates of [`https`](Self::https)
    /// are not part of it.
    ///
    /// # Arguments
    /// * `service` - the kind of the process in spans, such as `tenon-router`.
    /// * `instance` - the name of the process in spans.
    ///
    /// # Errors
    /// Fails if an argument is invalid, or if the certificates of the collector's authorities
    /// cannot be read.
    pub fn configure(
        &self,
        config: Config,
        service: &str,
        instance: &str,
    ) -> Result<Config, FrontArgsError> {
        let seconds = |flag, seconds| {
            Duration::try_from_secs_f64(seconds).map_err(|_| FrontArgsError::Seconds(flag))
        };
        Ok(Config {
            trusted_proxies: TrustedProxies::new(self.trusted_proxies.iter().copied())
                .with_proxy_protocol(self.proxy_protocol),
            access_log: self.access_log,
            debug_headers: self.debug_headers,
            compression: self.compression,
            spans: self.spans.config(service, instance)?,
            client_memory: self
                .client_memory
                .map_or(config.client_memory, |mib| u64::from(mib) << 20),
            idle_timeout: seconds("--idle-timeout", self.idle_timeout)?,
            pace: Pace { grace: seconds("--body-grace", self.body_grace)?, rate: self.body_rate },
            sites: SitesConfig {
                directory: (self.assets_cache_dir.clone())
                    .unwrap_or_else(|| SitesConfig::default().directory),
                capacity: (self.assets_cache_mib as usize) << 20,
            },
            drain_linger: seconds("--drain-linger", self.drain_linger)?,
            tunnel_grace: seconds("--tunnel-grace", self.tunnel_grace)?,
            ..config
        })
    }
}
