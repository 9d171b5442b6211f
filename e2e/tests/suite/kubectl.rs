//! Tests Tenon as users of kubectl see it.

use anyhow::{Context, ensure};
use tenon_crds::ConditionStatus;
use tenon_e2e::{SOON, Scenario, await_condition, worker};

pub async fn the_hello_example_is_applied_shown_described_and_deleted(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let namespace = scenario.namespace.name();
    let kubectl = async |arguments: &[&str]| {
        let arguments: Vec<_> =
            ["--namespace", namespace].iter().chain(arguments).copied().collect();
        scenario.cluster.kubectl(&arguments).await
    };
    kubectl(&["apply", "-f", "examples/hello/worker.yaml"]).await?;
    let host = scenario.namespace.host("hello");
    let answer = format!("Hello from {host}\n");
    scenario.await_answer(&host, &answer, SOON).await?;
    scenario.namespace.await_ready("hello", ConditionStatus::True).await?;

    let table = kubectl(&["get", "workers"]).await?;
    let revision =
        scenario.namespace.worker("hello").await?.status.and_then(|status| status.latest_revision);
    let revision = revision.context("the ready Worker has no revision")?;
    ensure!(
        header(&table) == ["NAME", "READY", "HEALTHY", "ROLLOUT", "URL", "REVISION", "AGE"],
        "the columns are {:?}",
        header(&table)
    );
    ensure!(
        table.contains(&host) && table.contains(&revision) && table.contains("True"),
        "the table does not have {host}, {revision} and True:\n{table}"
    );
    let wide = kubectl(&["get", "wk", "-o", "wide"]).await?;
    ensure!(
        header(&wide).contains(&"POOL") && wide.contains("default"),
        "the table does not show the pool:\n{wide}"
    );

    let described = kubectl(&["describe", "worker", "hello"]).await?;
    for expected in ["Compiled", "BindingsResolved", "Programmed", "Ready"] {
        ensure!(
            described.contains(expected),
            "the description has no condition {expected}:\n{described}"
        );
    }
    scenario.namespace.apply(&worker("broken", "export default {\n  fetch( {\n};\n")).await?;
    scenario.namespace.await_ready("broken", ConditionStatus::False).await?;
    let table = kubectl(&["get", "workers"]).await?;
    ensure!(
        table.lines().any(|line| line.starts_with("broken") && line.contains("False")),
        "the broken Worker is not shown as False:\n{table}"
    );
    // Events are recorded after the status.
    await_condition("kubectl to describe the failure", SOON, async || {
        let described = kubectl(&["describe", "worker", "broken"]).await?;
        let (_, events) =
            described.rsplit_once("Events:").context("the description has no Events")?;
        ensure!(
            events.contains("SyntaxError") && events.contains("worker.js:"),
            "no Event names the position:\n{described}"
        );
        Ok(())
    })
    .await?;

    kubectl(&["delete", "worker", "hello"]).await?;
    let mut connection = scenario.router.connection();
    await_condition("the route to be gone", SOON, async || {
        let answer = connection.get(&host, "/").await?;
        ensure!(answer.status == 404, "the response is {} {}", answer.status, answer.body);
        Ok(())
    })
    .await?;
    // The garbage collector deletes the objects that the Worker owned.
    await_condition("the revisions of the deleted Worker to be gone", SOON, async || {
        let left = kubectl(&[
            "get",
            "workerrevisions",
            "--selector",
            "tenon.dev/worker=hello",
            "-o",
            "name",
        ])
        .await?;
        ensure!(left.is_empty(), "these revisions still exist: {left}");
        Ok(())
    })
    .await
}

/// Returns the column names of a table.
fn header(table: &str) -> Vec<&str> {
    table.lines().next().unwrap_or_default().split_whitespace().collect()
}
