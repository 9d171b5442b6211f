//! The Pods of an installation.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use tenon_e2e::{HttpResponse, PortForward, await_condition};

use crate::stage::{SYSTEM, Stage};

// The components of an installation.
pub const OPERATOR: Component =
    Component { name: "operator", deployment: "deployment/tenon-operator" };
pub const ROUTER: Component = Component { name: "router", deployment: "deployment/tenon-router" };
pub const NODE: Component =
    Component { name: "runtime-node", deployment: "deployment/tenon-pool-default" };
pub const ALL: [Component; 3] = [OPERATOR, ROUTER, NODE];

const ADMIN_PORT: u16 = 9090;

/// A component of the installation: the Pods of one Deployment.
#[derive(Clone, Copy)]
pub struct Component {
    /// Value of the Pods' label `app.kubernetes.io/component`.
    pub name: &'static str,
    /// The Deployment, as kubectl names it.
    pub deployment: &'static str,
}

impl Component {
    /// Returns the Pods that are not terminating.
    pub async fn pods(self, stage: &Stage) -> anyhow::Result<Vec<Pod>> {
        let selector = format!("app.kubernetes.io/component={}", self.name);
        let mut pods = every_pod(stage, &selector).await?;
        pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        Ok(pods)
    }

    /// Returns the UIDs of the Pods that are not terminating. They distinguish these Pods from
    /// later ones.
    pub async fn uids(self, stage: &Stage) -> anyhow::Result<BTreeSet<String>> {
        Ok(self.pods(stage).await?.iter().filter_map(ResourceExt::uid).collect())
    }

    /// Waits until there are exactly `count` Pods, all of them ready and none terminating.
    pub async fn await_count(
        self,
        stage: &Stage,
        count: usize,
        within: Duration,
    ) -> anyhow::Result<()> {
        let selector = format!("app.kubernetes.io/component={}", self.name);
        await_condition(&format!("{count} ready Pods of {}", self.name), within, async || {
            let pods = every_pod(stage, &selector).await?;
            let ready = pods.iter().filter(|pod| is_ready(pod)).count();
            ensure!(
                ready == count && pods.len() == count,
                "there are {} Pods, of which {ready} are ready",
                pods.len()
            );
            Ok(())
        })
        .await
    }

    /// Waits until all Pods in `old` are gone and the Deployment has its desired number of ready
    /// Pods.
    pub async fn await_replaced(
        self,
        stage: &Stage,
        old: &BTreeSet<String>,
        within: Duration,
    ) -> anyhow::Result<()> {
        let selector = format!("app.kubernetes.io/component={}", self.name);
        await_condition(&format!("the Pods of {} to be replaced", self.name), within, async || {
            let replicas = stage
                .kubectl(&["get", self.deployment, "--output", "jsonpath={.spec.replicas}"])
                .await?;
            let pods = every_pod(stage, &selector).await?;
            let remaining: Vec<_> =
                pods.iter().filter(|pod| pod.uid().is_some_and(|uid| old.contains(&uid))).collect();
            let names: Vec<_> = remaining.iter().map(|pod| pod.name_any()).collect();
            ensure!(names.is_empty(), "these Pods still exist: {}", names.join(", "));
            let ready = pods.iter().filter(|pod| is_ready(pod)).count();
            ensure!(ready.to_string() == replicas, "{ready} of {replicas} Pods are ready");
            Ok(())
        })
        .await
    }
}

/// Sends a GET request to a port of a Pod.
pub async fn get(
    stage: &Stage,
    pod: &str,
    port: u16,
    host: &str,
    path: &str,
) -> anyhow::Result<HttpResponse> {
    let forward = PortForward::open(&stage.cluster, SYSTEM, pod, port).await?;
    forward.connection().get(host, path).await
}

/// Returns the response of a Pod's `/metrics`.
pub async fn metrics(stage: &Stage, pod: &str) -> anyhow::Result<String> {
    let answer = get(stage, pod, ADMIN_PORT, "admin", "/metrics")
        .await
        .with_context(|| format!("cannot read the metrics of {pod}"))?;
    ensure!(
        answer.status == 200,
        "the response of {pod} to GET /metrics is {} {}",
        answer.status,
        answer.body
    );
    Ok(answer.body)
}

async fn every_pod(stage: &Stage, selector: &str) -> anyhow::Result<Vec<Pod>> {
    let api: Api<Pod> = Api::namespaced(stage.cluster.client(), SYSTEM);
    let mut pods = api.list(&ListParams::default().labels(selector)).await?.items;
    // Pods of `helm test` have finished and are not part of the installation.
    pods.retain(|pod| {
        pod.metadata.annotations.as_ref().is_none_or(|all| !all.contains_key("helm.sh/hook"))
    });
    Ok(pods)
}

fn is_ready(pod: &Pod) -> bool {
    let conditions =
        pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let holds =
        conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
    holds && pod.metadata.deletion_timestamp.is_none()
}
