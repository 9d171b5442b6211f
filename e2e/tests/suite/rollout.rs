//! Tests that the requests that routers count decide whether a new revision is rolled out or taken
//! back.

use std::time::Duration;

use anyhow::{Context, ensure};
use k8s_openapi::api::events::v1::Event;
use kube::api::ListParams;
use serde_json::json;
use tenon_crds::{ConditionStatus, RolloutPhase, Worker, WorkerStatus};
use tenon_e2e::{
    Load, Namespace, Prober, Report, SOON, Scenario, answering, await_condition, worker,
};

/// Time limit for a rollout with all its steps.
const DECIDED: Duration = Duration::from_secs(120);

/// A revision that throws for three of ten requests.
const BAD: &str = "let count = 0;
export default {
  fetch() {
    count += 1;
    if (count % 10 < 3) throw new Error('bad');
    return new Response('new');
  }
};";

/// Returns a Worker whose rollouts have two steps. The bound on latencies is the largest that the
/// schema allows, because other tests may run on the same cores.
fn rolled_out(name: &str, code: &str, seconds: i32) -> anyhow::Result<Worker> {
    let mut worker = worker(name, code);
    let step = |percent: i32| json!({"percent": percent, "durationSeconds": seconds});
    worker.spec.rollout = serde_json::from_value(json!({
        "steps": [step(20), step(50)],
        "analysis": {"minRequests": 50, "maxP99Percent": 10_000},
    }))?;
    Ok(worker)
}

/// Applies a Worker, and returns the name of its revision once it serves.
async fn deploy(namespace: &Namespace, worker: &Worker) -> anyhow::Result<String> {
    namespace.apply(worker).await?;
    let name = worker.metadata.name.as_deref().unwrap_or_default();
    namespace.await_ready(name, ConditionStatus::True).await?;
    status(namespace, name).await?.latest_revision.context("the Worker has no revision")
}

async fn status(namespace: &Namespace, name: &str) -> anyhow::Result<WorkerStatus> {
    namespace.worker(name).await?.status.context("the Worker has no status")
}

/// Waits until the rollout of a revision ends in a phase, and a router has acknowledged that.
async fn await_phase(
    namespace: &Namespace,
    name: &str,
    revision: &str,
    phase: RolloutPhase,
) -> anyhow::Result<WorkerStatus> {
    await_condition(&format!("the rollout to be {}", phase.as_str()), DECIDED, async || {
        let status = status(namespace, name).await?;
        let rollout = status.rollout.as_ref().context("the status has no rollout")?;
        ensure!(
            rollout.revision == revision && rollout.phase == phase,
            "{rollout:?}, with {:?}",
            status.rollout_figures
        );
        Ok(())
    })
    .await?;
    namespace.await_ready(name, ConditionStatus::True).await?;
    status(namespace, name).await
}

async fn await_event(namespace: &Namespace, reason: &str) -> anyhow::Result<()> {
    await_condition(&format!("the Event {reason}"), SOON, async || {
        let events = namespace.api::<Event>().list(&ListParams::default()).await?;
        let has_event = events.iter().any(|event| event.reason.as_deref() == Some(reason));
        ensure!(has_event, "there is no such Event");
        Ok(())
    })
    .await
}

/// Sends requests, and returns their report.
async fn probe(scenario: &Scenario, host: &str, requests: usize) -> anyhow::Result<Report> {
    let prober = Prober::start(&scenario.router, Load::get(&[host.to_owned()]));
    prober.await_served(requests).await?;
    prober.stop().await
}

pub async fn a_bad_canary_is_taken_back_while_the_stable_revision_serves(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let namespace = &scenario.namespace;
    // The steps are long, so that the rollout is taken back and not completed.
    let old = deploy(namespace, &rolled_out("guarded", &answering("old"), 300)?).await?;
    let host = namespace.host("guarded");
    let prober = Prober::start(&scenario.router, Load::get(std::slice::from_ref(&host)));
    let new = deploy(namespace, &rolled_out("guarded", BAD, 300)?).await?;
    let status = await_phase(namespace, "guarded", &new, RolloutPhase::TakenBack).await?;

    let accepted = status.accepted.context("nothing is accepted")?.traffic;
    let shares: Vec<_> =
        accepted.iter().map(|target| (target.revision.as_str(), target.percent)).collect();
    ensure!(shares == [(old.as_str(), 100)], "the shares are {shares:?}");
    ensure!(
        status.latest_revision.as_ref() == Some(&new),
        "{:?} is latest",
        status.latest_revision
    );
    let condition = status.conditions.iter().find(|condition| condition.type_ == "RolledOut");
    let condition = condition.context("the Worker has no condition RolledOut")?;
    ensure!(
        condition.status == ConditionStatus::False
            && condition.reason == "TakenBack"
            && condition.message.contains("requests failed"),
        "the condition is {condition:?}"
    );
    await_event(namespace, "RolloutTakenBack").await?;
    let during = prober.stop().await?;
    ensure!(
        during.bodies().get("old").is_some_and(|served| *served > 0),
        "the stable revision did not serve meanwhile: {during}"
    );
    let after = probe(&scenario, &host, 300).await?;
    after.ensure_no_failure()?;
    ensure!(
        after.bodies().into_keys().eq(["old"]),
        "the bad revision serves: {:?}",
        after.bodies()
    );

    // The revision stays taken back, and another one is rolled out.
    let next = deploy(namespace, &rolled_out("guarded", &answering("next"), 1)?).await?;
    probe(&scenario, &host, 300).await?.ensure_no_failure()?;
    let prober = Prober::start(&scenario.router, Load::get(&[host]));
    await_phase(namespace, "guarded", &next, RolloutPhase::Completed).await?;
    prober.stop().await?.ensure_no_failure()
}

pub async fn a_good_canary_gets_all_requests_without_a_failed_request(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let namespace = &scenario.namespace;
    let first = deploy(namespace, &rolled_out("eased", &answering("old"), 2)?).await?;
    let status = status(namespace, "eased").await?;
    let rollout = status.rollout.context("the status has no rollout")?;
    ensure!(
        rollout.revision == first && rollout.phase == RolloutPhase::Completed,
        "the first revision is rolled out: {rollout:?}"
    );
    let host = namespace.host("eased");
    let prober = Prober::start(&scenario.router, Load::get(std::slice::from_ref(&host)));
    let new = deploy(namespace, &rolled_out("eased", &answering("new"), 2)?).await?;
    await_phase(namespace, "eased", &new, RolloutPhase::Completed).await?;
    let during = prober.stop().await?;
    during.ensure_no_failure()?;
    ensure!(during.bodies().contains_key("old"), "the new revision got all requests at once");
    await_event(namespace, "RolloutStarted").await?;
    await_event(namespace, "RolloutCompleted").await?;
    let after = probe(&scenario, &host, 300).await?;
    after.ensure_no_failure()?;
    ensure!(after.bodies().into_keys().eq(["new"]), "both revisions serve: {:?}", after.bodies());
    Ok(())
}
