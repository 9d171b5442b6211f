//! Tests of RuntimePools.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Context, ensure};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use serde_json::json;
use tenon_crds::{ConditionStatus, RuntimePool};
use tenon_e2e::{SOON, Scenario, answering, await_condition, worker};

/// Time limit for Kubernetes' garbage collector and quotas. They discover new kinds only every 30
/// seconds, and the tested kind may be new.
pub const COLLECTED: Duration = Duration::from_secs(90);

pub async fn a_pool_creates_and_deletes_a_deployment_a_budget_and_a_service(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let name = scenario.namespace.name();
    let pools: Api<RuntimePool> = Api::all(scenario.cluster.client());
    let pool = json!({
        "apiVersion": "tenon.dev/v1alpha1",
        "kind": "RuntimePool",
        "metadata": {"name": name},
        "spec": {"replicas": 3, "shardsPerNode": 2, "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}},
    });
    pools.patch(name, &PatchParams::apply("tenon-e2e"), &Patch::Apply(&pool)).await?;

    let deployment = await_only::<Deployment>(&scenario, SOON).await?;
    ensure!(
        deployment.spec.replicas == Some(3),
        "the Deployment has {:?} replicas, not 3",
        deployment.spec.replicas
    );
    let service =
        await_only::<Service>(&scenario, SOON).await?.spec.context("the Service has no spec")?;
    ensure!(
        service.cluster_ip.as_deref() == Some("None"),
        "the Service is not headless: {service:?}"
    );
    let ports: BTreeMap<_, _> = service
        .ports
        .into_iter()
        .flatten()
        .filter_map(|port| Some((port.name?, port.port)))
        .collect();
    ensure!(
        ports.get("shard-0") == Some(&7100) && ports.get("shard-1") == Some(&7101),
        "the ports of the shards are not 7100 and 7101: {ports:?}"
    );
    ensure!(
        ports.get("lane-0") == Some(&7102),
        "the port of the first lane is not 7102: {ports:?}"
    );
    await_only::<PodDisruptionBudget>(&scenario, SOON).await?;
    // The Deployment controller creates a ReplicaSet for the Deployment.
    await_only::<ReplicaSet>(&scenario, SOON).await?;
    await_condition("the pool's conditions and selector", SOON, async || {
        let status = pools.get(name).await?.status.context("the pool has no status yet")?;
        ensure!(
            status.conditions.iter().any(|condition| condition.type_ == "Ready"),
            "there is no condition Ready among {:?}",
            status.conditions
        );
        ensure!(
            status.selector.as_deref().is_some_and(|selector| selector.contains(name)),
            "the selector does not contain {name}: {:?}",
            status.selector
        );
        Ok(())
    })
    .await?;

    // An autoscaler uses the scale subresource as well.
    let scale = json!({"spec": {"replicas": 5}});
    pools.patch_scale(name, &PatchParams::default(), &Patch::Merge(scale)).await?;
    await_condition("the Deployment to follow the pool", SOON, async || {
        let deployment = await_only::<Deployment>(&scenario, SOON).await?;
        let replicas = deployment.spec.replicas;
        ensure!(replicas == Some(5), "the Deployment has {replicas:?} replicas, not 5");
        Ok(())
    })
    .await?;

    pools.delete(name, &DeleteParams::default()).await?;
    await_none::<Deployment>(&scenario).await?;
    await_none::<Service>(&scenario).await?;
    await_none::<PodDisruptionBudget>(&scenario).await
}

pub async fn a_worker_that_requests_more_than_its_pool_allows_is_not_ready(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let name = scenario.namespace.name();
    let pools: Api<RuntimePool> = Api::all(scenario.cluster.client());
    let pool = |max_cpu_ms: i32| {
        json!({
            "apiVersion": "tenon.dev/v1alpha1",
            "kind": "RuntimePool",
            "metadata": {"name": name},
            "spec": {"replicas": 0, "limits": {"max": {"cpuMs": max_cpu_ms}}},
        })
    };
    let apply = PatchParams::apply("tenon-e2e");
    pools.patch(name, &apply, &Patch::Apply(pool(100))).await?;
    // The operator knows the maximum once it knows the pool.
    await_only::<Deployment>(&scenario, SOON).await?;

    let mut greedy = worker("greedy", &answering("hello"));
    greedy.spec.pool = name.to_owned();
    greedy.spec.limits.cpu_ms = Some(101);
    scenario.namespace.apply(&greedy).await?;
    let condition = scenario.namespace.await_ready("greedy", ConditionStatus::False).await?;
    ensure!(condition.reason == "LimitOverMaximum", "the condition is {condition:?}");
    ensure!(
        condition.message.starts_with("spec.limits.cpuMs: 101 is more"),
        "the condition is {condition:?}"
    );

    // The Worker itself is not changed.
    pools.patch(name, &apply, &Patch::Apply(pool(101))).await?;
    scenario.namespace.await_ready("greedy", ConditionStatus::True).await?;
    pools.delete(name, &DeleteParams::default()).await?;
    Ok(())
}

pub async fn a_pool_waits_for_its_certificates_and_its_nodes_follow_their_changes(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let name = scenario.namespace.name();
    let pools: Api<RuntimePool> = Api::all(scenario.cluster.client());
    let pool = json!({
        "apiVersion": "tenon.dev/v1alpha1",
        "kind": "RuntimePool",
        "metadata": {"name": name},
        "spec": {"replicas": 0, "egress": {
            "denyCidrs": ["203.0.113.0/24"],
            "caCertificates": [{"configMapKeyRef": {"name": name, "key": "ca.crt"}}],
            "proxy": {"url": "http://proxy.example.com:3128"},
        }},
    });
    let apply = PatchParams::apply("tenon-e2e");
    pools.patch(name, &apply, &Patch::Apply(&pool)).await?;
    await_condition("the status to name the missing key", SOON, async || {
        let status = pools.get(name).await?.status.context("the pool has no status yet")?;
        let ready = status
            .conditions
            .iter()
            .find(|condition| condition.type_ == "Ready")
            .context("there is no condition Ready yet")?;
        ensure!(ready.reason == "ReferenceMissing", "the condition Ready is {ready:?}");
        let named = format!(
            "spec.egress.caCertificates[0]: key \"ca.crt\" of ConfigMap {name} does not exist"
        );
        ensure!(ready.message.starts_with(&named), "the condition Ready is {ready:?}");
        Ok(())
    })
    .await?;
    ensure!(
        pool_objects::<Deployment>(&scenario).await?.is_empty(),
        "the operator created a Deployment before the certificates existed"
    );

    let config_maps = scenario.system().api::<ConfigMap>();
    let certificates = |text: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"ca.crt": text}});
    // The pool itself is not changed.
    config_maps.patch(name, &apply, &Patch::Apply(certificates("one"))).await?;
    let template = async || {
        let deployment = await_only::<Deployment>(&scenario, SOON).await?;
        let digest = deployment.spec.template.metadata.and_then(|metadata| metadata.annotations);
        let digest = digest
            .and_then(|mut all| all.remove("tenon.dev/references"))
            .context("the template has no annotation tenon.dev/references")?;
        anyhow::Ok((digest, deployment.spec.template.spec.context("the template has no Pod spec")?))
    };
    let (before, pod) = template().await?;
    let args = pod.containers[0].args.clone().unwrap_or_default();
    for expected in [
        "--egress-deny=203.0.113.0/24",
        "--egress-ca-file=/etc/tenon/authorities/0.pem",
        "--egress-proxy=http://proxy.example.com:3128",
        "--egress-proxy-resolver=node",
    ] {
        ensure!(args.iter().any(|arg| arg == expected), "{expected} is not among {args:?}");
    }
    config_maps.patch(name, &apply, &Patch::Apply(certificates("two"))).await?;
    await_condition("a changed template for the changed certificates", SOON, async || {
        ensure!(template().await?.0 != before, "the template has not changed");
        Ok(())
    })
    .await?;
    pools.delete(name, &DeleteParams::default()).await?;
    config_maps.delete(name, &DeleteParams::default()).await?;
    Ok(())
}

/// Returns the objects of a kind that belong to the pool named like the test's namespace.
async fn pool_objects<K>(scenario: &Scenario) -> anyhow::Result<Vec<K>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned,
{
    let label = format!("tenon.dev/pool={}", scenario.namespace.name());
    Ok(scenario.system().api::<K>().list(&ListParams::default().labels(&label)).await?.items)
}

async fn await_only<K>(scenario: &Scenario, within: Duration) -> anyhow::Result<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned,
{
    await_condition(&format!("the {} of the pool", K::kind(&())), within, async || {
        let mut found = pool_objects::<K>(scenario).await?;
        ensure!(found.len() == 1, "the pool has {}, not 1", found.len());
        found.pop().context("the pool has none")
    })
    .await
}

async fn await_none<K>(scenario: &Scenario) -> anyhow::Result<()>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned,
{
    await_condition(
        &format!("the {} of the pool to be gone", K::kind(&())),
        COLLECTED,
        async || {
            let found = pool_objects::<K>(scenario).await?;
            ensure!(found.is_empty(), "the pool still has {}", found.len());
            Ok(())
        },
    )
    .await
}
