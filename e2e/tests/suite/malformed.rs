//! Tests of stored objects that do not match their schema, because another version or an earlier
//! schema accepted them.

use anyhow::{Context, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use serde_json::json;
use tenon_e2e::{SOON, Scenario, answering, await_condition, worker};

const CRD: &str = "workers.tenon.dev";

/// This test is exclusive, because for a moment the API server accepts any object as a Worker.
pub async fn a_malformed_stored_object_does_not_stop_the_others(
    scenario: Scenario,
) -> anyhow::Result<()> {
    store_malformed(&scenario).await.context("cannot store a malformed Worker")?;
    await_condition("an Event that reports the malformed Worker", SOON, async || {
        let described = scenario
            .cluster
            .kubectl(&["--namespace", scenario.namespace.name(), "describe", "worker", "odd"])
            .await?;
        ensure!(
            described.contains("Malformed"),
            "the description has no Event Malformed:\n{described}"
        );
        Ok(())
    })
    .await?;

    scenario.namespace.apply(&worker("fine", &answering("fine"))).await?;
    scenario.await_answer(&scenario.namespace.host("fine"), "fine", SOON).await?;

    // A replica that starts now lists the malformed object among the others.
    let standby = scenario.start_operator().await?;
    standby.terminate().await?;

    await_malformed(&scenario, 1).await?;

    // The API server cannot merge changes into an object that it cannot decode, so the object has
    // to be replaced.
    scenario.namespace.delete_worker("odd").await?;
    scenario.namespace.apply(&worker("odd", &answering("fixed"))).await?;
    scenario.await_answer(&scenario.namespace.host("odd"), "fixed", SOON).await?;
    await_malformed(&scenario, 0).await
}

/// Waits until the operator's metric, for which there is an alert, counts `expected` malformed
/// Workers.
async fn await_malformed(scenario: &Scenario, expected: usize) -> anyhow::Result<()> {
    let series = format!("tenon_operator_malformed_objects{{kind=\"Worker\"}} {expected}");
    await_condition(&series, SOON, async || {
        let operator = scenario.operator().await;
        let metrics = operator.as_ref().context("no operator is running")?.metrics().await?;
        ensure!(
            metrics.lines().any(|line| line == series),
            "the operator counts a different number of malformed Workers"
        );
        Ok(())
    })
    .await
}

/// Stores a Worker whose source is a string, while the CRD allows everything.
async fn store_malformed(scenario: &Scenario) -> anyhow::Result<()> {
    let crds: Api<CustomResourceDefinition> = Api::all(scenario.cluster.client());
    let mut open = crds.get(CRD).await?;
    for version in &mut open.spec.versions {
        let anything = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        version.schema = Some(serde_json::from_value(anything)?);
    }
    crds.replace(CRD, &Default::default(), &open).await?;

    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("tenon.dev", "v1alpha1", "Worker"));
    let workers: Api<DynamicObject> =
        Api::namespaced_with(scenario.cluster.client(), scenario.namespace.name(), &resource);
    let odd = DynamicObject::new("odd", &resource).data(json!({"spec": {"source": "a word"}}));
    let params = PatchParams::apply("tenon-e2e").force();
    // The API server takes a moment to apply a changed schema.
    let stored =
        await_condition("the API server to accept the malformed Worker", SOON, async || {
            Ok(workers.patch("odd", &params, &Patch::Apply(&odd)).await?)
        })
        .await;
    scenario.cluster.install_crds().await?;
    stored?;
    Ok(())
}
