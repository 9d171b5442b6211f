//! Runs a node: `Args` → `Config` → a supervisor and its processes → drain.
//!
//! The supervisor starts the same program, with `--child`, as the process of each shard and lane.

use anyhow::Context;
use clap::Parser;
use prometheus::Registry;
use tenon_lifecycle::admin::{self, AdminArgs};
use tenon_lifecycle::drain;
use tenon_lifecycle::log::{self, LogArgs};
use tenon_lifecycle::process;
use tenon_lifecycle::readiness::Readiness;
use tenon_lifecycle::tls::Role;
use tenon_proto::id::ShardId;
use tenon_runtime_node::child::{self, ClientListeners};
use tenon_runtime_node::config::{Config, NodeArgs};
use tenon_runtime_node::node::Node;
use tenon_runtime_node::supervisor::{Program, Supervisor};

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
    /// Shard or lane that this process runs. Set by its supervisor.
    #[arg(long, hide = true)]
    child: Option<ShardId>,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    match args.child {
        Some(id) => run_child(id, args),
        None => supervise(args),
    }
}

fn supervise(args: Args) -> anyhow::Result<()> {
    let log = log::init(&args.log);
    let registry = Registry::new();
    log.register(&registry)?;
    process::register(&registry, "tenon-runtime-node")?;
    let tls = args.node.tls.open(Role::RuntimeNode, &registry)?;
    let config = Config { tls, ..Config::try_from(args.node)? };

    let readiness = Readiness::new();
    let (signal, watch) = drain::channel();
    let program = Program::current().context("cannot find the path of this program")?;
    let node = Supervisor::spawn(config, program, watch, &registry, &readiness)?;
    let cannot_listen = format!(
        "cannot listen on {}; free the port or set --admin-listen",
        args.admin.admin_listen
    );
    let _admin = admin::spawn(args.admin.admin_listen, node.exposition(), readiness.clone())
        .context(cannot_listen)?;
    let addresses: Vec<_> =
        node.addresses().iter().map(|(id, address)| format!("{id} on {address}")).collect();
    let (name, clients) = (node.name(), node.clients());
    tracing::info!(node = name, shards = addresses.join(", "), ?clients, "serving");

    runtime()?.block_on(async {
        drain::termination().await;
        // The hold is never released: a node that drains does not become ready again.
        let _draining = readiness.hold("drain");
        signal.drain().await;
    });
    node.join();
    tracing::info!("drained");
    Ok(())
}

/// Runs this program as the process of a shard or lane.
fn run_child(id: ShardId, args: Args) -> anyhow::Result<()> {
    let clients = ClientListeners::of(&args.node, id);
    let inherited = child::inherit(id, clients, args.node.shard_count())?;
    child::set_up_process(id);
    // V8 is initialized before any thread starts: on processors with protection keys, a thread that
    // is older than V8 cannot run JavaScript.
    tenon_engine::init();
    let log = log::init(&args.log);
    let registry = Registry::new();
    log.register(&registry)?;
    process::register(&registry, "tenon-runtime-node")?;
    let tls = args.node.tls.open(Role::RuntimeNode, &registry)?;
    // Only a process that serves clients over TLS reads the keys of the certificates for clients.
    let https = match clients {
        ClientListeners::PlainAndTls => args.node.clients.https(&registry),
        ClientListeners::Plain | ClientListeners::None => Ok(None),
    };
    let https = https.context("--https-certificates")?;
    let mut config = Config { tls, ..Config::try_from(args.node)? };
    if let Some(front) = &mut config.front {
        front.router.https = https;
    }

    let (signal, watch) = drain::channel();
    let (child, drain_rx) = inherited.connect(registry.clone())?;
    let node = Node::spawn_child(config, child, watch, &registry, &Readiness::new())?;
    runtime()?.block_on(async {
        // Signals sent to every process of a Pod are ignored here: the supervisor handles them and
        // orders this process to drain.
        let ignore_signals = async {
            loop {
                drain::termination().await;
            }
        };
        tokio::select! {
            // An error means that the control thread has ended; the process is about to end too.
            _ = drain_rx => {}
            () = ignore_signals => {}
        }
        signal.drain().await;
    });
    node.join();
    Ok(())
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}
