//! The process `tenon-operator`: `Args` → `Config` → `Operator` → drain. The same program also
//! compiles one Worker for an operator, or probes an installation, and then exits.

use anyhow::Context;
use clap::{Parser, Subcommand};
use kube::Client;
use prometheus::Registry;
use tenon_compiler::process as compiler;
use tenon_lifecycle::admin::{self, AdminArgs};
use tenon_lifecycle::drain;
use tenon_lifecycle::log::{self, LogArgs};
use tenon_lifecycle::process;
use tenon_lifecycle::readiness::Readiness;
use tenon_operator::Operator;
use tenon_operator::config::OperatorArgs;
use tenon_operator::probe::{self, ProbeArgs};

/// Reconciles Workers, RuntimePools and HostGrants, and serves the catalog.
#[derive(Parser)]
#[command(name = "tenon-operator", version)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    operator: OperatorArgs,
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    log: LogArgs,
}

#[derive(Subcommand)]
enum Command {
    /// Check the installation: deploy a Worker, send it requests through the routers, and delete
    /// it.
    Probe(ProbeArgs),
}

fn main() -> anyhow::Result<()> {
    if std::env::args_os().nth(1).is_some_and(|argument| argument == compiler::ARGUMENT) {
        return compiler::compile_stdin().context("cannot compile");
    }
    operate()
}

#[tokio::main]
async fn operate() -> anyhow::Result<()> {
    let Args { command, operator: args, admin, log: log_args } = Args::parse();
    if let Some(Command::Probe(args)) = command {
        return Ok(probe::run(args).await?);
    }
    let log = log::init(&log_args);
    let config = args.check(&log_args)?;
    let (registry, readiness) = (Registry::new(), Readiness::new());
    log.register(&registry)?;
    process::register(&registry, "tenon-operator")?;
    let cannot_listen =
        format!("cannot listen on {}; free the port or set --admin-listen", admin.admin_listen);
    let _admin = admin::spawn(admin.admin_listen, registry.clone(), readiness.clone())
        .context(cannot_listen)?;

    let client = Client::try_default()
        .await
        .context("cannot find a cluster; set KUBECONFIG or run in a Pod")?;
    let (signal, drain) = drain::channel();
    let mut operator = Operator::spawn(config, client, drain, &registry, &readiness).await?;
    tokio::select! {
        () = drain::termination() => {}
        // A partly failed operator must exit, or it would keep the Lease.
        failure = operator.failure() => return Err(failure.into()),
    }
    // The handle is held until the process exits, because an operator that drains must not become
    // ready again.
    let _draining = readiness.hold("drain");
    let ((), joined) = tokio::join!(signal.drain(), operator.join());
    joined?;
    tracing::info!("drained");
    Ok(())
}
