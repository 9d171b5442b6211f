//! Tests that an uninstallation leaves only the CRDs and the Workers behind, and that the CRDs are
//! removed on request. Helm keeps the CRDs by default, because their deletion deletes every Worker.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use tenon_crds::Worker;
use tenon_e2e::await_condition;

use crate::helm::set;
use crate::objects::{Object, everything};
use crate::stage::{SYSTEM, Stage};

/// Time limit for deletions, which wait for Kubernetes' garbage collector and the Pods' grace
/// period.
const GONE_WITHIN: Duration = Duration::from_secs(120);

pub async fn uninstalling_leaves_only_the_crds(stage: &Stage) -> anyhow::Result<String> {
    stage.helm.uninstall("tenon").await?;
    let left = await_condition(
        "all objects of Tenon except its CRDs to be gone",
        GONE_WITHIN,
        async || {
            let left = left(stage).await?;
            let (crds, others): (Vec<_>, Vec<_>) =
                left.into_iter().partition(Object::belongs_to_the_crds);
            ensure!(others.is_empty(), "these objects still exist: {}", list(&others));
            Ok(crds)
        },
    )
    .await?;
    let workers = stage.namespace.api::<Worker>().list(&ListParams::default()).await?.items.len();
    ensure!(workers > 0, "the uninstallation deleted the Workers of tenants");
    Ok(format!("these still exist: {workers} Workers, {}", list(&left)))
}

pub async fn the_crds_are_removed_on_request(stage: &Stage) -> anyhow::Result<String> {
    let chart = stage.current.chart("tenon-crds");
    stage.helm.upgrade("tenon-crds", &chart, &[set("keep", "false")]).await?;
    stage.helm.uninstall("tenon-crds").await?;
    await_condition("the CRDs to be gone", GONE_WITHIN, async || {
        let left: Vec<_> = left(stage).await?.into_iter().collect();
        ensure!(left.is_empty(), "these objects still exist: {}", list(&left));
        Ok(())
    })
    .await?;
    stage.namespace.delete().await?;
    Api::<Namespace>::all(stage.cluster.client()).delete(SYSTEM, &DeleteParams::default()).await?;
    Ok(String::new())
}

/// Returns the objects that were not in the cluster before the installation: those in Tenon's
/// namespace, cluster-scoped ones, and those with Tenon's label in other namespaces, except the
/// namespace of the tests.
async fn left(stage: &Stage) -> anyhow::Result<BTreeSet<Object>> {
    let before =
        stage.before.get().context("the objects were not listed before the installation")?;
    let mut now = everything(&stage.cluster).await?;
    now.retain(|object| {
        let is_checked = match object.namespace.as_deref() {
            None | Some(SYSTEM) => true,
            Some(namespace) => object.is_labeled && namespace != stage.namespace.name(),
        };
        is_checked && !before.contains(object)
    });
    Ok(now)
}

fn list(objects: &[Object]) -> String {
    objects.iter().map(Object::to_string).collect::<Vec<_>>().join(", ")
}
