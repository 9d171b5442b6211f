//! Runs a node: `Args` → `Config` → shards → drain.

use anyhow::Context;
use clap::Parser;
use prometheus::Registry;
use tenon_lifecycle::admin::{self, AdminArgs};
use tenon_lifecycle::drain;
use tenon_lifecycle::log::{self, LogArgs};
use tenon_lifecycle::process;
use tenon_lifecycle::readiness::Readiness;
use tenon_lifecycle::tls::Role;
use tenon_runtime_node::config::{Config, NodeArgs};
use tenon_runtime_node::engine;
use tenon_runtime_node::node::Node;

/// Runs Workers in V8 isolates on pinned threads.
#[derive(Parser)]
#[command(name = "tenon-runtime-node", version)]
struct Args {
    #[command(flatten)]
    node: NodeArgs,
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    log: LogArgs,
}

fn main() -> anyhow::Result<()> {
    // V8 first: on processors with protection keys, a thread that is older than V8 cannot run JavaScript.
    engine::init();
    let args = Args::parse();
    let log = log::init(&args.log);
    let registry = Registry::new();
    log.register(&registry)?;
    process::register(&registry, "tenon-runtime-node")?;
    let tls = args.node.tls.open(Role::RuntimeNode, &registry)?;
    let config = Config { tls, ..Config::try_from(args.node)? };

    let readiness = Readiness::new();
    let (signal, watch) = drain::channel();
    let node = Node::spawn(config, watch, &registry, &readiness)?;
    let listening = format!("cannot listen on {}; free the port or set --admin-listen", args.admin.admin_listen);
    let _admin = admin::spawn(args.admin.admin_listen, registry, readiness.clone()).context(listening)?;
    tracing::info!(node = node.name(), shards = ?node.addresses(), "serving");

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        drain::termination().await;
        // Held for good: a node that drains is not ready again.
        let _draining = readiness.hold("drain");
        signal.drain().await;
    });
    node.join();
    tracing::info!("drained");
    Ok(())
}
