//! Tests that the operator uses every right that the chart grants it. The other tests show that it
//! needs no further rights.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use tenon_crds::{ConditionStatus, RuntimePool, WorkerRevision};
use tenon_e2e::{Right, SOON, Scenario, answering, await_condition, rights, worker};

use crate::audit::{AuditLog, Request};
use crate::boundary::grant;
use crate::gateway;

/// The resource, group and verb of a request.
type Use = (String, String, String);

pub async fn the_operator_uses_every_right_that_the_chart_gives_it(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let log = AuditLog::open()?;
    delete_revisions(&scenario).await?;
    repeat_failure(&scenario).await?;
    resolve_references_of_a_pool(&scenario).await?;
    let grants = grant(&scenario, &["rights.example.com"], "shop").await?;
    let name = scenario.namespace.name();
    await_condition("the status of the grant", SOON, async || {
        let status = grants.get(name).await?.status.unwrap_or_default();
        ensure!(!status.conditions.is_empty(), "the grant has no conditions");
        Ok(())
    })
    .await?;
    grants.delete(name, &DeleteParams::default()).await?;
    gateway::report_missing_backend(&scenario, "rights", &[&format!("rights.{name}.example.com")])
        .await?;
    let account = scenario.account().user();
    await_condition("the operator to use each right", SOON, async || {
        let (used, refused) = uses(log.requests()?, account);
        ensure!(refused.is_empty(), "the operator lacks rights: {refused:?}");
        // Rights on certificates are used by the test in tls.rs, which issues some.
        let expected: Vec<_> =
            rights()?.into_iter().filter(|right| !right.covers_certificates()).collect();
        let unused = unused(&expected, &used);
        ensure!(unused.is_empty(), "the operator never used: {}", unused.join("; "));
        Ok(())
    })
    .await
}

/// Makes the operator delete revisions over the history limit.
async fn delete_revisions(scenario: &Scenario) -> anyhow::Result<()> {
    let revisions = scenario.namespace.api::<WorkerRevision>();
    let mut changing = worker("changing", "");
    changing.spec.revision_history_limit = 1;
    for text in ["one", "two", "three", "four"] {
        changing.spec.source = worker("changing", &answering(text)).spec.source;
        scenario.namespace.apply(&changing).await?;
        scenario.namespace.await_ready("changing", ConditionStatus::True).await?;
    }
    // Kubernetes' timestamps have a resolution of one second, so the operator may delete any of the
    // old revisions.
    await_condition("the oldest revisions to be deleted", SOON, async || {
        let left: Vec<_> = revisions
            .list(&ListParams::default())
            .await?
            .into_iter()
            .map(|revision| revision.name_any())
            .collect();
        ensure!(left.len() == 2, "there are {left:?}, not 2 revisions");
        Ok(())
    })
    .await
}

/// Makes the operator update an Event, by repeating a failure.
async fn repeat_failure(scenario: &Scenario) -> anyhow::Result<()> {
    for status in [ConditionStatus::False, ConditionStatus::True, ConditionStatus::False] {
        let is_good = status == ConditionStatus::True;
        let code = if is_good { answering("good") } else { "export default {".to_owned() };
        scenario.namespace.apply(&worker("failing", &code)).await?;
        scenario.namespace.await_ready("failing", status).await?;
    }
    Ok(())
}

async fn resolve_references_of_a_pool(scenario: &Scenario) -> anyhow::Result<()> {
    let name = scenario.namespace.name();
    let pools: Api<RuntimePool> = Api::all(scenario.cluster.client());
    let apply = PatchParams::apply("tenon-e2e");
    let pool = json!({
        "apiVersion": "tenon.dev/v1alpha1",
        "kind": "RuntimePool",
        "metadata": {"name": name},
        "spec": {"replicas": 0, "egress": {"caCertificates": [
            {"configMapKeyRef": {"name": name, "key": "ca.crt"}},
            {"secretKeyRef": {"name": name, "key": "ca.crt"}},
        ]}},
    });
    pools.patch(name, &apply, &Patch::Apply(&pool)).await?;
    let await_reason = async |reason: &str| {
        await_condition(&format!("the pool to have the reason {reason}"), SOON, async || {
            let status = pools.get(name).await?.status.context("the pool has no status yet")?;
            ensure!(
                status.conditions.iter().any(|condition| condition.reason == reason),
                "no condition has the reason {reason}: {:?}",
                status.conditions
            );
            Ok(())
        })
        .await
    };
    await_reason("ReferenceMissing").await?;
    let authority = BTreeMap::from([("ca.crt", "text")]);
    let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": authority});
    scenario.system().api::<ConfigMap>().patch(name, &apply, &Patch::Apply(config_map)).await?;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": authority});
    scenario.system().api::<Secret>().patch(name, &apply, &Patch::Apply(secret)).await?;
    await_reason("Serving").await?;
    // After the change, the operator applies the pool's objects once more.
    let change = json!({"spec": {"isolatesPerShard": 7}});
    pools.patch(name, &PatchParams::default(), &Patch::Merge(change)).await?;
    await_condition("the pool to be applied again", SOON, async || {
        let pool = pools.get(name).await?;
        let observed = pool.status.context("the pool has no status yet")?.observed_generation;
        ensure!(observed == pool.metadata.generation, "the status is of generation {observed:?}");
        Ok(())
    })
    .await?;
    pools.delete(name, &DeleteParams::default()).await?;
    Ok(())
}

/// Returns the uses of rights by `user` that were allowed, and those that were forbidden.
fn uses(requests: Vec<Request>, user: &str) -> (BTreeSet<Use>, BTreeSet<Use>) {
    let (mut used, mut refused) = (BTreeSet::new(), BTreeSet::new());
    for request in requests {
        let is_forbidden = request.is_forbidden();
        let Some(object) = request.object_ref.filter(|_| request.user.username == user) else {
            continue;
        };
        let resource = match object.subresource {
            Some(subresource) => format!("{}/{subresource}", object.resource),
            None => object.resource,
        };
        let usage = (resource.clone(), object.api_group.clone(), request.verb.clone());
        match request.response_status.map(|status| status.code) {
            Some(_) if is_forbidden => {
                refused.insert(usage);
            }
            Some(201) => {
                // A server-side apply that creates an object requires both rights.
                used.insert((resource, object.api_group, "create".to_owned()));
                used.insert(usage);
            }
            // A request for an object that does not exist uses the right too.
            Some(_) => {
                used.insert(usage);
            }
            None => {}
        }
    }
    (used, refused)
}

fn unused(rights: &[Right], used: &BTreeSet<Use>) -> Vec<String> {
    let mut unused = Vec::new();
    for right in rights {
        for verb in &right.verbs {
            if !used.contains(&(right.resource.clone(), right.group.clone(), verb.clone())) {
                unused.push(format!("{verb} of {right}"));
            }
        }
    }
    unused
}
