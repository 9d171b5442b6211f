//! Restarts each process with `kubectl rollout restart`.

use crate::helm::SETTLES_WITHIN;
use crate::pods::{Component, NODE, OPERATOR, ROUTER};
use crate::prober::none_fails;
use crate::stage::Stage;

pub async fn restarting_the_routers_fails_no_request(stage: &Stage) -> anyhow::Result<String> {
    none_fails(stage, restart(stage, ROUTER)).await
}

pub async fn restarting_the_nodes_fails_no_request(stage: &Stage) -> anyhow::Result<String> {
    none_fails(stage, restart(stage, NODE)).await
}

pub async fn restarting_the_operators_fails_no_request(stage: &Stage) -> anyhow::Result<String> {
    none_fails(stage, restart(stage, OPERATOR)).await
}

async fn restart(stage: &Stage, component: Component) -> anyhow::Result<String> {
    let old = component.uids(stage).await?;
    stage.kubectl(&["rollout", "restart", component.deployment]).await?;
    component.await_replaced(stage, &old, SETTLES_WITHIN).await?;
    Ok(format!("{} Pods were replaced", old.len()))
}
