//! Tests of the boundaries between namespaces: which pools they may choose, and which hosts their
//! Workers may claim.

use anyhow::ensure;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use tenon_crds::{ConditionStatus, HostGrant, Route, RuntimePool, Worker};
use tenon_e2e::{Load, Prober, SOON, Scenario, answering, await_condition, worker};

/// The rendered admission policies of the chart, relative to the repository's root.
const POLICIES: &str = "charts/tests/testdata/admission.yaml";

fn apply() -> PatchParams {
    PatchParams::apply("tenon-e2e").force()
}

/// Sets or removes the label of the scenario's namespace that the pool of these tests requires.
async fn label(scenario: &Scenario, value: Option<&str>) -> anyhow::Result<()> {
    let namespaces: Api<Namespace> = Api::all(scenario.cluster.client());
    let change = json!({"metadata": {"labels": {"tier": value}}});
    let name = scenario.namespace.name();
    namespaces.patch(name, &PatchParams::default(), &Patch::Merge(change)).await?;
    Ok(())
}

/// Applies a pool with the namespace's name that allows namespaces with the label `tier: gold`.
async fn apply_gold_pool(scenario: &Scenario) -> anyhow::Result<Api<RuntimePool>> {
    let pools: Api<RuntimePool> = Api::all(scenario.cluster.client());
    let name = scenario.namespace.name();
    let selector = json!({"matchLabels": {"tier": "gold"}});
    let pool = json!({
        "apiVersion": "tenon.dev/v1alpha1",
        "kind": "RuntimePool",
        "metadata": {"name": name},
        "spec": {
            "replicas": 0,
            "allowedNamespaces": {"from": "Selector", "selector": selector},
        },
    });
    pools.patch(name, &apply(), &Patch::Apply(pool)).await?;
    Ok(pools)
}

pub async fn a_pool_that_does_not_allow_a_namespace_is_named_while_the_accepted_revision_serves(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let namespace = &scenario.namespace;
    let pools = apply_gold_pool(&scenario).await?;
    namespace.apply(&worker("placed", &answering("good"))).await?;
    let host = namespace.host("placed");
    scenario.await_answer(&host, "good", SOON).await?;
    let prober = Prober::start(&scenario.router, Load::get(std::slice::from_ref(&host)));

    let mut moving = worker("placed", &answering("elsewhere"));
    moving.spec.pool = namespace.name().to_owned();
    namespace.apply(&moving).await?;
    let ready = namespace.await_ready("placed", ConditionStatus::False).await?;
    ensure!(
        ready.reason == "PoolNotAllowed" && ready.message.starts_with("spec.pool: "),
        "the condition Ready is {ready:?}"
    );
    prober.await_served(50).await?;
    let report = prober.stop().await?;
    report.ensure_no_failure()?;
    ensure!(report.bodies().keys().eq(&["good"]), "the outcomes are not as expected: {report}");

    // Only the labels of the namespace change.
    label(&scenario, Some("gold")).await?;
    namespace.await_ready("placed", ConditionStatus::True).await?;
    label(&scenario, Some("silver")).await?;
    let ready = namespace.await_ready("placed", ConditionStatus::False).await?;
    ensure!(ready.reason == "PoolNotAllowed", "the condition Ready is {ready:?}");
    let status = namespace.worker("placed").await?.status.unwrap_or_default();
    let pool = status.accepted.map(|accepted| accepted.pool);
    ensure!(pool.as_deref() == Some(namespace.name()), "the accepted pool is {pool:?}");

    namespace.delete_worker("placed").await?;
    pools.delete(namespace.name(), &DeleteParams::default()).await?;
    Ok(())
}

/// Applies a grant with the name of the scenario's namespace.
pub(crate) async fn grant(
    scenario: &Scenario,
    hosts: &[&str],
    to: &str,
) -> anyhow::Result<Api<HostGrant>> {
    let grants: Api<HostGrant> = Api::all(scenario.cluster.client());
    let name = scenario.namespace.name();
    let grant = json!({
        "apiVersion": "tenon.dev/v1alpha1",
        "kind": "HostGrant",
        "metadata": {"name": name},
        "spec": {"hosts": hosts, "namespaces": {"names": [to]}},
    });
    grants.patch(name, &apply(), &Patch::Apply(grant)).await?;
    Ok(grants)
}

pub async fn a_host_is_served_only_while_it_is_granted(scenario: Scenario) -> anyhow::Result<()> {
    let namespace = &scenario.namespace;
    let host = format!("granted.{}.example.com", namespace.name());
    let mut shop = worker("shop", &answering("shop"));
    shop.spec.routes = vec![Route { host: host.clone(), path: "/".to_owned() }];
    namespace.apply(&shop).await?;
    scenario.await_answer(&host, "shop", SOON).await?;
    namespace.await_ready("shop", ConditionStatus::True).await?;

    let grants = grant(&scenario, &[&host], "another").await?;
    let ready = namespace.await_ready("shop", ConditionStatus::False).await?;
    ensure!(
        ready.reason == "HostNotGranted" && ready.message.starts_with("spec.routes: "),
        "the condition Ready is {ready:?}"
    );
    let mut connection = scenario.router.connection();
    await_condition("the host not to be served", SOON, async || {
        let answer = connection.get(&host, "/").await?;
        ensure!(answer.status == 404, "the response is {} {}", answer.status, answer.body);
        Ok(())
    })
    .await?;

    grant(&scenario, &[&host], namespace.name()).await?;
    scenario.await_answer(&host, "shop", SOON).await?;
    namespace.await_ready("shop", ConditionStatus::True).await?;
    grants.delete(namespace.name(), &DeleteParams::default()).await?;
    Ok(())
}

pub async fn a_grant_of_a_public_suffix_is_refused(scenario: Scenario) -> anyhow::Result<()> {
    let refused = grant(&scenario, &["*.com"], "shop").await.map(drop);
    let refused = refused.err().map(|error| format!("{error:#}")).unwrap_or_default();
    ensure!(refused.contains("spec.hosts: a wildcard below a top-level domain"), "{refused:?}");
    let grants = grant(&scenario, &["*.co.uk"], "shop").await?;
    let name = scenario.namespace.name();
    await_condition("the grant to be refused", SOON, async || {
        let grant = grants.get(name).await?;
        let generation = grant.metadata.generation;
        let status = grant.status.unwrap_or_default();
        ensure!(status.observed_generation == generation, "the status is outdated");
        let reasons: Vec<_> =
            status.conditions.iter().map(|condition| condition.reason.as_str()).collect();
        ensure!(reasons == ["PublicSuffix"; 2], "the reasons are {reasons:?}");
        Ok(())
    })
    .await?;
    grants.delete(name, &DeleteParams::default()).await?;
    Ok(())
}

/// The policies apply to the whole cluster, so the test runs alone.
pub async fn the_charts_policies_refuse_at_apply_what_the_operator_would_refuse(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let pools = apply_gold_pool(&scenario).await?;
    let kubectl = async |arguments: &[&str]| scenario.cluster.kubectl(arguments).await;
    kubectl(&["apply", "--server-side", "-f", POLICIES]).await?;
    let outcome = try_policies(&scenario).await;
    kubectl(&["delete", "-f", POLICIES]).await?;
    pools.delete(scenario.namespace.name(), &DeleteParams::default()).await?;
    outcome
}

async fn try_policies(scenario: &Scenario) -> anyhow::Result<()> {
    let name = scenario.namespace.name();
    let dry_run = apply().dry_run();
    let workers = scenario.namespace.api::<Worker>();
    let verdict = async |spec: Value| {
        let mut worker = serde_json::to_value(worker("tried", &answering("hello")))?;
        worker["apiVersion"] = json!("tenon.dev/v1alpha1");
        worker["kind"] = json!("Worker");
        for (field, value) in spec.as_object().into_iter().flatten() {
            worker["spec"][field] = value.clone();
        }
        let tried = workers.patch("tried", &dry_run, &Patch::Apply(worker)).await;
        anyhow::Ok(tried.err().map(|error| error.to_string()).unwrap_or_default())
    };
    let gold = json!({"pool": name});
    await_condition("the policies to take effect", SOON, async || {
        let refusal = verdict(gold.clone()).await?;
        let expected = format!("spec.pool: RuntimePool {name} does not allow");
        ensure!(refusal.contains(&expected), "the refusal is {refusal:?}");
        Ok(())
    })
    .await?;
    let route = |host: String| json!({"routes": [{"host": host}]});
    for (spec, expected) in [
        (json!({}), ""),
        (json!({"pool": "missing"}), ""),
        (route("tenon.localhost".to_owned()), "spec.routes.host: "),
        (route("shop.other.tenon.localhost".to_owned()), "spec.routes.host: "),
        (route("*.tenon.localhost".to_owned()), "spec.routes.host: "),
        (route(format!("*.{name}.tenon.localhost")), ""),
        (route(format!("a.b.{name}.tenon.localhost")), ""),
        (route("nottenon.localhost".to_owned()), ""),
    ] {
        let refusal = verdict(spec.clone()).await?;
        let is_expected = refusal.contains(expected) && refusal.is_empty() == expected.is_empty();
        ensure!(is_expected, "the verdict on {spec} is {refusal:?}");
    }
    label(scenario, Some("gold")).await?;
    await_condition("the pool to be allowed", SOON, async || {
        let refusal = verdict(gold.clone()).await?;
        ensure!(refusal.is_empty(), "the refusal is {refusal:?}");
        Ok(())
    })
    .await?;

    // A Worker that was accepted may be changed after its namespace has lost the label.
    let mut placed = worker("placed", &answering("hello"));
    placed.spec.pool = name.to_owned();
    scenario.namespace.apply(&placed).await?;
    label(scenario, None).await?;
    await_condition("the pool to be refused again", SOON, async || {
        let refusal = verdict(gold.clone()).await?;
        ensure!(!refusal.is_empty(), "the pool is allowed");
        Ok(())
    })
    .await?;
    placed.annotations_mut().insert("changed".to_owned(), "yes".to_owned());
    scenario.namespace.apply(&placed).await?;
    scenario.namespace.delete_worker("placed").await?;

    let platform = grant(scenario, &["shop.tenon.localhost"], "shop").await.map(drop);
    let refusal = platform.err().map(|error| format!("{error:#}")).unwrap_or_default();
    ensure!(refusal.contains("spec.hosts: a host is in the platform's domain"), "{refusal:?}");
    Ok(())
}
