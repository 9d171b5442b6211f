//! `tenon profile`: profiles a Worker on a node of a cluster.
//!
//! ```text
//!  read the Worker ─► list its pool's Pods ─► choose a node ─► port-forward ─► call ─► file
//! ```
//!
//! The node takes the profile of a copy of the Worker, which runs the requests that reach the node
//! meanwhile. The connection goes through the API server, with the permissions of the caller. When
//! the command exits, its connection closes, which ends the profile.
//!
//! - [`nodes`]: the node that gets the Worker's requests. Pure.
//! - [`file`](mod@file): decompresses a profile into a file.

mod file;
mod nodes;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::ListParams;
use tenon_crds::{POOL_LABEL, Worker};
use tenon_lifecycle::open_connection::OpenConnection;
use tenon_operator::pool::plan::{PROFILE_PORT, SELECTOR};
use tenon_proto::id::WorkerId;
use tenon_proto::node::profile_part::Part;
use tenon_proto::node::profile_response::Response;
use tenon_proto::node::profiler_client::ProfilerClient;
use tenon_proto::node::{
    Begun, ProfileKind, ProfilePart, ProfileRequest, ProfileResponse, Waiting,
};
use tenon_runtime_node::config::Seconds;
use tenon_runtime_node::profile::MAX_PROFILE_DURATION;
use tonic::transport::Endpoint;
use tonic::{Code, Status};

use crate::cluster::ClusterArgs;
use crate::output::printable;
use file::ProfileFile;

/// Maximum time to wait for the reason of a failed port-forward, which arrives with the failure.
const REASON_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Name of the Worker.
    #[arg(value_name = "WORKER")]
    worker: String,

    #[command(flatten)]
    cluster: ClusterArgs,

    /// Namespace in which Tenon is installed.
    #[arg(long, value_name = "NAMESPACE", default_value = "tenon-system")]
    system_namespace: String,

    /// Pod of the node that takes the profile. Defaults to the node to which routers send the
    /// Worker's requests.
    #[arg(long, value_name = "POD")]
    node: Option<String>,

    /// Time for which the node runs requests before the profile ends, at most 60 seconds.
    #[arg(long, value_name = "SECONDS", default_value = "10s", value_parser = duration)]
    duration: Seconds,

    /// Take a snapshot of the heap at the end, instead of a CPU profile.
    #[arg(long)]
    heap: bool,

    /// File to write. Defaults to the Worker's name and the time, in the current directory.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

fn duration(text: &str) -> Result<Seconds, String> {
    let seconds: Seconds = text.parse()?;
    if seconds.0.is_zero() || seconds.0 > MAX_PROFILE_DURATION {
        return Err(format!("choose between 1 and {} seconds", MAX_PROFILE_DURATION.as_secs()));
    }
    Ok(seconds)
}

/// Takes a profile. Fails if the process is interrupted.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        tokio::select! {
            taken = take(args) => taken,
            _ = tokio::signal::ctrl_c() => {
                bail!("the command was interrupted; the profile was discarded")
            }
        }
    })
}

async fn take(args: &Args) -> anyhow::Result<()> {
    let cluster = args.cluster.connect().await?;
    let worker = cluster.worker(&args.worker).await?;
    let id = WorkerId::new(&cluster.namespace, &args.worker);
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &args.system_namespace);
    let node = match &args.node {
        Some(node) => node.clone(),
        None => choose_node(args, &pods, &worker, &id).await?,
    };
    let output = args.output.clone().unwrap_or_else(|| default_output(args, Timestamp::now()));
    // A file that cannot be written is detected before requests are redirected.
    let file = ProfileFile::create(&output)?;
    let file = Forward::open(args, &pods, &node).await?.receive(args, &id, file).await?;
    file.finish()?;
    report(args, &output);
    Ok(())
}

/// Returns the node to which routers send the Worker's requests.
async fn choose_node(
    args: &Args,
    pods: &Api<Pod>,
    worker: &Worker,
    id: &WorkerId,
) -> anyhow::Result<String> {
    let accepted = worker.status.as_ref().and_then(|status| status.accepted.as_ref());
    let Some(pool) = accepted.map(|accepted| accepted.pool.as_str()) else {
        bail!("Worker {id} has never been accepted; see tenon status {}", args.worker);
    };
    let namespace = &args.system_namespace;
    let of_pool = ListParams::default().labels(&format!("{SELECTOR},{POOL_LABEL}={pool}"));
    let listed = pods.list(&of_pool).await.map_err(|error| {
        denied(&error, &format!("list pods in namespace {namespace}"))
            .unwrap_or_else(|| anyhow!("cannot list the nodes in namespace {namespace}: {error}"))
    })?;
    nodes::preferred(&listed.items, id).ok_or_else(|| {
        anyhow!(
            "no node of RuntimePool {pool} is ready in namespace {namespace}; choose another --system-namespace, or wait for the nodes"
        )
    })
}

/// Returns the error for a request that the API server has forbidden, or `None` for another error.
fn denied(error: &kube::Error, what: &str) -> Option<anyhow::Error> {
    match error {
        kube::Error::Api(status) if status.code == 403 => {
            Some(anyhow!("you need permission to {what}: {}", printable(&status.message)))
        }
        _ => None,
    }
}

fn default_output(args: &Args, now: Timestamp) -> PathBuf {
    let time = now.strftime("%Y%m%d-%H%M%S");
    format!("{}-{time}.{}", args.worker, if args.heap { "heapsnapshot" } else { "cpuprofile" })
        .into()
}

/// A connection to the port on which a node takes profiles.
struct Forward {
    node: String,
    forwarder: kube::api::Portforwarder,
    client: ProfilerClient<tonic::transport::Channel>,
}

impl Forward {
    async fn open(args: &Args, pods: &Api<Pod>, node: &str) -> anyhow::Result<Self> {
        let namespace = &args.system_namespace;
        let mut forwarder = pods.portforward(node, &[PROFILE_PORT]).await.map_err(|error| {
            let what = format!("get and create pods/portforward in namespace {namespace}");
            denied(&error, &what).unwrap_or_else(|| {
                anyhow!("cannot forward a port of Pod {namespace}/{node}: {error}; choose another --node")
            })
        })?;
        let stream = forwarder.take_stream(PROFILE_PORT).context("the port is not forwarded")?;
        let channel = Endpoint::from_static("http://node")
            .connect_with_connector_lazy(OpenConnection::new(stream));
        Ok(Self { node: node.to_owned(), forwarder, client: ProfilerClient::new(channel) })
    }

    /// Requests the profile, and writes it to a file as it arrives.
    async fn receive(
        mut self,
        args: &Args,
        worker: &WorkerId,
        mut file: ProfileFile,
    ) -> anyhow::Result<ProfileFile> {
        let kind = if args.heap { ProfileKind::Heap } else { ProfileKind::Cpu };
        let request = ProfileRequest {
            worker: worker.to_string(),
            kind: kind.into(),
            duration_ms: u32::try_from(args.duration.0.as_millis()).unwrap_or(u32::MAX),
        };
        let answer = self.client.profile(request).await;
        let mut responses = match answer {
            Ok(answer) => answer.into_inner(),
            Err(status) => return Err(self.failure(&status).await),
        };
        loop {
            match responses.message().await {
                Ok(Some(ProfileResponse { response: Some(response) })) => match response {
                    Response::Waiting(Waiting { at_most_ms }) => {
                        let seconds = at_most_ms.div_ceil(1000);
                        let node = &self.node;
                        eprintln!(
                            "note: waiting up to {seconds} s for a request of {worker} at {node}"
                        );
                    }
                    Response::Part(ProfilePart { part: Some(Part::Begun(Begun { revision })) }) => {
                        let revision = printable(&revision);
                        eprintln!("note: profiling revision {revision} for {}", args.duration);
                    }
                    Response::Part(ProfilePart { part: Some(Part::Piece(piece)) }) => {
                        file.write(&piece)?;
                    }
                    Response::Part(ProfilePart { part: None }) => {}
                },
                // A newer node may send responses that this version does not know.
                Ok(Some(ProfileResponse { response: None })) => {}
                Ok(None) => return Ok(file),
                Err(status) => return Err(self.failure(&status).await),
            }
        }
    }

    /// Describes why a call has failed.
    async fn failure(&mut self, status: &Status) -> anyhow::Error {
        let (node, message) = (&self.node, printable(status.message()));
        match status.code() {
            Code::InvalidArgument
            | Code::FailedPrecondition
            | Code::Aborted
            | Code::DeadlineExceeded => {
                anyhow!("{node} took no profile: {message}")
            }
            Code::Unimplemented => anyhow!(
                "{node} cannot take profiles, because its version is older than this command; upgrade Tenon, or choose another --node"
            ),
            _ => {
                let reason = async { self.forwarder.take_error(PROFILE_PORT)?.await };
                let reason = tokio::time::timeout(REASON_TIMEOUT, reason).await.ok().flatten();
                let reason = reason.as_deref().map_or(message, printable);
                anyhow!(
                    "lost the connection to {node}: {reason}; if nothing listens there, the node's version is older than this command: upgrade Tenon, or choose another --node"
                )
            }
        }
    }
}

/// Prints where the profile is, and how to open it.
fn report(args: &Args, output: &Path) {
    println!("wrote {}", output.display());
    if args.heap {
        eprintln!(
            "note: the snapshot contains everything in the Worker's memory, such as its secrets and its clients' data; share it with care"
        );
        println!(
            "next: in Chrome's DevTools, open the Memory tab, click Load, and choose the file"
        );
    } else {
        println!("next: open the file in VS Code, or in the Performance tab of Chrome's DevTools");
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn parse(line: &[&str]) -> Result<Args, clap::Error> {
        Line::try_parse_from(["profile", "cart"].iter().chain(line)).map(|line| line.args)
    }

    #[test]
    fn the_duration_is_bounded() {
        for (text, seconds) in [("1s", 1), ("30", 30), ("60s", 60)] {
            assert_eq!(parse(&["--duration", text]).unwrap().duration.0.as_secs(), seconds);
        }
        for text in ["0s", "61s", "-1", "soon"] {
            assert!(parse(&[&format!("--duration={text}")]).is_err(), "{text}");
        }
        assert_eq!(parse(&[]).unwrap().duration.0.as_secs(), 10);
    }

    #[test]
    fn a_file_is_named_after_the_worker_the_time_and_the_kind() {
        let now: Timestamp = "2026-03-01T10:11:12Z".parse().unwrap();
        let name = |line: &[&str]| default_output(&parse(line).unwrap(), now);
        assert_eq!(name(&[]), Path::new("cart-20260301-101112.cpuprofile"));
        assert_eq!(name(&["--heap"]), Path::new("cart-20260301-101112.heapsnapshot"));
    }
}
