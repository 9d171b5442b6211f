//! Tests of what replicas of the operator write when the leader changes.

use std::time::Instant;

use anyhow::{Context, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::ListParams;
use tenon_crds::{ConditionStatus, ConfigMapRef, Secret, SecretKeyRef, Source, Worker};
use tenon_e2e::{
    Account, CREDENTIAL, Operator, SOON, Scenario, answering, await_condition, worker,
};

use crate::audit::{AuditLog, Request};

/// Number of Workers that are applied just before the leader is paused.
const CHANGES: usize = 30;

pub async fn a_paused_leader_writes_nothing_after_another_leads(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let namespace = &scenario.namespace;
    namespace.apply(&worker("first", &answering("first"))).await?;
    namespace.await_ready("first", ConditionStatus::True).await?;
    let mut operator = scenario.operator().await;
    let leader = operator.take().context("no operator is running")?;
    let (cluster, system) = (&scenario.cluster, scenario.system());
    let account = Account::issue(cluster, system, scenario.logs(), "standby").await?;
    let standby = scenario.start_operator_as(&scenario.new_identity(), &account).await?;
    scenario.route_catalog(&[&standby]);
    let log = AuditLog::open()?;

    for number in 0..CHANGES {
        namespace.apply(&worker(&format!("change-{number}"), &answering("changed"))).await?;
    }
    leader.pause().await?;
    let began = Instant::now();
    let lease = await_condition("the standby to lead", SOON, async || {
        let lease = lease(&scenario).await?;
        ensure!(lease.holder_identity.as_deref() == Some(standby.identity()), "{lease:?}");
        Ok(lease)
    })
    .await?;
    println!(
        "another replica became the leader {:?} after the pause of the first one",
        began.elapsed()
    );
    namespace.await_ready(&format!("change-{}", CHANGES - 1), ConditionStatus::True).await?;

    leader.resume().await?;
    await_metric(&leader, "tenon_operator_leader", |leads| leads == 0.0).await?;
    namespace.apply(&worker("last", &answering("last"))).await?;
    namespace.await_ready("last", ConditionStatus::True).await?;
    await_idle(&leader).await?;
    let since = lease.acquire_time.context("the Lease has no acquireTime")?.0;
    let leader_credential = scenario.account().credential();
    let is_late = |request: &Request| {
        let ids = request.user.extra.get(CREDENTIAL);
        let is_from_leader = ids.is_some_and(|ids| ids[0] == leader_credential);
        is_from_leader && request.has_written() && request.request_received_timestamp >= since
    };
    let requests = log.requests()?;
    ensure!(
        requests.iter().any(|request| !request.user.extra.is_empty()),
        "the audit log has no credentials"
    );
    let late: Vec<_> = requests.into_iter().filter(is_late).collect();
    ensure!(
        late.is_empty(),
        "the paused leader wrote after another replica had become the leader: {late:#?}"
    );
    leader.kill().await?;
    *operator = Some(standby);
    Ok(())
}

/// Default number of Workers. `TENON_E2E_WORKERS` sets another number. Large numbers need a longer
/// `TENON_E2E_TEST_TIMEOUT`.
const WORKERS: usize = 50;
/// Default number of restarts. `TENON_E2E_RESTARTS` sets another number.
const RESTARTS: usize = 3;

/// The restarted leader takes the Lease without waiting, because it has the identity of the Lease's
/// holder.
pub async fn a_restarted_leader_writes_nothing(scenario: Scenario) -> anyhow::Result<()> {
    let (workers, restarts) =
        (setting("TENON_E2E_WORKERS", WORKERS)?, setting("TENON_E2E_RESTARTS", RESTARTS)?);
    let namespace = &scenario.namespace;
    let code = "export default { fetch: (request, env) => new Response(env.TOKEN) };";
    namespace.apply_config_map("code", &[("worker.js", code)]).await?;
    namespace.apply_secret("credentials", &[("token", "told")]).await?;
    let applied = stream::iter(0..workers).map(async |number| {
        let name = format!("settled-{number}");
        namespace.apply(&with_bindings(&name)).await?;
        namespace.await_ready(&name, ConditionStatus::True).await?;
        // The digest is recorded once the catalog has it. After that there is nothing left to
        // write.
        await_condition("the digest to be recorded", SOON, async || {
            let accepted = namespace.worker(&name).await?.status.and_then(|status| status.accepted);
            accepted.and_then(|accepted| accepted.digest).context("the status has no digest")
        })
        .await
    });
    applied.buffer_unordered(16).try_collect::<Vec<_>>().await?;

    let mut operator = scenario.operator().await;
    let log = AuditLog::open()?.from_now()?;
    for _ in 0..restarts {
        let leader = operator.take().context("no operator is running")?;
        let identity = leader.identity().to_owned();
        leader.kill().await?;
        let leader = scenario.start_operator_as(&identity, scenario.account()).await?;
        scenario.route_catalog(&[&leader]);
        await_metric(&leader, "tenon_operator_leader", |leads| leads == 1.0).await?;
        let reconciled = r#"tenon_operator_reconciles_total{kind="Worker",result="ok"}"#;
        await_metric(&leader, reconciled, |count| count >= workers as f64).await?;
        await_idle(&leader).await?;
        *operator = Some(leader);
    }
    let writes = |request: &Request| request.is_in(namespace.name()) && request.has_written();
    let written: Vec<_> = log.requests()?.into_iter().filter(writes).collect();
    ensure!(written.is_empty(), "the restarted leader wrote: {written:#?}");
    scenario.await_answer(&namespace.host("settled-0"), "told", SOON).await?;
    Ok(())
}

fn setting(name: &str, default: usize) -> anyhow::Result<usize> {
    match std::env::var(name) {
        Ok(text) => text.parse().with_context(|| format!("{name}={text} is not a number")),
        Err(_) => Ok(default),
    }
}

/// Returns a Worker with code from a ConfigMap and with a bound Secret.
fn with_bindings(name: &str) -> Worker {
    let mut worker = worker(name, "");
    let code = ConfigMapRef { name: "code".to_owned() };
    worker.spec.source = Source { config_map_ref: Some(code), ..Source::default() };
    let reference = SecretKeyRef { name: "credentials".to_owned(), key: "token".to_owned() };
    worker.spec.secrets = vec![Secret { name: "TOKEN".to_owned(), secret_key_ref: reference }];
    worker
}

/// Waits until an operator has no Worker to reconcile.
async fn await_idle(operator: &Operator) -> anyhow::Result<()> {
    for state in ["waiting", "running"] {
        let depth = format!(r#"tenon_operator_queue_depth{{queue="Worker",state="{state}"}}"#);
        await_metric(operator, &depth, |depth| depth == 0.0).await?;
    }
    Ok(())
}

async fn await_metric(
    operator: &Operator,
    series: &str,
    holds: impl Fn(f64) -> bool,
) -> anyhow::Result<()> {
    await_condition(
        &format!("{series} of {} to have the expected value", operator.identity()),
        SOON,
        async || {
            let metrics = operator.metrics().await?;
            let value = metrics.lines().find_map(|line| line.strip_prefix(series));
            let value: f64 =
                value.context("the operator's metrics have no such series")?.trim().parse()?;
            ensure!(holds(value), "its value is {value}");
            Ok(())
        },
    )
    .await
}

async fn lease(scenario: &Scenario) -> anyhow::Result<LeaseSpec> {
    let leases = scenario.system().api::<Lease>().list(&ListParams::default()).await?;
    let lease = leases.items.into_iter().next().context("there is no Lease")?;
    lease.spec.context("the Lease is empty")
}
