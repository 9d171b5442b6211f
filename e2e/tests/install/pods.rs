//! The Pods of an installation.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use tenon_e2e::{Answer, PortForward, await_condition};

use crate::stage::{SYSTEM, Stage};

/// The processes, as their Pods' label `app.kubernetes.io/component` calls them, and the Deployments that their Pods are of.
pub const OPERATOR: Component = Component { name: "operator", deployment: "deployment/tenon-operator" };
pub const ROUTER: Component = Component { name: "router", deployment: "deployment/tenon-router" };
pub const NODE: Component = Component { name: "runtime-node", deployment: "deployment/tenon-pool-default" };
pub const ALL: [Component; 3] = [OPERATOR, ROUTER, NODE];

const ADMIN_PORT: u16 = 9090;

#[derive(Clone, Copy)]
pub struct Component {
    pub name: &'static str,
    pub deployment: &'static str,
}

impl Component {
    /// Its Pods that have not been told to end.
    pub async fn pods(self, stage: &Stage) -> anyhow::Result<Vec<Pod>> {
        let selector = format!("app.kubernetes.io/component={}", self.name);
        let mut pods = every_pod(stage, &selector).await?;
        pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        Ok(pods)
    }

    /// Tells its Pods apart from those that come after them.
    pub async fn uids(self, stage: &Stage) -> anyhow::Result<BTreeSet<String>> {
        Ok(self.pods(stage).await?.iter().filter_map(ResourceExt::uid).collect())
    }

    /// Waits until exactly `count` Pods are there, all of them ready, and those that end are gone.
    pub async fn await_count(self, stage: &Stage, count: usize, within: Duration) -> anyhow::Result<()> {
        let selector = format!("app.kubernetes.io/component={}", self.name);
        await_condition(&format!("{count} ready Pods of {}", self.name), within, async || {
            let pods = every_pod(stage, &selector).await?;
            let ready = pods.iter().filter(|pod| is_ready(pod)).count();
            ensure!(ready == count && pods.len() == count, "there are {}, and {ready} are ready", pods.len());
            Ok(())
        })
        .await
    }

    /// Waits until none of `old` is there any more, and as many as its Deployment wants are ready.
    pub async fn await_replaced(self, stage: &Stage, old: &BTreeSet<String>, within: Duration) -> anyhow::Result<()> {
        let selector = format!("app.kubernetes.io/component={}", self.name);
        await_condition(&format!("new Pods of {}", self.name), within, async || {
            let wanted = stage.kubectl(&["get", self.deployment, "--output", "jsonpath={.spec.replicas}"]).await?;
            let pods = every_pod(stage, &selector).await?;
            let remaining: Vec<_> = pods.iter().filter(|pod| pod.uid().is_some_and(|uid| old.contains(&uid))).collect();
            let names: Vec<_> = remaining.iter().map(|pod| pod.name_any()).collect();
            ensure!(names.is_empty(), "{} are still there", names.join(", "));
            let ready = pods.iter().filter(|pod| is_ready(pod)).count();
            ensure!(ready.to_string() == wanted, "{ready} of {wanted} are ready");
            Ok(())
        })
        .await
    }
}

/// Asks a port of a Pod.
pub async fn ask(stage: &Stage, pod: &str, port: u16, host: &str, path: &str) -> anyhow::Result<Answer> {
    let forward = PortForward::open(&stage.cluster, SYSTEM, pod, port).await?;
    forward.connection().get(host, path).await
}

/// What a Pod's `/metrics` says.
pub async fn metrics(stage: &Stage, pod: &str) -> anyhow::Result<String> {
    let answer = ask(stage, pod, ADMIN_PORT, "admin", "/metrics").await.with_context(|| format!("metrics of {pod}"))?;
    ensure!(answer.status == 200, "/metrics of {pod}: {} {}", answer.status, answer.body);
    Ok(answer.body)
}

async fn every_pod(stage: &Stage, selector: &str) -> anyhow::Result<Vec<Pod>> {
    let api: Api<Pod> = Api::namespaced(stage.cluster.client(), SYSTEM);
    let mut pods = api.list(&ListParams::default().labels(selector)).await?.items;
    // What `helm test` left has ended and is no process of the installation.
    pods.retain(|pod| pod.metadata.annotations.as_ref().is_none_or(|all| !all.contains_key("helm.sh/hook")));
    Ok(pods)
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let holds = conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
    holds && pod.metadata.deletion_timestamp.is_none()
}
