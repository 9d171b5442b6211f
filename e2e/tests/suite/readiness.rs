//! Tests that a router serves the revision of a Worker that is `Ready`.

use anyhow::{Context, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use tenon_crds::ConditionStatus;
use tenon_e2e::{SOON, Scenario, answering, await_condition, worker};

/// Number of Workers, each of which is applied twice.
const WORKERS: usize = 100;

/// Number of Workers that are applied at the same time.
const CONCURRENCY: usize = 10;

pub async fn a_worker_that_is_ready_answers_with_its_newest_revision(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let applied = stream::iter(0..WORKERS).map(|number| {
        let (scenario, name) = (&scenario, format!("prompt-{number}"));
        async move {
            let mut connection = scenario.router.connection();
            for text in [format!("first {number}"), format!("second {number}")] {
                scenario.namespace.apply(&worker(&name, &answering(&text))).await?;
                scenario.namespace.await_ready(&name, ConditionStatus::True).await?;
                let answer = connection.get(&scenario.namespace.host(&name), "/").await?;
                ensure!(
                    answer.status == 200 && answer.body == text,
                    "{name} is ready, but the response is {} {}",
                    answer.status,
                    answer.body
                );
            }
            anyhow::Ok(())
        }
    });
    applied.buffer_unordered(CONCURRENCY).try_collect::<Vec<()>>().await?;
    Ok(())
}

/// This test is exclusive, because it pauses the router.
pub async fn a_worker_is_not_ready_while_the_only_router_hangs(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let namespace = &scenario.namespace;
    namespace.apply(&worker("patient", &answering("first"))).await?;
    namespace.await_ready("patient", ConditionStatus::True).await?;
    scenario.router.pause().await?;
    namespace.apply(&worker("patient", &answering("second"))).await?;
    let waiting = namespace.await_ready("patient", ConditionStatus::False).await;
    let conditions =
        namespace.worker("patient").await?.status.context("the Worker has no status")?.conditions;
    scenario.router.resume().await?;
    let waiting = waiting?;
    ensure!(waiting.reason == "NotAcknowledged", "{waiting:?}");
    ensure!(
        conditions.iter().any(|condition| condition.type_ == "Reconciling"),
        "there is no condition Reconciling among {conditions:?}"
    );
    namespace.await_ready("patient", ConditionStatus::True).await?;
    let mut connection = scenario.router.connection();
    let host = namespace.host("patient");
    await_condition("the router to serve the second revision", SOON, async || {
        let answer = connection.get(&host, "/").await?;
        ensure!(
            answer.status == 200 && answer.body == "second",
            "the response is {} {}",
            answer.status,
            answer.body
        );
        Ok(())
    })
    .await
}
