//! Tests that no request fails during an upgrade and a rollback. The upgrade is from the previous
//! build if there is one. Otherwise it changes values, which also replaces every Pod.

use crate::helm::{SETTLES_WITHIN, file};
use crate::installing::values;
use crate::pods::ALL;
use crate::prober::under_load;
use crate::stage::Stage;

pub async fn no_request_fails_during_an_upgrade(stage: &Stage) -> anyhow::Result<String> {
    under_load(stage, replace_every_pod(stage, upgrade(stage, &[]))).await
}

pub async fn no_request_fails_during_a_rollback(stage: &Stage) -> anyhow::Result<String> {
    under_load(stage, replace_every_pod(stage, stage.helm.rollback("tenon", 1))).await
}

pub async fn no_request_fails_during_an_upgrade_after_a_rollback(
    stage: &Stage,
) -> anyhow::Result<String> {
    under_load(stage, replace_every_pod(stage, upgrade(stage, &[]))).await
}

/// Upgrades to the build under test, with the chart's values for high availability.
///
/// # Arguments
/// * `overrides` - further Helm arguments, which take precedence.
pub async fn upgrade(stage: &Stage, overrides: &[String]) -> anyhow::Result<()> {
    let build = &stage.current;
    stage.helm.upgrade("tenon-crds", &build.chart("tenon-crds"), &[]).await?;
    let chart = build.chart("tenon");
    let high_availability = file(&chart.join("values-ha.yaml"));
    let values: Vec<_> = [high_availability]
        .into_iter()
        .chain(values(stage, build))
        .chain(overrides.iter().cloned())
        .collect();
    stage.helm.upgrade("tenon", &chart, &values).await
}

/// Runs `operation` and waits until it has replaced every Pod.
pub async fn replace_every_pod(
    stage: &Stage,
    operation: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<String> {
    let mut before = Vec::new();
    for component in ALL {
        before.push((component, component.uids(stage).await?));
    }
    operation.await?;
    for (component, old) in before {
        component.await_replaced(stage, &old, SETTLES_WITHIN).await?;
    }
    Ok("every Pod was replaced".to_owned())
}
