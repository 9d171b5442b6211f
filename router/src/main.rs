//! The process `tenon-router`: Args ─► Config ─► Router ─► drain.

use std::net::SocketAddr;
use std::num::NonZeroUsize;

use anyhow::Context as _;
use clap::Parser;
use http::Uri;
use prometheus::Registry;
use tenon_lifecycle::admin::{self, AdminArgs};
use tenon_lifecycle::drain;
use tenon_lifecycle::log::{self, LogArgs};
use tenon_lifecycle::process;
use tenon_lifecycle::readiness::Readiness;
use tenon_lifecycle::tls::{self, Role, TlsArgs};
use tenon_router::{CERTIFICATES, Config, FrontArgs, Router, descriptors};

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
    front: FrontArgs,

    /// Address on which clients connect.
    #[arg(long, env = "TENON_LISTEN", default_value = "0.0.0.0:8080")]
    listen: SocketAddr,

    /// Speak HTTP/3 on the address of --https-listen, over UDP. Responses over TLS tell clients to
    /// use HTTP/3 on this port, which is 443 unless a load balancer publishes another one.
    #[arg(long, env = "TENON_HTTP3", value_name = "PORT", requires = CERTIFICATES)]
    http3: Option<u16>,

    /// Address on which nodes and the operator connect. Without --tls-dir, any process that can
    /// reach this address can call any Worker, so keep the address inside the cluster.
    #[arg(long, env = "TENON_INTERNAL_LISTEN", default_value = "0.0.0.0:8081")]
    internal_listen: SocketAddr,

    /// URL of the operator's catalog: http://HOST:PORT, or https:// with --tls-dir.
    #[arg(long, env = "TENON_CATALOG", value_name = "URL")]
    catalog: Uri,

    /// Number of serving threads. Defaults to the number of CPUs.
    #[arg(long, env = "TENON_THREADS")]
    threads: Option<NonZeroUsize>,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let log = log::init(&args.log);
    let (registry, readiness) = (Registry::new(), Readiness::new());
    log.register(&registry)?;
    process::register(&registry, "tenon-router")?;
    let config = config(&args, &registry)?;
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

fn config(args: &Args, registry: &Registry) -> anyhow::Result<Config> {
    let https = args.front.https(registry).context("the certificates for clients")?;
    let tls = args.tls.open(Role::Router, registry)?;
    tls::check_scheme(&args.catalog, tls.is_some()).context("--catalog")?;
    let threads = args.threads.map_or_else(std::thread::available_parallelism, Ok)?;
    let name = std::env::var("HOSTNAME").unwrap_or_else(|_| "local".into());
    let config = Config {
        https,
        http3: args.http3,
        internal_listen: Some(args.internal_listen),
        tls,
        threads,
        client_connections: descriptors::for_clients(),
        ..Config::new(format!("router/{name}"), args.listen, args.catalog.clone())
    };
    Ok(args.front.configure(config, "tenon-router", &name)?)
}
