//! Tests that serving continues while parts of the control plane are down.

use std::time::Duration;

use anyhow::{Context, ensure};
use futures::future::{join, try_join_all};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core;
use kube::api::{DeleteParams, ListParams};
use tenon_crds::{ConditionStatus, Secret, SecretKeyRef};
use tenon_e2e::{Load, Prober, SOON, Scenario, answering, await_condition, worker};
use tokio::time::sleep;

/// Duration of the outage of the API server: long enough to interrupt every watch, Lease renewal
/// and connection.
const OUTAGE: Duration = Duration::from_secs(60);

pub async fn workers_are_served_without_an_operator(scenario: Scenario) -> anyhow::Result<()> {
    scenario.namespace.apply(&worker("steady", &answering("before"))).await?;
    let host = scenario.namespace.host("steady");
    scenario.await_answer(&host, "before", SOON).await?;
    scenario.namespace.await_ready("steady", ConditionStatus::True).await?;

    let prober = Prober::start(&scenario.router, Load::get(std::slice::from_ref(&host)));
    let mut operator = scenario.operator().await;
    operator.take().context("no operator is running")?.kill().await?;
    prober.await_served(400).await?;
    // This Worker is applied while no operator is running.
    scenario.namespace.apply(&worker("steady", &answering("after"))).await?;
    prober.await_served(400).await?;

    let successor = scenario.start_operator().await?;
    scenario.route_catalog(&[&successor]);
    *operator = Some(successor);
    scenario.await_answer(&host, "after", SOON).await?;
    let report = prober.stop().await?;
    report.ensure_no_failure()?;
    ensure!(
        report.bodies().keys().eq(&["after", "before"]),
        "the outcomes are not the expected ones: {report}"
    );
    Ok(())
}

pub async fn a_worker_is_served_without_its_secret_by_restarted_operators(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let (namespace, name) = (&scenario.namespace, "keeper");
    namespace.apply_secret("credentials", &[("token", "told")]).await?;
    let code = "export default { fetch: (request, env) => new Response(env.TOKEN) };";
    let mut keeper = worker(name, code);
    let reference = SecretKeyRef { name: "credentials".to_owned(), key: "token".to_owned() };
    keeper.spec.secrets = vec![Secret { name: "TOKEN".to_owned(), secret_key_ref: reference }];
    namespace.apply(&keeper).await?;
    let host = namespace.host(name);
    scenario.await_answer(&host, "told", SOON).await?;
    await_condition("the digest to be recorded", SOON, async || {
        let accepted = namespace.worker(name).await?.status.and_then(|status| status.accepted);
        accepted.and_then(|accepted| accepted.digest).context("the status has no digest")
    })
    .await?;

    let prober = Prober::start(&scenario.router, Load::get(std::slice::from_ref(&host)));
    namespace.api::<core::v1::Secret>().delete("credentials", &DeleteParams::default()).await?;
    let ready = namespace.await_ready(name, ConditionStatus::False).await?;
    ensure!(ready.reason == "SecretMissing", "the condition Ready is {ready:?}");
    let mut operator = scenario.operator().await;
    operator.take().context("no operator is running")?.kill().await?;
    let successor = scenario.start_operator().await?;
    scenario.route_catalog(&[&successor]);
    *operator = Some(successor);
    // `later` is served once the router has the successor's catalog.
    namespace.apply(&worker("later", &answering("later"))).await?;
    scenario.await_answer(&namespace.host("later"), "later", SOON).await?;
    prober.await_served(400).await?;
    let report = prober.stop().await?;
    report.ensure_no_failure()?;
    ensure!(
        report.bodies().keys().eq(&["told"]),
        "the outcomes are not the expected ones: {report}"
    );

    namespace.apply_secret("credentials", &[("token", "changed")]).await?;
    scenario.await_answer(&host, "changed", SOON).await?;
    namespace.await_ready(name, ConditionStatus::True).await?;
    Ok(())
}

/// Number of Workers that no node has run when the operator is replaced.
const COLD: usize = 30;

pub async fn cold_workers_start_while_the_only_operator_is_replaced(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let namespace = &scenario.namespace;
    namespace.apply_secret("credentials", &[("token", "told")]).await?;
    let reference = SecretKeyRef { name: "credentials".to_owned(), key: "token".to_owned() };
    let secret = Secret { name: "TOKEN".to_owned(), secret_key_ref: reference };
    let code = "export default { fetch: (request, env) => new Response(env.TOKEN ?? 'none') };";
    let names: Vec<_> = (0..COLD).map(|number| format!("cold-{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        let mut cold = worker(name, code);
        // The values of Secrets are part of what the successor has to find.
        cold.spec.secrets = if number % 2 == 0 { vec![secret.clone()] } else { Vec::new() };
        namespace.apply(&cold).await?;
    }
    for name in &names {
        namespace.await_ready(name, ConditionStatus::True).await?;
    }

    let mut operator = scenario.operator().await;
    operator.take().context("no operator is running")?.kill().await?;
    let answers = names.iter().enumerate().map(async |(number, name)| {
        let answer = scenario.router.connection().get(&namespace.host(name), "/").await?;
        let expected = if number % 2 == 0 { "told" } else { "none" };
        ensure!(
            answer.status == 200 && answer.body == expected,
            "{name} answers {} {}",
            answer.status,
            answer.body
        );
        Ok(())
    });
    let replaced = async {
        let mut successor = scenario.spawn_operator()?;
        scenario.route_catalog(&[&successor]);
        successor.await_ready().await?;
        Ok::<_, anyhow::Error>(successor)
    };
    let (successor, answers) = join(replaced, try_join_all(answers)).await;
    *operator = Some(successor?);
    answers.map(drop)
}

pub async fn a_standby_takes_over_from_a_killed_leader(scenario: Scenario) -> anyhow::Result<()> {
    scenario.namespace.apply(&worker("heir", &answering("first"))).await?;
    let host = scenario.namespace.host("heir");
    scenario.await_answer(&host, "first", SOON).await?;

    let mut operator = scenario.operator().await;
    let leader = operator.take().context("no operator is running")?;
    let standby = scenario.start_operator().await?;
    scenario.route_catalog(&[&leader, &standby]);
    ensure!(
        holder(&scenario).await? == leader.identity(),
        "a standby holds the Lease although the leader is running"
    );

    let prober = Prober::start(&scenario.router, Load::get(std::slice::from_ref(&host)));
    prober.await_served(50).await?;
    leader.kill().await?;
    await_condition("the standby to lead", SOON, async || {
        let holder = holder(&scenario).await?;
        ensure!(holder == standby.identity(), "{holder} holds the Lease");
        Ok(())
    })
    .await?;
    scenario.namespace.apply(&worker("heir", &answering("second"))).await?;
    scenario.await_answer(&host, "second", SOON).await?;
    scenario.namespace.await_ready("heir", ConditionStatus::True).await?;
    let report = prober.stop().await?;
    *operator = Some(standby);
    report.ensure_no_failure()
}

pub async fn workers_are_served_without_the_api_server_and_updated_once_it_is_back(
    scenario: Scenario,
) -> anyhow::Result<()> {
    scenario.namespace.apply(&worker("offline", &answering("before"))).await?;
    let host = scenario.namespace.host("offline");
    scenario.await_answer(&host, "before", SOON).await?;
    scenario.namespace.await_ready("offline", ConditionStatus::True).await?;

    let prober = Prober::start(&scenario.router, Load::get(std::slice::from_ref(&host)));
    prober.await_served(50).await?;
    scenario.cluster.stop_api_server().await?;
    // The sleep is the outage under test, not a wait for a condition.
    sleep(OUTAGE).await;
    scenario.cluster.start_api_server().await?;
    scenario.namespace.apply(&worker("offline", &answering("after"))).await?;
    scenario.await_answer(&host, "after", SOON).await?;
    scenario.namespace.await_ready("offline", ConditionStatus::True).await?;
    let report = prober.stop().await?;
    report.ensure_no_failure()?;
    ensure!(
        report.bodies().keys().eq(&["after", "before"]),
        "the outcomes are not the expected ones: {report}"
    );
    Ok(())
}

/// Returns the identity of the Lease's holder.
async fn holder(scenario: &Scenario) -> anyhow::Result<String> {
    let leases = scenario.system().api::<Lease>().list(&ListParams::default()).await?;
    let lease = leases.items.into_iter().next().context("there is no Lease")?;
    lease.spec.and_then(|spec| spec.holder_identity).context("no replica leads")
}
