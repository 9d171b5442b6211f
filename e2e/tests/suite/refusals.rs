//! Tests of objects that the API server refuses to store for the operator. The status gives the
//! reason until a retry succeeds.

use anyhow::{Context, ensure};
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use tenon_crds::{Condition, ConditionStatus, ConfigMapRef, RuntimePool, Source, WorkerRevision};
use tenon_e2e::{SOON, Scenario, answering, await_condition, worker};

use crate::audit::{AuditLog, Request};
use crate::pool::COLLECTED;

/// The resource of a quota that counts WorkerRevisions.
const COUNT: &str = "count/workerrevisions.tenon.dev";

pub async fn a_quota_is_named_until_it_is_raised(scenario: Scenario) -> anyhow::Result<()> {
    let namespace = &scenario.namespace;
    namespace.apply(&worker("counted", &answering("one"))).await?;
    namespace.await_ready("counted", ConditionStatus::True).await?;
    let quotas = namespace.api::<ResourceQuota>();
    let apply = PatchParams::apply("tenon-e2e").force();
    let quota = |count: &str| {
        Patch::Apply(json!({
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "few"},
            "spec": {"hard": {COUNT: count, "pods": fastrand::u16(..).to_string()}},
        }))
    };
    await_condition("the quota to take effect", COLLECTED, async || {
        // Kubernetes looks for new kinds every 30 seconds, and counts objects when a quota changes,
        // so each attempt changes the quota.
        quotas.patch("few", &apply, &quota("1")).await?;
        let status = quotas.get("few").await?.status.context("the quota has no status")?;
        ensure!(
            status.used.is_some_and(|used| used.contains_key(COUNT)),
            "the quota does not count revisions yet"
        );
        Ok(())
    })
    .await?;

    namespace.apply(&worker("counted", &answering("two"))).await?;
    let ready = await_stalled(&scenario, "counted").await?;
    ensure!(
        ready.reason == "QuotaExceeded" && ready.message.contains("few"),
        "the condition Ready is {ready:?}"
    );
    scenario.await_answer(&namespace.host("counted"), "one", SOON).await?;
    quotas.patch("few", &apply, &quota("9")).await?;
    namespace.await_ready("counted", ConditionStatus::True).await?;
    scenario.await_answer(&namespace.host("counted"), "two", SOON).await?;
    Ok(())
}

pub async fn a_policy_is_named_until_it_is_gone(scenario: Scenario) -> anyhow::Result<()> {
    let namespace = &scenario.namespace;
    namespace.apply(&worker("denied", &answering("first"))).await?;
    namespace.await_ready("denied", ConditionStatus::True).await?;
    let status = namespace.worker("denied").await?.status.context("the Worker has no status")?;
    let first = status.latest_revision.context("the status has no latest revision")?;
    let policy =
        Policy::deny(&scenario, "tenon.dev", "v1alpha1", "workerrevisions", "true").await?;
    let label = Patch::Merge(json!({"metadata": {"labels": {"tried": "yes"}}}));
    await_condition("the policy to take effect", SOON, async || {
        let revisions = namespace.api::<WorkerRevision>();
        let refused = revisions.patch(&first, &PatchParams::default().dry_run(), &label).await;
        let refused =
            refused.err().context("the policy still allows changes of revisions")?.to_string();
        ensure!(refused.contains("denied"), "the refusal is {refused:?}");
        Ok(())
    })
    .await?;
    namespace.apply(&worker("denied", &answering("at last"))).await?;
    let log = AuditLog::open()?.from_now()?;
    let ready = await_stalled(&scenario, "denied").await?;
    ensure!(
        ready.reason == "AdmissionDenied" && ready.message.contains("not today"),
        "the condition Ready is {ready:?}"
    );
    ensure_pauses(&scenario, &log).await?;
    policy.delete().await?;
    namespace.await_ready("denied", ConditionStatus::True).await?;
    scenario.await_answer(&namespace.host("denied"), "at last", SOON).await?;
    Ok(())
}

/// Checks that the operator pauses between attempts.
async fn ensure_pauses(scenario: &Scenario, log: &AuditLog) -> anyhow::Result<()> {
    let refused = |request: &Request| {
        request.is_in(scenario.namespace.name())
            && request.user.username == scenario.account().user()
            && request
                .object_ref
                .as_ref()
                .is_some_and(|object| object.resource == "workerrevisions")
            && request.response_status.as_ref().is_some_and(|status| status.code >= 400)
    };
    let attempts = await_condition("several attempts", SOON, async || {
        let attempts: Vec<_> = log.requests()?.into_iter().filter(&refused).collect();
        ensure!(attempts.len() >= 6, "there were {} attempts, fewer than 6", attempts.len());
        Ok(attempts)
    })
    .await?;
    let [first, last] = [0, 5].map(|number: usize| attempts[number].request_received_timestamp);
    // The status write triggers one attempt without a pause; the other pauses double from 0.2 s.
    let took = last.duration_since(first);
    ensure!(took.as_secs() >= 2, "six attempts took {took:?}, less than 2 s");
    Ok(())
}

pub async fn a_bundle_that_does_not_fit_into_etcd_is_named_while_its_predecessor_serves(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let namespace = &scenario.namespace;
    // In etcd, the JSON of the object has six bytes for each `<`.
    let large = format!("{}\nconst text = '{}';\n", answering("large"), "<".repeat(900_000));
    namespace.apply_config_map("code", &[("worker.js", &answering("small"))]).await?;
    let mut bundle = worker("bundle", "");
    bundle.spec.source = Source {
        config_map_ref: Some(ConfigMapRef { name: "code".to_owned() }),
        ..Source::default()
    };
    namespace.apply(&bundle).await?;
    scenario.await_answer(&namespace.host("bundle"), "small", SOON).await?;
    namespace.apply_config_map("code", &[("worker.js", &large)]).await?;
    let ready = await_stalled(&scenario, "bundle").await?;
    ensure!(ready.reason == "TooLarge", "the condition Ready is {ready:?}");
    scenario.await_answer(&namespace.host("bundle"), "small", SOON).await?;
    namespace.apply_config_map("code", &[("worker.js", &answering("fixed"))]).await?;
    namespace.await_ready("bundle", ConditionStatus::True).await?;
    scenario.await_answer(&namespace.host("bundle"), "fixed", SOON).await?;
    Ok(())
}

pub async fn a_pool_whose_deployment_is_denied_reports_it(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let name = scenario.namespace.name();
    let is_deployment = format!("object.metadata.name == 'tenon-pool-{name}'");
    let policy = Policy::deny(&scenario, "apps", "v1", "deployments", &is_deployment).await?;
    let pools: Api<RuntimePool> = Api::all(scenario.cluster.client());
    let apply = PatchParams::apply("tenon-e2e").force();
    let denied = await_condition("the pool to be stalled", SOON, async || {
        // The policy takes effect a moment after it is stored. Each attempt changes the pool, so
        // that the operator applies its Deployment again.
        let shards = fastrand::i32(1..=16);
        let pool = json!({
            "apiVersion": "tenon.dev/v1alpha1",
            "kind": "RuntimePool",
            "metadata": {"name": name},
            "spec": {"replicas": 0, "shardsPerNode": shards},
        });
        pools.patch(name, &apply, &Patch::Apply(&pool)).await?;
        stalled(&pools.get(name).await?.status.context("the pool has no status")?.conditions)
    })
    .await?;
    ensure!(denied.reason == "AdmissionDenied", "the condition Ready is {denied:?}");
    policy.delete().await?;
    await_condition("the pool to be ready", SOON, async || {
        let conditions =
            pools.get(name).await?.status.context("the pool has no status")?.conditions;
        ensure!(
            conditions.len() == 1 && conditions[0].reason == "Serving",
            "the conditions are {conditions:?}"
        );
        Ok(())
    })
    .await?;
    pools.delete(name, &DeleteParams::default()).await?;
    Ok(())
}

/// Waits until a Worker is stalled, and returns the condition `Ready`.
pub(crate) async fn await_stalled(scenario: &Scenario, name: &str) -> anyhow::Result<Condition> {
    await_condition(&format!("Worker {name} to be stalled"), SOON, async || {
        let status = scenario
            .namespace
            .worker(name)
            .await?
            .status
            .context("the Worker has no status yet")?;
        stalled(&status.conditions)
    })
    .await
}

/// Returns the condition `Ready` of a stalled object.
fn stalled(conditions: &[Condition]) -> anyhow::Result<Condition> {
    let find = |type_| conditions.iter().find(|condition| condition.type_ == type_);
    let stalled = find("Stalled")
        .with_context(|| format!("there is no condition Stalled among {conditions:?}"))?;
    let ready = find("Ready").context("there is no condition Ready yet")?;
    ensure!(
        find("Reconciling").is_none() && stalled.reason == ready.reason,
        "the object is reconciling, or Stalled and Ready differ in reason: {conditions:?}"
    );
    Ok(ready.clone())
}

/// A policy of the cluster that denies writes in the namespaces of a test and of the operator.
struct Policy<'a> {
    scenario: &'a Scenario,
}

impl<'a> Policy<'a> {
    /// Creates a policy that denies writes of those objects of a resource for which `expression` is
    /// true.
    async fn deny(
        scenario: &'a Scenario,
        group: &str,
        version: &str,
        resource: &str,
        expression: &str,
    ) -> anyhow::Result<Self> {
        let name = scenario.namespace.name();
        let namespaces = json!([name, scenario.system().name()]);
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "matchConstraints": {
                    "namespaceSelector": {"matchExpressions": [
                        {"key": "kubernetes.io/metadata.name", "operator": "In", "values": namespaces},
                    ]},
                    "resourceRules": [{
                        "apiGroups": [group],
                        "apiVersions": [version],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": [resource],
                    }],
                },
                "validations": [{"expression": format!("!({expression})"), "message": "not today"}],
            },
        });
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        });
        let client = scenario.cluster.client();
        let apply = PatchParams::apply("tenon-e2e").force();
        let apply_all = async |policy: Value, binding: Value| -> kube::Result<()> {
            let policies: Api<ValidatingAdmissionPolicy> = Api::all(client.clone());
            policies.patch(name, &apply, &Patch::Apply(policy)).await?;
            let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(client.clone());
            bindings.patch(name, &apply, &Patch::Apply(binding)).await?;
            Ok(())
        };
        apply_all(policy, binding).await?;
        Ok(Self { scenario })
    }

    async fn delete(self) -> anyhow::Result<()> {
        let (client, name) = (self.scenario.cluster.client(), self.scenario.namespace.name());
        let now = DeleteParams::default();
        let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(client.clone());
        bindings.delete(name, &now).await?;
        Api::<ValidatingAdmissionPolicy>::all(client).delete(name, &now).await?;
        Ok(())
    }
}
