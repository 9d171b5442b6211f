//! Tests that no request fails while a Kubernetes node is drained for maintenance.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::ListParams;

use crate::helm::SETTLES_WITHIN;
use crate::pods::ALL;
use crate::prober::{schedulable_nodes, under_load};
use crate::stage::{SYSTEM, Stage};

pub async fn no_request_fails_while_a_kubernetes_node_drains(
    stage: &Stage,
) -> anyhow::Result<String> {
    if schedulable_nodes(stage).await?.len() < 2 {
        return Ok("skipped: draining needs a second Kubernetes node".to_owned());
    }
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(stage.cluster.client(), SYSTEM);
    let budgets = budgets.list(&ListParams::default()).await?.items.len();
    ensure!(
        budgets >= ALL.len(),
        "there are {budgets} PodDisruptionBudgets for {} kinds of Pods",
        ALL.len()
    );
    under_load(stage, drain(stage)).await
}

async fn drain(stage: &Stage) -> anyhow::Result<String> {
    let (node, count) = busiest(stage).await?;
    let drain = ["drain", &node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=300s"];
    let drained = stage.kubectl(&drain).await;
    let settled = match &drained {
        Ok(_) => settle(stage).await,
        Err(_) => Ok(()),
    };
    // Uncordon regardless of the outcome: the cluster may have other users.
    stage.kubectl(&["uncordon", &node]).await?;
    drained?;
    settled?;
    Ok(format!("drained {node}, which ran {count} Pods of Tenon"))
}

/// Waits until every component has its desired number of ready Pods.
async fn settle(stage: &Stage) -> anyhow::Result<()> {
    for component in ALL {
        let replicas = stage
            .kubectl(&["get", component.deployment, "--output", "jsonpath={.spec.replicas}"])
            .await?;
        component.await_count(stage, replicas.parse()?, SETTLES_WITHIN).await?;
    }
    Ok(())
}

/// Returns the Kubernetes node with the most Tenon Pods, except the prober's node, and their
/// number.
async fn busiest(stage: &Stage) -> anyhow::Result<(String, usize)> {
    let prober = stage.prober_node.get().context("the prober is not running")?;
    let mut counts = BTreeMap::<String, usize>::new();
    for component in ALL {
        let pods = component.pods(stage).await?;
        for node in
            pods.into_iter().filter_map(|pod| pod.spec?.node_name).filter(|node| node != prober)
        {
            *counts.entry(node).or_default() += 1;
        }
    }
    counts
        .into_iter()
        .max_by_key(|(_, count)| *count)
        .context("the prober's node is the only one with Pods of Tenon")
}
