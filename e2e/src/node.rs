//! A node: a process, and the EndpointSlice through which the cluster announces the node.
//!
//! On a cluster, the endpoints controller writes the slice and the kubelet reports the Pod's
//! readiness. Here the harness does both, with one slice per node.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::Context;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::{Namespace, Process, Transport, address};

const SHARDS: u16 = 2;
const FIRST_SHARD_PORT: u16 = 7100;

/// Default number of lanes of a node. The ports of the lanes follow those of the shards.
const LANES: u16 = 1;

/// Memory budget of a node in MiB, as in the chart.
const MEMORY_MIB: &str = "1024";

/// Termination grace period of a node before SIGKILL.
const GRACE: Duration = Duration::from_secs(40);

/// The pool of a node, and its number of lanes.
#[derive(Clone, Copy, Debug)]
pub struct NodeOptions<'a> {
    pub pool: &'a str,
    pub lanes: u16,
}

impl<'a> From<&'a str> for NodeOptions<'a> {
    fn from(pool: &'a str) -> Self {
        Self { pool, lanes: LANES }
    }
}

/// A running node that is announced to routers.
#[derive(Debug)]
pub struct Node {
    endpoint: Endpoint,
    process: Process,
}

/// The state of a node as the cluster sees it.
#[derive(Debug)]
struct Endpoint {
    name: String,
    pool: String,
    lanes: u16,
    address: IpAddr,
    slices: Api<EndpointSlice>,
}

/// The phase of a Pod as the kubelet reports it.
#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Ready,
    /// The Pod is being deleted; it finishes its requests.
    Terminating,
}

impl Node {
    /// Starts a node, waits until it is ready and announces it to the cluster.
    ///
    /// # Arguments
    /// * `name` - unique among all nodes, as a Pod's name would be.
    /// * `router` - the address of the routers for calls between Workers.
    /// * `system` - the operator's namespace, where the EndpointSlice is.
    ///
    /// # Errors
    /// Fails if the node does not become ready.
    pub async fn start(
        name: &str,
        pool: impl Into<NodeOptions<'_>>,
        transport: Transport<'_>,
        catalog: SocketAddr,
        router: SocketAddr,
        system: &Namespace,
        logs: &Path,
    ) -> anyhow::Result<Self> {
        let NodeOptions { pool, lanes } = pool.into();
        let address = address::free()?;
        let mut process = Process::spawn(name, "tenon-runtime-node", logs, |command| {
            command
                .args(["--name", name])
                .args(["--listen-ip", &address.to_string()])
                .args(["--admin-listen", &format!("{address}:9090")])
                .args(["--shards", &SHARDS.to_string()])
                .args(["--lanes", &lanes.to_string()])
                .args(["--memory-budget", MEMORY_MIB])
                .args(["--shard-port", &FIRST_SHARD_PORT.to_string()])
                .args(["--catalog", &format!("{}://{catalog}", transport.scheme())])
                .args(["--router", &format!("{}://{router}", transport.scheme())])
                // Threads are not pinned, because several nodes share this machine.
                .arg("--no-pin");
            transport.configure("runtime-node", command);
        })?;
        process.await_ready(address).await?;
        let slices = system.api();
        let endpoint =
            Endpoint { name: name.to_owned(), pool: pool.to_owned(), lanes, address, slices };
        endpoint.publish(Phase::Ready).await?;
        Ok(Self { endpoint, process })
    }

    pub fn name(&self) -> &str {
        &self.endpoint.name
    }

    /// Returns the address of a shard.
    pub fn shard(&self, i: u16) -> SocketAddr {
        (self.endpoint.address, FIRST_SHARD_PORT + i).into()
    }

    /// Sends SIGKILL. The cluster does not notice: the node stays ready in its EndpointSlice, as a
    /// node does for some time after its machine has failed.
    ///
    /// # Errors
    /// Fails if the process has already exited.
    pub async fn kill(self) -> anyhow::Result<Lost> {
        self.process.kill().await?;
        Ok(Lost(self.endpoint))
    }

    /// Simulates the deletion of the node's Pod, and returns the exit status of the process.
    /// Reports the node as terminating and sends SIGTERM to the process, in no particular order,
    /// and removes the EndpointSlice after the process has exited.
    ///
    /// # Errors
    /// Fails if the API server rejects a request, or the process does not exit within its grace
    /// period.
    pub async fn delete(self) -> anyhow::Result<ExitStatus> {
        let Self { endpoint, process } = self;
        let (reported, status) =
            tokio::join!(endpoint.publish(Phase::Terminating), process.terminate(GRACE));
        reported?;
        endpoint.remove().await?;
        status
    }
}

/// A killed node that its EndpointSlice still announces as ready.
#[derive(Debug)]
#[must_use = "the cluster considers the node ready until `forget` is called"]
pub struct Lost(Endpoint);

impl Lost {
    /// Removes the EndpointSlice, as the cluster does when it notices that the node is gone.
    pub async fn forget(self) -> anyhow::Result<()> {
        self.0.remove().await
    }
}

impl Endpoint {
    async fn publish(&self, phase: Phase) -> anyhow::Result<()> {
        let names = (0..SHARDS)
            .map(|i| format!("shard-{i}"))
            .chain((0..self.lanes).map(|i| format!("lane-{i}")));
        let ports: Vec<_> = (FIRST_SHARD_PORT..)
            .zip(names)
            .map(|(port, name)| json!({"name": name, "port": port, "protocol": "TCP"}))
            .collect();
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": self.name,
                "labels": {
                    "tenon.dev/pool": self.pool,
                    "kubernetes.io/service-name": format!("tenon-{}", self.pool),
                    // Kubernetes' own controller ignores slices whose label names another
                    // manager.
                    "endpointslice.kubernetes.io/managed-by": "tenon-e2e",
                },
            },
            "addressType": "IPv4",
            "ports": ports,
            "endpoints": [{
                "addresses": [self.address.to_string()],
                "conditions": {
                    "ready": phase == Phase::Ready,
                    "serving": true,
                    "terminating": phase == Phase::Terminating,
                },
                "targetRef": {"kind": "Pod", "name": self.name},
            }],
        });
        let params = PatchParams::apply("tenon-e2e").force();
        let applied = self.slices.patch(&self.name, &params, &Patch::Apply(slice)).await;
        applied.with_context(|| format!("cannot apply the EndpointSlice of {}", self.name))?;
        Ok(())
    }

    async fn remove(self) -> anyhow::Result<()> {
        self.slices.delete(&self.name, &DeleteParams::default()).await?;
        Ok(())
    }
}
