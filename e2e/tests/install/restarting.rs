//! Tests that no request fails during `kubectl rollout restart` of each component.

use crate::helm::SETTLES_WITHIN;
use crate::pods::{Component, NODE, OPERATOR, ROUTER};
use crate::prober::under_load;
use crate::stage::Stage;

pub async fn no_request_fails_while_routers_restart(stage: &Stage) -> anyhow::Result<String> {
    under_load(stage, restart(stage, ROUTER)).await
}

pub async fn no_request_fails_while_nodes_restart(stage: &Stage) -> anyhow::Result<String> {
    under_load(stage, restart(stage, NODE)).await
}

pub async fn no_request_fails_while_operators_restart(stage: &Stage) -> anyhow::Result<String> {
    under_load(stage, restart(stage, OPERATOR)).await
}

async fn restart(stage: &Stage, component: Component) -> anyhow::Result<String> {
    let old = component.uids(stage).await?;
    stage.kubectl(&["rollout", "restart", component.deployment]).await?;
    component.await_replaced(stage, &old, SETTLES_WITHIN).await?;
    Ok(format!("{} Pods were replaced", old.len()))
}
