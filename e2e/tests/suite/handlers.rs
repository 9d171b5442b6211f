//! Tests of events that do not come from clients: calls between Workers, and scheduled calls.

use anyhow::{Context, ensure};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::jiff::tz::TimeZone;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;
use tenon_crds::{ConditionStatus, Schedule, ServiceBinding, Worker};
use tenon_e2e::{SOON, Scenario, answering, await_condition, worker};

/// Returns a Worker whose binding `OTHER` is the Worker `other` of its namespace.
fn caller(name: &str, other: &str) -> Worker {
    let source = "export default { async fetch(request, env) {
        try { return await env.OTHER.fetch('http://other.test/'); }
        catch (error) { return new Response(error.message); }
    } };";
    let mut caller = worker(name, source);
    caller.spec.services = vec![ServiceBinding {
        name: "OTHER".to_owned(),
        worker: other.to_owned(),
        entrypoint: None,
    }];
    caller
}

pub async fn a_worker_calls_another_on_another_node(scenario: Scenario) -> anyhow::Result<()> {
    let (near, far) = ("calls-near", "calls-far");
    let _nodes = [scenario.start_node(near, "0").await?, scenario.start_node(far, "0").await?];
    let mut front = caller("front", "back");
    front.spec.pool = near.to_owned();
    scenario.namespace.apply(&front).await?;
    let host = scenario.namespace.host("front");
    let mut connection = scenario.router.connection();
    await_condition("the response to name the missing Worker", SOON, async || {
        let answer = connection.get(&host, "/").await?;
        ensure!(answer.body.contains("worker_not_found: "), "the response is {}", answer.body);
        Ok(())
    })
    .await?;

    let mut back = worker("back", &answering("from far away"));
    back.spec.pool = far.to_owned();
    scenario.namespace.apply(&back).await?;
    scenario.await_answer(&host, "from far away", SOON).await?;

    back = worker("back", &answering("and changed"));
    back.spec.pool = far.to_owned();
    scenario.namespace.apply(&back).await?;
    scenario.await_answer(&host, "and changed", SOON).await?;
    Ok(())
}

pub async fn workers_that_call_one_another_in_a_loop_are_stopped(
    scenario: Scenario,
) -> anyhow::Result<()> {
    scenario.namespace.apply(&caller("ping", "pong")).await?;
    scenario.namespace.apply(&caller("pong", "ping")).await?;
    scenario.namespace.await_ready("ping", ConditionStatus::True).await?;
    scenario.namespace.await_ready("pong", ConditionStatus::True).await?;
    let host = scenario.namespace.host("ping");
    let mut connection = scenario.router.connection();
    await_condition("the loop to be detected", SOON, async || {
        let answer = connection.get(&host, "/").await?;
        ensure!(
            answer.status == 200 && answer.body.contains("loop_detected: "),
            "the response is {} {}",
            answer.status,
            answer.body
        );
        Ok(())
    })
    .await
}

fn scheduled(name: &str, source: &str, cron: &str) -> Worker {
    let mut worker = worker(name, source);
    worker.spec.schedules = vec![Schedule { cron: cron.to_owned(), time_zone: "UTC".to_owned() }];
    worker
}

/// Waits until the leader follows the Worker's schedule, then sets the time of the last call back
/// to `last`, as if there had been no leader since.
async fn set_back(scenario: &Scenario, name: &str, last: Timestamp) -> anyhow::Result<()> {
    let schedule = await_condition("the schedule to be followed", SOON, async || {
        let status = scenario
            .namespace
            .worker(name)
            .await?
            .status
            .context("the Worker has no status yet")?;
        status.schedules.into_iter().next().context("the status has no schedule yet")
    })
    .await?;
    let patch = json!({
        "apiVersion": "tenon.dev/v1alpha1",
        "kind": "Worker",
        "status": {"schedules": [{"cron": schedule.cron, "timeZone": schedule.time_zone, "lastScheduleTime": last}]},
    });
    let params = PatchParams::apply("tenon-e2e").force();
    scenario.namespace.api::<Worker>().patch_status(name, &params, &Patch::Apply(patch)).await?;
    Ok(())
}

fn this_minute() -> Timestamp {
    let now = Timestamp::now();
    now - SignedDuration::from_nanos((now.as_nanosecond() % 60_000_000_000) as i64)
}

pub async fn a_missed_scheduled_call_is_made_once_and_immediately(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let source = "const times = []; export default {
        fetch() { return Response.json(times); },
        scheduled({ scheduledTime }) { times.push(scheduledTime); },
    };";
    // The schedule names only these two minutes. Otherwise the leader would make further calls
    // during the test.
    let minute = this_minute();
    let minutes = [minute - SignedDuration::from_mins(1), minute]
        .map(|time| time.to_zoned(TimeZone::UTC).minute());
    let cron = format!("{},{} * * * *", minutes[0], minutes[1]);
    scenario.namespace.apply(&scheduled("clock", source, &cron)).await?;
    scenario.namespace.await_ready("clock", ConditionStatus::True).await?;
    set_back(&scenario, "clock", minute - SignedDuration::from_secs(90)).await?;

    let host = scenario.namespace.host("clock");
    let mut connection = scenario.router.connection();
    let expected =
        [minute - SignedDuration::from_mins(1), minute].map(|time| time.as_millisecond());
    let times = await_condition("a scheduled call for each of the two times", SOON, async || {
        let times: Vec<i64> = serde_json::from_str(&connection.get(&host, "/").await?.body)?;
        ensure!(
            expected.iter().all(|time| times.contains(time)),
            "there were calls for {times:?}, not for {expected:?}"
        );
        Ok(times)
    })
    .await?;
    let mut different = times.clone();
    different.sort_unstable();
    different.dedup();
    ensure!(different.len() == times.len(), "there were two calls for the same time: {times:?}");
    await_condition("the status to show both times", SOON, async || {
        let status =
            scenario.namespace.worker("clock").await?.status.context("the Worker has no status")?;
        ensure!(
            status.schedules[0].last_schedule_time.0 >= minute,
            "the status has {:?}",
            status.schedules
        );
        Ok(())
    })
    .await
}

pub async fn a_scheduled_call_that_fails_is_reported_by_an_event(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let source = "export default { scheduled() { throw new Error('a secret of its author'); } };";
    scenario.namespace.apply(&scheduled("failing", source, "* * * * *")).await?;
    scenario.namespace.await_ready("failing", ConditionStatus::True).await?;
    set_back(&scenario, "failing", this_minute() - SignedDuration::from_secs(1)).await?;
    await_condition("an Event that reports the failed call", SOON, async || {
        let events = scenario.namespace.api::<Event>().list(&ListParams::default()).await?;
        let event =
            events.iter().find(|event| event.reason.as_deref() == Some("ScheduledCallFailed"));
        let note = event
            .context("there is no Event ScheduledCallFailed yet")?
            .note
            .clone()
            .unwrap_or_default();
        ensure!(
            note.contains("worker_exception") && !note.contains("secret"),
            "the Event's note is {note:?}"
        );
        Ok(())
    })
    .await
}

pub async fn a_schedule_that_is_never_due_is_reported_while_the_worker_serves(
    scenario: Scenario,
) -> anyhow::Result<()> {
    scenario.namespace.apply(&scheduled("never", &answering("well"), "0 0 31 2 *")).await?;
    let ready = scenario.namespace.await_ready("never", ConditionStatus::False).await?;
    ensure!(
        ready.reason == "InvalidSchedule" && ready.message.starts_with("spec.schedules.cron: "),
        "the condition Ready is {ready:?}"
    );
    scenario.await_answer(&scenario.namespace.host("never"), "well", SOON).await?;
    Ok(())
}
