//! Runs an operator: `Args` → client → watches, catalog, election, reconcilers → drain.

use std::sync::Arc;

use anyhow::{Context, bail};
use clap::{Parser, Subcommand};
use kube::Client;
use kube::runtime::events::{Recorder, Reporter};
use prometheus::Registry;
use tenon_lifecycle::admin::{self, AdminArgs};
use tenon_lifecycle::drain;
use tenon_lifecycle::log::{self, LogArgs};
use tenon_lifecycle::process;
use tenon_lifecycle::readiness::Readiness;
use tenon_lifecycle::tls::{Role, Tls};
use tenon_operator::catalog::{self, Catalog, Ear};
use tenon_operator::certificates::Certificates;
use tenon_operator::compiler::{self, Compiler};
use tenon_operator::config::{Config, OperatorArgs};
use tenon_operator::health::Health;
use tenon_operator::index::Index;
use tenon_operator::leader::Election;
use tenon_operator::metrics::Metrics;
use tenon_operator::pool;
use tenon_operator::probe::{self, ProbeArgs};
use tenon_operator::schedule::Scheduler;
use tenon_operator::schedule::call::Caller;
use tenon_operator::watches::{SharedIndex, Watches};
use tenon_operator::worker::{MANAGER, Reconciler, queue};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// Capacity of the channel of nodes' reports, each about one Worker. Reports are consumed far
/// faster than nodes send them.
const REPORTS: usize = 4096;

/// Reconciles Workers and RuntimePools and serves the catalog.
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
        return compiler::answer().context("cannot compile");
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
    let Config { router, nodes: settings, terms } = args.check(&log_args)?;
    let registry = Registry::new();
    log.register(&registry)?;
    process::register(&registry, "tenon-operator")?;
    // With `--self-signed`, this process takes its certificate directly from the Secrets that it
    // writes for all processes.
    let made_here = args.certificates.self_signed.then(|| Tls::to_come(Role::Operator, &registry)).transpose()?;
    let tls = match &made_here {
        Some(tls) => Some(tls.clone()),
        None => args.tls.open(Role::Operator, &registry)?,
    };
    let readiness = Readiness::new();
    let metrics = Arc::new(Metrics::register(&registry)?);
    let listening = format!("cannot listen on {}; free the port or set --admin-listen", admin.admin_listen);
    let _admin = admin::spawn(admin.admin_listen, registry.clone(), readiness.clone()).context(listening)?;

    let client = Client::try_default().await.context("cannot find a cluster; set KUBECONFIG or run in a Pod")?;
    let reporter = Reporter { controller: MANAGER.to_owned(), instance: Some(args.identity.clone()) };
    let recorder = Recorder::new(client.clone(), reporter);
    let (signal, drain) = drain::channel();

    let catalog = Catalog::new();
    registry.register(Box::new(catalog.metrics()?))?;
    let (heard_tx, heard_rx) = mpsc::channel(REPORTS);
    catalog.listen(Ear { heard_tx, reports: metrics.reports.clone() });
    let listening = format!("cannot listen on {}; free the port or set --catalog-listen", args.catalog_listen);
    let listener = tokio::net::TcpListener::bind(args.catalog_listen).await.context(listening)?;
    let serving = tokio::spawn(catalog::serve(listener, tls.clone(), catalog.clone(), drain.clone()));

    let (leading_tx, leading_rx) = watch::channel(false);
    let election = Election::new(client.clone(), &args.namespace, args.identity.clone());
    let electing = tokio::spawn(election.run(leading_tx, drain.clone()));

    let index = SharedIndex::new(Index::new(&args.domain));
    let (touched_tx, touched_rx) = mpsc::unbounded_channel();
    let (ailing_tx, ailing_rx) = mpsc::unbounded_channel();
    let (scheduled_tx, scheduled_rx) = mpsc::unbounded_channel();
    let watches = Watches {
        client: client.clone(),
        namespace: args.namespace.clone(),
        index: index.clone(),
        catalog,
        touched_tx,
        ailing_tx,
        scheduled_tx,
        recorder: recorder.clone(),
        metrics: metrics.clone(),
    };
    let mut vital = JoinSet::new();
    if let Some(tls) = made_here {
        let certificates = Certificates {
            client: client.clone(),
            namespace: args.namespace.clone(),
            deployment: args.certificates.deployment,
            terms,
            tls,
            leading_rx: leading_rx.clone(),
            metrics: metrics.clone(),
        };
        vital.spawn(certificates.run(readiness.hold("certificate")));
    }
    vital.spawn(watches.run(readiness.hold("catalog")));

    let health = Health::new(client.clone(), recorder.clone(), index.clone(), metrics.clone());
    vital.spawn(health.run(heard_rx, ailing_rx));
    let caller = Caller::new(router, tls);
    let scheduler = Scheduler::new(client.clone(), recorder.clone(), index.clone(), metrics.clone(), caller, drain);
    vital.spawn(scheduler.run(scheduled_rx, leading_rx.clone()));
    // The running program, even if its file has been replaced since.
    let compiler = Compiler::new("/proc/self/exe".into());
    let reconciler = Reconciler::new(client.clone(), recorder, metrics.clone(), compiler);
    let queued = metrics.queue("Worker");
    let all = {
        let index = index.clone();
        move || index.with(|index| index.workers().cloned().collect())
    };
    let reconcile = move |id| {
        let (reconciler, candidate) = (reconciler.clone(), index.with(|index| index.candidate(&id)));
        async move {
            match candidate {
                Some(candidate) => reconciler.reconcile(candidate).await,
                None => Ok(()),
            }
        }
    };
    vital.spawn(queue::run(touched_rx, leading_rx.clone(), all, reconcile, queued));
    let leader_metrics = metrics.clone();
    let context =
        pool::Context { client, namespace: args.namespace, settings, leading_rx: leading_rx.clone(), metrics };
    vital.spawn(pool::run(context));
    tokio::spawn(count_leadership(leading_rx, leader_metrics));

    tokio::select! {
        () = drain::termination() => {}
        // A partly failed operator must exit: it would keep the Lease.
        Some(ended) = vital.join_next() => {
            ended.context("a component of the operator failed")?;
            bail!("a component of the operator stopped");
        }
    }
    // Held until the process exits: an operator that drains never becomes ready again.
    let _draining = readiness.hold("drain");
    // Once this replica has lost the leadership, no new work begins. Scheduled calls in flight
    // delay the drain until they end.
    let stop = async {
        let elected = electing.await;
        vital.shutdown().await;
        elected
    };
    let ((), elected) = tokio::join!(signal.drain(), stop);
    elected?;
    serving.await??;
    tracing::info!("drained");
    Ok(())
}

async fn count_leadership(mut leading_rx: watch::Receiver<bool>, metrics: Arc<Metrics>) {
    loop {
        metrics.leader.set((*leading_rx.borrow_and_update()).into());
        if leading_rx.changed().await.is_err() {
            return;
        }
    }
}
