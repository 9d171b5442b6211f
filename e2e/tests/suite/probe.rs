//! Tests of `tenon-operator probe`, which shows users whether an installation works.

use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::ensure;
use kube::api::ListParams;
use tenon_crds::Worker;
use tenon_e2e::{Process, Scenario};
use tokio::process::Command;
use tokio::time::timeout;

const PROBE_TIMEOUT: Duration = Duration::from_secs(60);

pub async fn a_probe_deploys_a_worker_requests_it_and_deletes_it(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let router = format!("http://{}", scenario.router.address());
    let output = probe(&scenario, &["--router", &router, "--timeout", "30"]).await?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success(),
        "the probe failed:\n{stdout}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let steps: Vec<_> =
        stdout.lines().filter_map(|line| line.split_once(':')).map(|(step, _)| step).collect();
    ensure!(steps == ["deployed", "ready", "answered", "deleted"], "the steps are {steps:?}");
    ensure_no_worker_is_left(&scenario).await
}

pub async fn a_failed_probe_reports_the_reason_and_deletes_its_worker(
    scenario: Scenario,
) -> anyhow::Result<()> {
    // The catalog does not serve requests of clients.
    let wrong = format!("http://{}", scenario.catalog());
    let output = probe(&scenario, &["--router", &wrong, "--timeout", "10"]).await?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(!output.status.success(), "the probe succeeded with {wrong}");
    ensure!(stderr.contains("is ready, but") && stderr.contains(&wrong), "the error is {stderr}");
    ensure_no_worker_is_left(&scenario).await?;

    let router = format!("http://{}", scenario.router.address());
    // The first pool has no nodes, and the second one does not exist.
    let pool = scenario.namespace.name();
    scenario.cluster.apply_pool(pool).await?;
    for (pool, problem) in [(pool, "the response was 503"), ("no-pool", "PoolMissing")] {
        let arguments = ["--router", &router, "--timeout", "10", "--pool", pool];
        let output = probe(&scenario, &arguments).await?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(
            !output.status.success() && stderr.contains(problem),
            "the error does not contain {problem:?}: {stderr}"
        );
        ensure_no_worker_is_left(&scenario).await?;
    }
    Ok(())
}

async fn probe(scenario: &Scenario, arguments: &[&str]) -> anyhow::Result<Output> {
    let mut command = Command::new(Process::binary("tenon-operator")?);
    command
        .env("KUBECONFIG", scenario.cluster.kubeconfig())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command.args(["probe", "--worker-namespace", scenario.namespace.name()]).args(arguments);
    Ok(timeout(PROBE_TIMEOUT, command.output()).await??)
}

async fn ensure_no_worker_is_left(scenario: &Scenario) -> anyhow::Result<()> {
    let left = scenario.namespace.api::<Worker>().list(&ListParams::default()).await?.items;
    ensure!(left.is_empty(), "{} Workers are left", left.len());
    Ok(())
}
