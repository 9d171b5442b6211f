//! Tests of a Worker's health in its status, as nodes report it.

use std::time::Duration;

use anyhow::{Context, ensure};
use k8s_openapi::api::events::v1::Event;
use kube::api::ListParams;
use tenon_crds::{Condition, ConditionStatus, WorkerStatus};
use tenon_e2e::{Namespace, SOON, Scenario, answering, await_condition, worker};
use tenon_proto::catalog::catalog_client::CatalogClient;
use tenon_proto::catalog::quarantined::Cause;
use tenon_proto::catalog::worker_report::State;
use tenon_proto::catalog::{
    Quarantined, ReportRequest, WatchQuarantineRequest, WatchRequest, WorkerReport,
};
use tokio::time::timeout;
use tonic::transport::Channel;

/// Time limit for the report of a crash loop. A node reports the crash loop at the second failure,
/// which follows after a pause. In these tests, the failures occur in a lane: each failure takes a
/// second of CPU time, and a lane gets little CPU time on a busy machine.
const NOTICED: Duration = Duration::from_secs(120);

/// A Worker that never starts, although the operator's parser accepts it.
const NEVER_STARTS: &str =
    "while (true) {}\nexport default { fetch() { return new Response('never'); } };";

pub async fn a_worker_that_cannot_start_is_unhealthy_until_a_good_revision_serves(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let namespace = &scenario.namespace;
    namespace.apply(&worker("looper", NEVER_STARTS)).await?;
    let ready = namespace.await_ready("looper", ConditionStatus::True).await?;
    let bad = ready.message;
    let host = namespace.host("looper");
    let mut connection = scenario.router.connection();
    let condition = await_condition("the crash loop to be noticed", NOTICED, async || {
        let answer = connection.get(&host, "/").await?;
        ensure!(
            answer.status != 200,
            "the Worker answers although it must not start: {}",
            answer.body
        );
        let condition = healthy(namespace).await?.context("the Worker has no condition Healthy")?;
        ensure!(condition.status == ConditionStatus::False, "the condition is {condition:?}");
        Ok(condition)
    })
    .await?;
    ensure!(condition.reason == "CrashLoopBackOff", "the condition is {condition:?}");
    for part in [bad.as_str(), "cpu_limit_exceeded", "node", "see the Worker's log"] {
        ensure!(condition.message.contains(part), "{part:?} is not in {condition:?}");
    }
    let status = status(namespace).await?;
    ensure!(
        status.crash_loops.iter().all(|known| known.node.starts_with("node-")),
        "the status names other nodes: {status:?}"
    );
    // The deployment succeeded, so the `Ready` condition stays true.
    namespace.await_ready("looper", ConditionStatus::True).await?;
    let kubectl = async |arguments: &[&str]| {
        let arguments: Vec<_> =
            ["--namespace", namespace.name()].iter().chain(arguments).copied().collect();
        scenario.cluster.kubectl(&arguments).await
    };
    await_condition("kubectl to describe the Event", SOON, async || {
        let described = kubectl(&["describe", "worker", "looper"]).await?;
        let (_, events) =
            described.rsplit_once("Events:").context("the description has no Events")?;
        ensure!(
            events.contains("Warning") && events.contains("CrashLoopBackOff"),
            "the description has no such Event: {described}"
        );
        Ok(())
    })
    .await?;

    namespace.apply(&worker("looper", &answering("fixed"))).await?;
    scenario.await_answer(&host, "fixed", SOON).await?;
    await_condition("the crash loop to be over", SOON, async || {
        let condition =
            healthy(namespace).await?.context("the Worker has lost its condition Healthy")?;
        ensure!(condition.status == ConditionStatus::True, "the condition is {condition:?}");
        let status = self::status(namespace).await?;
        ensure!(status.crash_loops.is_empty(), "the status still has {:?}", status.crash_loops);
        Ok(())
    })
    .await?;
    let ready = namespace.await_ready("looper", ConditionStatus::True).await?;
    ensure!(ready.message != bad, "the condition Ready still names the bad revision: {ready:?}");
    Ok(())
}

pub async fn a_standby_writes_the_reports_of_a_node(scenario: Scenario) -> anyhow::Result<()> {
    const POOL: &str = "remote";
    let operator = scenario.operator().await;
    let leader = operator.as_ref().context("no operator is running")?;
    let standby = scenario.start_operator().await?;
    scenario.route_catalog(&[&standby]);
    let node = scenario.start_node(POOL, "a").await?;
    let namespace = &scenario.namespace;
    let mut looper = worker("looper", NEVER_STARTS);
    looper.spec.pool = POOL.to_owned();
    namespace.apply(&looper).await?;
    namespace.await_ready("looper", ConditionStatus::True).await?;
    let host = namespace.host("looper");
    let mut connection = scenario.router.connection();
    await_condition("the crash loop to be noticed", NOTICED, async || {
        connection.get(&host, "/").await?;
        let condition = healthy(namespace).await?.context("the Worker has no condition Healthy")?;
        ensure!(condition.status == ConditionStatus::False, "the condition is {condition:?}");
        Ok(())
    })
    .await?;
    let status = status(namespace).await?;
    ensure!(
        status.crash_loops.iter().all(|known| known.node == node.name()),
        "crash loops are reported by other nodes: {:?}",
        status.crash_loops
    );
    await_condition("an Event that the standby recorded", SOON, async || {
        let events = namespace.api::<Event>().list(&ListParams::default()).await?;
        let event = events
            .items
            .into_iter()
            .find(|event| event.reason.as_deref() == Some("CrashLoopBackOff"));
        let by = event.context("there is no Event CrashLoopBackOff")?.reporting_instance;
        ensure!(
            by.as_deref() == Some(standby.identity()),
            "{by:?} recorded the Event; {} leads",
            leader.identity()
        );
        Ok(())
    })
    .await?;
    scenario.route_catalog(&[leader]);
    node.delete().await?;
    standby.terminate().await
}

/// The test sends reports and receives quarantines, as nodes do.
pub async fn every_operator_sends_every_node_the_quarantine_that_one_operator_received(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let operator = scenario.operator().await;
    let leader = operator.as_ref().context("no operator is running")?;
    let standby = scenario.start_operator().await?;
    let namespace = &scenario.namespace;
    namespace.apply(&worker("looper", &answering("hello"))).await?;
    let revision = namespace.await_ready("looper", ConditionStatus::True).await?.message;
    let id = format!("{}/looper", namespace.name());

    let mut leader_client = CatalogClient::connect(format!("http://{}", leader.catalog())).await?;
    let mut standby_client =
        CatalogClient::connect(format!("http://{}", standby.catalog())).await?;
    let digest = digest(&mut leader_client, &id).await?;
    let [client, node] = ["node/node-b", "node-a"].map(str::to_owned);
    let mut quarantine =
        standby_client.watch_quarantine(WatchQuarantineRequest { client }).await?.into_inner();
    let quarantined = Quarantined { cause: Cause::Hung.into(), duration_ms: 600_000, times: 2 };
    let state = Some(State::Quarantined(quarantined));
    let report = WorkerReport { worker: id.clone(), digest: digest.clone(), state };
    leader_client.report(ReportRequest { node, workers: vec![report] }).await?;

    let found = timeout(SOON, async {
        loop {
            let message =
                quarantine.message().await?.context("the standby has ended the stream")?;
            if let Some(found) =
                message.revisions.into_iter().find(|revision| revision.digest == digest)
            {
                return anyhow::Ok(found);
            }
        }
    });
    let found = found.await.context("the standby does not send the quarantine to nodes")??;
    ensure!(
        found.worker == id && found.times == 2 && found.remaining_ms <= 600_000,
        "the standby sent {found:?}"
    );
    let condition =
        healthy(namespace).await?.context("the quarantine was sent before it was written")?;
    ensure!(
        condition.status == ConditionStatus::False && condition.reason == "Quarantined",
        "the condition is {condition:?}"
    );
    for part in [revision.as_str(), "node-a", "2 times", "apply it again"] {
        ensure!(condition.message.contains(part), "{part:?} is not in {condition:?}");
    }
    namespace.await_ready("looper", ConditionStatus::True).await?;
    namespace.apply(&worker("looper", &answering("fixed"))).await?;
    await_condition("the quarantine to be over", SOON, async || {
        let condition =
            healthy(namespace).await?.context("the Worker has lost its condition Healthy")?;
        let status = status(namespace).await?;
        ensure!(
            condition.status == ConditionStatus::True && status.quarantine.is_none(),
            "the quarantine is still in {status:?}"
        );
        Ok(())
    })
    .await?;
    standby.terminate().await
}

/// Waits until the operator's catalog has a Worker, and returns the digest of its revision.
async fn digest(catalog: &mut CatalogClient<Channel>, worker: &str) -> anyhow::Result<Vec<u8>> {
    let request = WatchRequest { client: "router/e2e".to_owned(), resume: None };
    let mut changes = catalog.watch(request).await?.into_inner();
    let found = timeout(SOON, async {
        loop {
            let message = changes.message().await?.context("the operator has ended the stream")?;
            if let Some(found) = message.workers.into_iter().find(|found| found.id == worker) {
                return anyhow::Ok(found.digest);
            }
        }
    });
    found.await.with_context(|| format!("the catalog does not have {worker}"))?
}

async fn status(namespace: &Namespace) -> anyhow::Result<WorkerStatus> {
    namespace.worker("looper").await?.status.context("the Worker has no status")
}

async fn healthy(namespace: &Namespace) -> anyhow::Result<Option<Condition>> {
    Ok(status(namespace)
        .await?
        .conditions
        .into_iter()
        .find(|condition| condition.type_ == "Healthy"))
}
