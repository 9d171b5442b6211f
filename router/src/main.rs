//! The process `tenon-router`: Args ─► Config ─► Router ─► drain.

use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::{ArgAction, Parser};
use http::{HeaderValue, Uri};
use ipnet::IpNet;
use prometheus::Registry;
use tenon_lifecycle::admin::{self, AdminArgs};
use tenon_lifecycle::drain;
use tenon_lifecycle::log::{self, LogArgs};
use tenon_lifecycle::process;
use tenon_lifecycle::readiness::Readiness;
use tenon_lifecycle::tls::{self, Role, Tls, TlsArgs};
use tenon_router::{
    Config, Https, HttpsSettings, IDLE_TIMEOUT, Pace, Router, SitesConfig, SpanArgs,
    TrustedProxies, descriptors, memory,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Terminates HTTP and forwards each request to its Worker's shard.
#[derive(Debug, Parser)]
#[command(name = "tenon-router", version)]
struct Args {
    #[command(flatten)]
    log: LogArgs,

    #[command(flatten)]
    admin: AdminArgs,

    #[command(flatten)]
    tls: TlsArgs,

    #[command(flatten)]
    spans: SpanArgs,

    /// Address on which clients connect.
    #[arg(long, env = "TENON_LISTEN", default_value = "0.0.0.0:8080")]
    listen: SocketAddr,

    /// Address on which clients connect with TLS, if --https-certificates is set.
    #[arg(long, env = "TENON_HTTPS_LISTEN", default_value = "0.0.0.0:8443")]
    https_listen: SocketAddr,

    /// Directory with a folder for each HTTPS certificate: tls.crt and tls.key, in PEM and reloaded
    /// when they change. A client gets the certificate for the host that it requests, or that of
    /// the first folder.
    #[arg(long, env = "TENON_HTTPS_CERTIFICATES", value_name = "DIR")]
    https_certificates: Option<PathBuf>,

    /// Redirect requests without TLS to https on this port, which is 443 unless a load balancer
    /// publishes another one. Challenges of certificate authorities are served without TLS.
    #[arg(
        long,
        env = "TENON_HTTPS_REDIRECT",
        value_name = "PORT",
        requires = "https_certificates"
    )]
    https_redirect: Option<u16>,

    /// Header Strict-Transport-Security of responses over TLS to which the Worker adds none, such
    /// as "max-age=31536000; includeSubDomains".
    #[arg(long, env = "TENON_HSTS", value_name = "VALUE", requires = "https_certificates")]
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
    #[arg(long, env = "TENON_ASSETS_CACHE_MIB", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(32..))]
    assets_cache_mib: u32,

    /// Address on which nodes and the operator connect. Without --tls-dir, any process that can
    /// reach this address can call any Worker, so keep the address inside the cluster.
    #[arg(long, env = "TENON_INNER_LISTEN", default_value = "0.0.0.0:8081")]
    inner_listen: SocketAddr,

    /// URL of the operator's catalog: http://HOST:PORT, or https:// with --tls-dir.
    #[arg(long, env = "TENON_CATALOG", value_name = "URL")]
    catalog: Uri,

    /// Number of serving threads. Defaults to the number of CPUs.
    #[arg(long, env = "TENON_THREADS")]
    threads: Option<NonZeroUsize>,

    /// Log every request.
    #[arg(long, env = "TENON_ACCESS_LOG")]
    access_log: bool,

    /// Add the request id, the Worker, the node and the shard to every response as headers.
    #[arg(long, env = "TENON_DEBUG_HEADERS")]
    debug_headers: bool,

    /// Compress responses with zstd, gzip or brotli for clients that accept it, if their content is
    /// text and the Worker has not encoded it. A Worker opts out with "Cache-Control: no-transform"
    /// or "Content-Encoding: identity".
    #[arg(long, env = "TENON_COMPRESSION", value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    compression: bool,

    /// Memory that clients may occupy, in MiB: connections, request heads and bodies in transit.
    /// Defaults to half of the container's limit, or of the machine's memory.
    #[arg(long, env = "TENON_CLIENT_MEMORY", value_name = "MIB")]
    client_memory: Option<u32>,

    /// Seconds after which a client's connection is closed if it is idle between two requests. Set
    /// it higher than the idle timeout of a load balancer in front of the router. When memory is
    /// short, idle connections are closed earlier. HTTP/2 connections stay for as long as their
    /// client answers pings.
    #[arg(long, env = "TENON_IDLE_TIMEOUT", value_name = "SECONDS", default_value_t = IDLE_TIMEOUT.as_secs_f64())]
    idle_timeout: f64,

    /// Seconds for which a client may pause while it sends a request's body, before the request
    /// ends with 408.
    #[arg(long, env = "TENON_BODY_GRACE", value_name = "SECONDS", default_value_t = Pace::default().grace.as_secs_f64())]
    body_grace: f64,

    /// Minimum rate, in bytes per second, at which a client must send a request's body in the long
    /// run.
    #[arg(long, env = "TENON_BODY_RATE", value_name = "BYTES", default_value_t = Pace::default().rate)]
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

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let log = log::init(&args.log);
    let (registry, readiness) = (Registry::new(), Readiness::new());
    log.register(&registry)?;
    process::register(&registry, "tenon-router")?;
    let https = https(&args, &registry)?;
    let config = config(&args, args.tls.open(Role::Router, &registry)?, https)?;
    let (signal, watch) = drain::channel();
    let router = Router::spawn(config, watch, &registry, &readiness)?;
    let listen = args.admin.admin_listen;
    let _admin = admin::spawn(listen, registry, readiness)
        .with_context(|| format!("cannot listen on {listen}"))?;

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        drain::termination().await;
        signal.drain().await;
    });
    router.join();
    Ok(())
}

fn https(args: &Args, registry: &Registry) -> anyhow::Result<Option<Https>> {
    let Some(directory) = args.https_certificates.clone() else { return Ok(None) };
    let settings = HttpsSettings { redirect: args.https_redirect, hsts: args.hsts.clone() };
    Ok(Some(Https::open(directory, settings, registry).context("--https-certificates")?))
}

fn config(args: &Args, tls: Option<Tls>, https: Option<Https>) -> anyhow::Result<Config> {
    tls::check_scheme(&args.catalog, tls.is_some()).context("--catalog")?;
    let threads = args.threads.map_or_else(std::thread::available_parallelism, Ok)?;
    let name = std::env::var("HOSTNAME").unwrap_or_else(|_| "local".into());
    Ok(Config {
        name: format!("router/{name}"),
        listen: args.listen,
        trusted_proxies: TrustedProxies::new(args.trusted_proxies.iter().copied())
            .with_proxy_protocol(args.proxy_protocol),
        https: https.map(|https| (args.https_listen, https)),
        internal_listen: args.inner_listen,
        catalog: args.catalog.clone(),
        tls,
        threads,
        access_log: args.access_log,
        debug_headers: args.debug_headers,
        compression: args.compression,
        spans: args.spans.config("tenon-router", &name)?,
        client_memory: args
            .client_memory
            .map_or_else(|| memory::for_clients(Path::new("/")), |mib| u64::from(mib) << 20),
        client_connections: descriptors::for_clients(),
        idle_timeout: Duration::try_from_secs_f64(args.idle_timeout)
            .context("--idle-timeout is not a valid number of seconds")?,
        pace: Pace {
            grace: Duration::try_from_secs_f64(args.body_grace)
                .context("--body-grace is not a valid number of seconds")?,
            rate: args.body_rate,
        },
        shards_may_pause: false,
        sites: SitesConfig {
            directory: (args.assets_cache_dir.clone())
                .unwrap_or_else(|| SitesConfig::default().directory),
            capacity: (args.assets_cache_mib as usize) << 20,
        },
        tunnel_grace: Duration::try_from_secs_f64(args.tunnel_grace)
            .context("--tunnel-grace is not a valid number of seconds")?,
        drain_linger: Duration::try_from_secs_f64(args.drain_linger)
            .context("--drain-linger is not a valid number of seconds")?,
    })
}
