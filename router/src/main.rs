//! `tenon-router`: Args ─► Config ─► Router ─► drain.

use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser;
use http::Uri;
use tenon_lifecycle::admin::{self, AdminArgs};
use tenon_lifecycle::drain;
use tenon_lifecycle::log::{self, LogArgs};
use tenon_lifecycle::process;
use tenon_lifecycle::readiness::Readiness;
use tenon_lifecycle::tls::{self, Role, Tls, TlsArgs};
use tenon_router::{Config, Pace, Router, descriptors, memory};

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

    /// Where clients come.
    #[arg(long, env = "TENON_LISTEN", default_value = "0.0.0.0:8080")]
    listen: SocketAddr,

    /// Where nodes and the operator come. Without --tls-dir whoever can reach it can call any Worker: keep it inside.
    #[arg(long, env = "TENON_INNER_LISTEN", default_value = "0.0.0.0:8081")]
    inner_listen: SocketAddr,

    /// The operator's catalog: http://HOST:PORT, or https:// with --tls-dir.
    #[arg(long, env = "TENON_CATALOG", value_name = "URL")]
    catalog: Uri,

    /// Threads that serve; as many as there are cores unless said otherwise.
    #[arg(long, env = "TENON_THREADS")]
    threads: Option<NonZeroUsize>,

    /// Log every request.
    #[arg(long, env = "TENON_ACCESS_LOG")]
    access_log: bool,

    /// Tell in every response which node served it.
    #[arg(long, env = "TENON_DEBUG_HEADERS")]
    debug_headers: bool,

    /// What clients may take of the router's memory, in MiB: their connections, heads, and bodies that wait. By default half of
    /// the container's limit, or of the machine's memory.
    #[arg(long, env = "TENON_CLIENT_MEMORY", value_name = "MIB")]
    client_memory: Option<u32>,

    /// How many seconds a client may send nothing of a request's body, before it is answered with 408.
    #[arg(long, env = "TENON_BODY_GRACE", value_name = "SECONDS", default_value_t = Pace::default().grace.as_secs_f64())]
    body_grace: f64,

    /// How many bytes of a body a client is to send a second, in the long run.
    #[arg(long, env = "TENON_BODY_RATE", value_name = "BYTES", default_value_t = Pace::default().rate)]
    body_rate: NonZeroU32,

    /// How many seconds new connections are taken after SIGTERM, until all have heard that this router leaves.
    #[arg(long, env = "TENON_DRAIN_LINGER", value_name = "SECONDS", default_value_t = 5.0)]
    drain_linger: f64,

    /// How many seconds WebSockets may go on from then, before they are closed with code 1001.
    #[arg(long, env = "TENON_TUNNEL_GRACE", value_name = "SECONDS", default_value_t = 15.0)]
    tunnel_grace: f64,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let log = log::init(&args.log);
    let (registry, readiness) = (prometheus::Registry::new(), Readiness::new());
    log.register(&registry)?;
    process::register(&registry, "tenon-router")?;
    let config = config(&args, args.tls.open(Role::Router, &registry)?)?;
    let (signal, watch) = drain::channel();
    let router = Router::spawn(config, watch, &registry, &readiness)?;
    let listen = args.admin.admin_listen;
    let _admin = admin::spawn(listen, registry, readiness).with_context(|| format!("cannot listen on {listen}"))?;

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        drain::termination().await;
        signal.drain().await;
    });
    router.join();
    Ok(())
}

fn config(args: &Args, tls: Option<Tls>) -> anyhow::Result<Config> {
    tls::check_scheme(&args.catalog, tls.is_some()).context("--catalog")?;
    let threads = args.threads.map_or_else(std::thread::available_parallelism, Ok)?;
    let name = std::env::var("HOSTNAME").unwrap_or_else(|_| "local".into());
    Ok(Config {
        name: format!("router/{name}"),
        listen: args.listen,
        internal_listen: args.inner_listen,
        catalog: args.catalog.clone(),
        tls,
        threads,
        access_log: args.access_log,
        debug_headers: args.debug_headers,
        client_memory: args
            .client_memory
            .map_or_else(|| memory::for_clients(Path::new("/")), |mib| u64::from(mib) << 20),
        client_connections: descriptors::for_clients(),
        pace: Pace {
            grace: Duration::try_from_secs_f64(args.body_grace).context("--body-grace is to be seconds")?,
            rate: args.body_rate,
        },
        tunnel_grace: Duration::try_from_secs_f64(args.tunnel_grace).context("--tunnel-grace is to be seconds")?,
        drain_linger: Duration::try_from_secs_f64(args.drain_linger).context("--drain-linger is to be seconds")?,
    })
}
