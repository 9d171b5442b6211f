//! Tests that no request fails while routers or nodes are scaled up and down.

use crate::helm::SETTLES_WITHIN;
use crate::pods::{Component, NODE, ROUTER};
use crate::prober::under_load;
use crate::stage::Stage;

pub async fn no_request_fails_while_routers_scale(stage: &Stage) -> anyhow::Result<String> {
    under_load(stage, up_and_down(stage, ROUTER, ROUTER.deployment)).await
}

/// Scales the RuntimePool, as an autoscaler does.
pub async fn no_request_fails_while_nodes_scale(stage: &Stage) -> anyhow::Result<String> {
    under_load(stage, up_and_down(stage, NODE, "runtimepool/default")).await
}

/// Scales to two replicas more than the current number, then to one replica fewer than the current
/// number (but at least to one replica), and then back to the current number.
async fn up_and_down(stage: &Stage, component: Component, scaled: &str) -> anyhow::Result<String> {
    let count = component.pods(stage).await?.len();
    let steps = [count + 2, (count - 1).max(1), count];
    for count in steps {
        stage.kubectl(&["scale", scaled, &format!("--replicas={count}")]).await?;
        component.await_count(stage, count, SETTLES_WITHIN).await?;
    }
    Ok(format!("from {count} to {}, {} and {} Pods", steps[0], steps[1], steps[2]))
}
