//! Tests that a Worker's requests are divided among its revisions, and that a rollback works.

use std::process::Output;

use anyhow::{Context, ensure};
use tenon_crds::{ConditionStatus, TrafficTarget};
use tenon_e2e::{Load, Prober, Process, Scenario, answering, worker};
use tokio::process::Command;

/// Applies code, and returns the name of its revision once it serves.
async fn deploy(scenario: &Scenario, name: &str, text: &str) -> anyhow::Result<String> {
    scenario.namespace.apply(&worker(name, &answering(text))).await?;
    scenario.namespace.await_ready(name, ConditionStatus::True).await?;
    let status = scenario.namespace.worker(name).await?.status;
    status.and_then(|status| status.latest_revision).context("the Worker has no revision")
}

/// Runs a command of `tenon` in the scenario's namespace.
async fn tenon(scenario: &Scenario, arguments: &[&str]) -> anyhow::Result<Output> {
    let output = Command::new(Process::binary("tenon")?)
        .args(arguments)
        .args(["--namespace", scenario.namespace.name()])
        .env("KUBECONFIG", scenario.cluster.kubeconfig())
        .kill_on_drop(true)
        .output()
        .await;
    let output = output.context("cannot run tenon")?;
    ensure!(output.status.success(), "`tenon {}` failed: {output:?}", arguments.join(" "));
    Ok(output)
}

pub async fn a_canary_gets_its_share_and_its_preview_host_serves_only_the_canary(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let old = deploy(&scenario, "canary", "old").await?;
    let mut divided = worker("canary", &answering("new"));
    divided.spec.traffic = vec![
        TrafficTarget { revision: Some(old), percent: 75, tag: None },
        TrafficTarget { revision: None, percent: 25, tag: Some("next".to_owned()) },
    ];
    scenario.namespace.apply(&divided).await?;
    scenario.namespace.await_ready("canary", ConditionStatus::True).await?;

    let mut connection = scenario.router.connection();
    let host = scenario.namespace.host("canary");
    let mut new = 0;
    for _ in 0..400 {
        let answer = connection.get(&host, "/").await?;
        ensure!(answer.status == 200, "the response is {} {}", answer.status, answer.body);
        new += usize::from(answer.body == "new");
    }
    // The probability of a count outside of these bounds is below one in a million.
    ensure!((55..=145).contains(&new), "{new} of 400 requests went to a share of 25 %");
    for _ in 0..20 {
        let answer = connection.get(&format!("next--{host}"), "/").await?;
        ensure!(answer.body == "new", "the preview answered {} {}", answer.status, answer.body);
    }
    Ok(())
}

pub async fn no_request_fails_while_a_worker_is_rolled_back_and_forward(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let old = deploy(&scenario, "rolled", "old").await?;
    let new = deploy(&scenario, "rolled", "new").await?;
    let host = scenario.namespace.host("rolled");
    let mut connection = scenario.router.connection();
    let prober = Prober::start(&scenario.router, Load::get(std::slice::from_ref(&host)));
    prober.await_served(50).await?;

    tenon(&scenario, &["rollback", "rolled"]).await?;
    ensure!(connection.get(&host, "/").await?.body == "old", "the rollback had no effect");
    let listed = tenon(&scenario, &["revisions", "rolled", "--output", "json"]).await?;
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout)?;
    let shares: Vec<_> = listed.as_array().into_iter().flatten().collect();
    ensure!(shares.len() == 2, "{listed}");
    ensure!(shares[0]["name"] == new.as_str() && shares[0]["percent"] == 0, "{listed}");
    ensure!(shares[1]["name"] == old.as_str() && shares[1]["percent"] == 100, "{listed}");
    prober.await_served(50).await?;

    // Broken code neither serves nor prevents the rollback from being undone.
    scenario.namespace.apply(&worker("rolled", "export default {")).await?;
    scenario.namespace.await_ready("rolled", ConditionStatus::False).await?;
    ensure!(connection.get(&host, "/").await?.body == "old", "broken code ended the rollback");
    let undone = tenon(&scenario, &["rollback", "rolled", &new]).await?;
    ensure!(String::from_utf8_lossy(&undone.stderr).contains("note: "), "{undone:?}");
    ensure!(connection.get(&host, "/").await?.body == "new", "the latest revision does not serve");
    prober.await_served(50).await?;

    let latest = deploy(&scenario, "rolled", "newest").await?;
    tenon(&scenario, &["rollback", "rolled", "--latest"]).await?;
    ensure!(connection.get(&host, "/").await?.body == "newest", "the rollback was not undone");
    let status = tenon(&scenario, &["status", "rolled"]).await?;
    let status = String::from_utf8_lossy(&status.stdout).into_owned();
    ensure!(status.contains(&latest) && status.contains("Ready"), "{status}");
    prober.stop().await?.ensure_no_failure()
}
