//! The prober: a Pod that sends requests to Workers at a steady rate during operations on the
//! installation.

use std::time::Duration;

use anyhow::{Context, ensure};
use bytes::Bytes;
use http::Method;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tenon_crds::ConditionStatus;
use tenon_e2e::open_loop::{Lap, Plan, PlannedRequest};
use tenon_e2e::{PortForward, answering, await_condition, worker};
use tokio::time::sleep;

use crate::stage::Stage;

/// Number of requests per second.
const RATE: u32 = 200;

/// Number of Workers, large enough that every node runs some of them.
const WORKERS: usize = 8;

/// Duration of the load after an operation, which reveals delayed effects.
const OBSERVED_AFTER: Duration = Duration::from_secs(5);

const POD: &str = "prober";
const PORT: u16 = 8080;
const STARTS_WITHIN: Duration = Duration::from_secs(60);

pub async fn the_prober_is_served(stage: &Stage) -> anyhow::Result<String> {
    let node = start(stage).await?;
    let plan = Plan {
        target: stage.cluster.routers().await?,
        rate: RATE,
        requests: deploy_workers(stage).await?,
    };
    let answer = send(stage, Method::PUT, "/load", serde_json::to_string(&plan)?).await?;
    ensure!(answer == "the load has started", "the prober responded {answer:?}");
    // The first request to each Worker starts its isolate.
    sleep(OBSERVED_AFTER).await;
    let lap = lap(stage).await?;
    lap.ensure_all_served(RATE)?;
    let remark = format!("{lap}\n{WORKERS} Workers, from {} to {}", node, plan.target);
    stage.prober_node.set(node).ok().context("another prober is already running")?;
    Ok(remark)
}

pub async fn the_prober_is_deleted(stage: &Stage) -> anyhow::Result<String> {
    stage.prober_node.get().context("the prober is not running")?;
    let lap: Lap =
        serde_json::from_str(&send(stage, Method::DELETE, "/load", String::new()).await?)?;
    stage.namespace.api::<Pod>().delete(POD, &DeleteParams::default()).await?;
    lap.ensure_all_served(RATE)?;
    Ok(lap.to_string())
}

/// Runs `operation` under load and checks that no request fails.
///
/// # Errors
/// Fails if the operation or a request fails. The error contains both failures.
pub async fn under_load(
    stage: &Stage,
    operation: impl Future<Output = anyhow::Result<String>>,
) -> anyhow::Result<String> {
    stage.prober_node.get().context("the prober is not running")?;
    lap(stage).await?.ensure_all_served(RATE).context("requests failed before the operation")?;
    let outcome = operation.await;
    // The sleep is part of the test, not a wait for a condition.
    sleep(OBSERVED_AFTER).await;
    let lap = lap(stage).await?;
    let served = lap.ensure_all_served(RATE);
    match (outcome, served) {
        (Ok(remark), Ok(())) => Ok(format!("{lap}\n{remark}")),
        (Ok(_), Err(failed)) => Err(failed),
        (Err(error), Ok(())) => Err(error.context(format!("{lap}"))),
        (Err(error), Err(failed)) => Err(error.context(failed)),
    }
}

/// Starts the prober, and returns its Kubernetes node.
async fn start(stage: &Stage) -> anyhow::Result<String> {
    let node = schedulable_nodes(stage)
        .await?
        .into_iter()
        .next()
        .context("no Kubernetes node accepts Pods")?;
    let image = format!("{}/tenon-prober:{}", stage.registry, stage.current.tag);
    let pod = json!({
        "metadata": {"name": POD},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 1,
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{
                "name": POD,
                "image": image,
                "imagePullPolicy": "IfNotPresent",
                "resources": {"requests": {"cpu": "50m", "memory": "32Mi"}},
                "readinessProbe": {"httpGet": {"path": "/readyz", "port": PORT}, "periodSeconds": 1},
                "securityContext": {
                    "allowPrivilegeEscalation": false,
                    "readOnlyRootFilesystem": true,
                    "capabilities": {"drop": ["ALL"]},
                },
            }],
        },
    });
    let api = stage.namespace.api::<Pod>();
    api.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
    await_condition(&format!("the prober ({image}) to be ready"), STARTS_WITHIN, async || {
        let status = api.get(POD).await?.status.context("the prober's Pod has no status yet")?;
        let ready =
            status.conditions.iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True");
        ensure!(ready, "the prober's Pod is not ready: {:?}", status.container_statuses);
        Ok(())
    })
    .await?;
    Ok(node)
}

async fn lap(stage: &Stage) -> anyhow::Result<Lap> {
    let text = send(stage, Method::POST, "/lap", String::new()).await?;
    serde_json::from_str(&text)
        .with_context(|| format!("unexpected response of the prober: {text:?}"))
}

async fn send(stage: &Stage, method: Method, path: &str, body: String) -> anyhow::Result<String> {
    let forward = PortForward::open(&stage.cluster, stage.namespace.name(), POD, PORT).await?;
    let answer = forward.connection().send(method, POD, path, Bytes::from(body)).await?;
    ensure!(answer.status == 200, "the prober responded {} {}", answer.status, answer.body);
    Ok(answer.body)
}

/// Returns the names of the Kubernetes nodes that accept Pods without tolerations.
pub async fn schedulable_nodes(stage: &Stage) -> anyhow::Result<Vec<String>> {
    let nodes = Api::<Node>::all(stage.cluster.client()).list(&ListParams::default()).await?;
    let is_open = |node: &&Node| {
        let Some(spec) = &node.spec else { return true };
        let repels =
            |effect: &str| spec.taints.iter().flatten().any(|taint| taint.effect == effect);
        spec.unschedulable != Some(true) && !repels("NoSchedule") && !repels("NoExecute")
    };
    Ok(nodes.items.iter().filter(is_open).map(ResourceExt::name_any).collect())
}

/// Returns the name of a probed Worker.
pub fn probed_worker(i: usize) -> String {
    format!("probed-{i}")
}

/// Deploys the Workers, each of which responds with its name.
async fn deploy_workers(stage: &Stage) -> anyhow::Result<Vec<PlannedRequest>> {
    let names: Vec<_> = (0..WORKERS).map(probed_worker).collect();
    for name in &names {
        stage.namespace.apply(&worker(name, &answering(name))).await?;
    }
    for name in &names {
        stage.namespace.await_ready(name, ConditionStatus::True).await?;
    }
    Ok(names
        .into_iter()
        .map(|name| PlannedRequest { host: stage.namespace.host(&name), body: name })
        .collect())
}
