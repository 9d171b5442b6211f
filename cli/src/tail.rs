//! `tenon tail`: follows the logs of Workers on all nodes.
//!
//! ```text
//!  watch the Pods of nodes ─► follow the log of each ─► parse ─► filter ─► print
//!            ▲                        │ the container exited, or the stream broke
//!            └──── after a pause ◄────┘
//! ```
//!
//! The lines are read through the API server, with the permissions of the caller.
//!
//! - [`line`]: a line of a log, and the filter of lines. Pure.

mod line;

use std::collections::{HashMap, HashSet};
use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use futures::{AsyncBufReadExt as _, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::api::LogParams;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, ResourceExt as _};
use tenon_operator::pool::plan::SELECTOR;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::cluster::ClusterArgs;
use crate::output::Output;
use line::{Filter, Line, Severity};

/// Name of the container that runs Workers in a node's Pod.
const CONTAINER: &str = "runtime-node";

/// Pause before a log is followed again. A container that has exited takes a moment to restart.
const PAUSE: Duration = Duration::from_secs(1);

/// Maximum number of lines that wait to be printed. A full queue slows the streams down, and no
/// line is lost.
const QUEUE: usize = 1024;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Name of the Worker. Defaults to all Workers of the namespace.
    #[arg(value_name = "WORKER")]
    worker: Option<String>,

    #[command(flatten)]
    cluster: ClusterArgs,

    /// Show lines of Workers in all namespaces.
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    all_namespaces: bool,

    /// Namespace in which Tenon is installed.
    #[arg(long, value_name = "NAMESPACE", default_value = "tenon-system")]
    system_namespace: String,

    /// Also show lines from up to this many seconds ago.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    since: u32,

    /// Minimum severity of the lines.
    #[arg(long, value_enum, default_value_t = Severity::Debug)]
    level: Severity,

    /// Show only lines of the invocation with this request id, which is in the response and in the
    /// access log.
    #[arg(long, value_name = "ID")]
    invocation: Option<String>,

    /// Show only lines with this text in their message.
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,

    /// Format of a line: text with the time in UTC, the severity, the Worker and the message, or a
    /// JSON object.
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
}

/// Follows the logs until the process is interrupted.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        tokio::select! {
            followed = follow_nodes(args) => followed,
            _ = tokio::signal::ctrl_c() => Ok(()),
        }
    })
}

async fn follow_nodes(args: &Args) -> anyhow::Result<()> {
    let cluster = args.cluster.connect().await?;
    let filter = Filter {
        namespace: (!args.all_namespaces).then(|| cluster.namespace.clone()),
        name: args.worker.clone(),
        at_least: args.level,
        invocation: args.invocation.clone(),
        search: args.search.clone(),
    };
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &args.system_namespace);
    // The watch retries forever, so missing permissions are detected here.
    let nodes = pods.list(&kube::api::ListParams::default().labels(SELECTOR)).await;
    if nodes.map_err(|error| unreadable(args, error))?.items.is_empty() {
        eprintln!("note: there are no nodes in namespace {} yet", args.system_namespace);
    }
    let (lines_tx, mut lines_rx) = mpsc::channel::<Line>(QUEUE);
    let mut nodes =
        pin!(watcher(pods.clone(), watcher::Config::default().labels(SELECTOR)).default_backoff());
    let mut followed: HashMap<String, AbortHandle> = HashMap::new();
    // The Pods that exist, as far as the watch has reported them since it last began.
    let mut existing: HashSet<String> = HashSet::new();
    loop {
        tokio::select! {
            event = nodes.next() => match event {
                Some(Ok(watcher::Event::Apply(pod) | watcher::Event::InitApply(pod))) => {
                    let name = pod.name_any();
                    existing.insert(name.clone());
                    followed.entry(name.clone()).or_insert_with(|| {
                        let log = follow(pods.clone(), name, args.since, lines_tx.clone());
                        tokio::spawn(log).abort_handle()
                    });
                }
                Some(Ok(watcher::Event::Delete(pod))) => {
                    // The Pod's last lines have been sent, because its containers exited before it
                    // was deleted.
                    existing.remove(&pod.name_any());
                    followed.remove(&pod.name_any()).iter().for_each(AbortHandle::abort);
                }
                Some(Ok(watcher::Event::Init)) => existing.clear(),
                Some(Ok(watcher::Event::InitDone)) => {
                    // The other Pods were deleted while the watch was interrupted.
                    let gone = followed.extract_if(|name, _| !existing.contains(name));
                    gone.for_each(|(_, log)| log.abort());
                }
                Some(Err(error)) => tracing::debug!(%error, "cannot watch the nodes"),
                None => return Err(anyhow!("the watch of the nodes ended")),
            },
            Some(line) = lines_rx.recv() => {
                if line.passes(&filter) {
                    print(&line, args.output)?;
                }
            }
        }
    }
}

/// Follows the log of one Pod until the task is aborted, or nothing receives the lines any longer.
async fn follow(pods: Api<Pod>, name: String, since: u32, lines_tx: mpsc::Sender<Line>) {
    let began = Instant::now();
    let mut last: Option<Timestamp> = None;
    loop {
        // Before a line has stated the node's time, the beginning is given as a duration, because
        // the node's clock may differ from the clock here. One second is the minimum that the API
        // server accepts.
        let elapsed = u64::from(since.max(1)) + began.elapsed().as_secs();
        let params = LogParams {
            container: Some(CONTAINER.to_owned()),
            follow: true,
            since_seconds: last.is_none().then(|| i64::try_from(elapsed).unwrap_or(i64::MAX)),
            since_time: last,
            ..LogParams::default()
        };
        let resumed = last;
        if let Ok(log) = pods.log_stream(&name, &params).await {
            let mut lines = log.lines();
            while let Ok(Some(text)) = lines.try_next().await {
                let Some(line) = Line::parse(&text) else { continue };
                let time: Option<Timestamp> = line.timestamp.parse().ok();
                // A log that is resumed begins at a whole second, so it repeats lines.
                if resumed.is_some() && time <= resumed {
                    continue;
                }
                last = time.or(last);
                if lines_tx.send(line).await.is_err() {
                    return;
                }
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn print(line: &Line, output: Output) -> anyhow::Result<()> {
    match output {
        Output::Text => println!("{line}"),
        Output::Json => println!("{}", serde_json::to_string(line)?),
    }
    Ok(())
}

fn unreadable(args: &Args, error: kube::Error) -> anyhow::Error {
    let namespace = &args.system_namespace;
    match &error {
        kube::Error::Api(status) if status.code == 403 => anyhow!(
            "cannot read the nodes' logs; you need permission to list and watch pods, and to get pods/log, in namespace {namespace}: {}",
            status.message
        ),
        _ => anyhow::Error::new(error)
            .context(format!("cannot list the nodes in namespace {namespace}")),
    }
}
