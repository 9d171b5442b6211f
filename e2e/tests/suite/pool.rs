//! RuntimePools.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Context, ensure};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use serde_json::json;
use tenon_crds::{ConditionStatus, RuntimePool};
use tenon_e2e::{Scenario, answering, await_condition, worker};

const SOON: Duration = Duration::from_secs(30);

/// Kubernetes' garbage collector looks for new kinds every half minute, and this one may be that new.
const COLLECTED: Duration = Duration::from_secs(90);

pub async fn a_pool_becomes_a_deployment_a_budget_and_a_service_and_they_go_with_it(
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
    ensure!(deployment.spec.replicas == Some(3), "as many replicas as the pool's");
    let service = await_only::<Service>(&scenario, SOON).await?.spec.context("a spec")?;
    ensure!(service.cluster_ip.as_deref() == Some("None"), "a headless Service: {service:?}");
    let ports: BTreeMap<_, _> =
        service.ports.into_iter().flatten().filter_map(|port| Some((port.name?, port.port))).collect();
    ensure!(ports.get("shard-0") == Some(&7100) && ports.get("shard-1") == Some(&7101), "{ports:?}");
    await_only::<PodDisruptionBudget>(&scenario, SOON).await?;
    // Kubernetes takes the Deployment for good.
    await_only::<ReplicaSet>(&scenario, SOON).await?;
    await_condition("the pool's status", SOON, async || {
        let status = pools.get(name).await?.status.context("no status yet")?;
        ensure!(status.conditions.iter().any(|condition| condition.type_ == "Ready"), "{:?}", status.conditions);
        ensure!(status.selector.as_deref().is_some_and(|selector| selector.contains(name)), "{:?}", status.selector);
        Ok(())
    })
    .await?;

    // As an autoscaler does.
    let scale = json!({"spec": {"replicas": 5}});
    pools.patch_scale(name, &PatchParams::default(), &Patch::Merge(scale)).await?;
    await_condition("the Deployment to follow the pool", SOON, async || {
        let deployment = await_only::<Deployment>(&scenario, SOON).await?;
        let replicas = deployment.spec.replicas;
        ensure!(replicas == Some(5), "{replicas:?}");
        Ok(())
    })
    .await?;

    pools.delete(name, &DeleteParams::default()).await?;
    await_none::<Deployment>(&scenario).await?;
    await_none::<Service>(&scenario).await?;
    await_none::<PodDisruptionBudget>(&scenario).await
}

pub async fn a_worker_that_asks_for_more_than_its_pool_allows_is_told_so(scenario: Scenario) -> anyhow::Result<()> {
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
    // Until the operator knows the pool, it knows no maximum.
    await_only::<Deployment>(&scenario, SOON).await?;

    let mut greedy = worker("greedy", &answering("hello"));
    greedy.spec.pool = name.to_owned();
    greedy.spec.limits.cpu_ms = Some(101);
    scenario.namespace.apply(&greedy).await?;
    let condition = scenario.namespace.await_ready("greedy", ConditionStatus::False).await?;
    ensure!(condition.reason == "LimitOverMaximum", "{condition:?}");
    ensure!(condition.message.starts_with("spec.limits.cpuMs: 101 is more"), "{condition:?}");

    // Nobody touches the Worker itself.
    pools.patch(name, &apply, &Patch::Apply(pool(101))).await?;
    scenario.namespace.await_ready("greedy", ConditionStatus::True).await?;
    pools.delete(name, &DeleteParams::default()).await?;
    Ok(())
}

/// What of a kind belongs to the pool that is called like the test's namespace.
async fn of_pool<K>(scenario: &Scenario) -> anyhow::Result<Vec<K>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let label = format!("tenon.dev/pool={}", scenario.namespace.name());
    Ok(scenario.system().api::<K>().list(&ListParams::default().labels(&label)).await?.items)
}

async fn await_only<K>(scenario: &Scenario, within: Duration) -> anyhow::Result<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    await_condition(&format!("the pool's {}", K::kind(&())), within, async || {
        let mut found = of_pool::<K>(scenario).await?;
        ensure!(found.len() == 1, "there are {}", found.len());
        found.pop().context("there is one")
    })
    .await
}

async fn await_none<K>(scenario: &Scenario) -> anyhow::Result<()>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    await_condition(&format!("the pool's {} to be gone", K::kind(&())), COLLECTED, async || {
        let found = of_pool::<K>(scenario).await?;
        ensure!(found.is_empty(), "there are {}", found.len());
        Ok(())
    })
    .await
}
