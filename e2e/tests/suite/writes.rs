//! Tests of the number of writes that a Worker costs. Writes to the API server limit the number of
//! Workers that a cluster can take.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use anyhow::ensure;
use tenon_crds::ConditionStatus;
use tenon_e2e::{Scenario, answering, worker};

use crate::audit::AuditLog;

/// Number of Workers that are deployed one after another.
const WORKERS: usize = 5;

pub async fn a_new_worker_costs_a_revision_and_at_most_two_statuses(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let log = AuditLog::open()?.from_now()?;
    for number in 0..WORKERS {
        let name = format!("new-{number}");
        scenario.namespace.apply(&worker(&name, &answering("new"))).await?;
        scenario.namespace.await_ready(&name, ConditionStatus::True).await?;
    }
    // The first status makes all replicas add the revision to their catalogs, and the second one
    // says that a router has acknowledged it. If a router acknowledges the revision before the
    // first status is written, that status says both.
    let statuses = WORKERS..=2 * WORKERS;
    ensure_written(&scenario, &log, &[("workerrevisions", WORKERS)], statuses)
}

pub async fn a_failure_that_changes_is_written_once_each_time(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let log = AuditLog::open()?.from_now()?;
    for code in ["export default {", "export default {\n fetch( {\n};"] {
        scenario.namespace.apply(&worker("broken", code)).await?;
        scenario.namespace.await_ready("broken", ConditionStatus::False).await?;
    }
    // The Events of `broken` are recorded before the status of the Worker that is applied next.
    scenario.namespace.apply(&worker("last", &answering("last"))).await?;
    scenario.namespace.await_ready("last", ConditionStatus::True).await?;
    // Each failure is one status, and the Worker that is applied last has one or two.
    ensure_written(&scenario, &log, &[("workerrevisions", 1), ("events", 2)], 2 + 1..=2 + 2)
}

/// Checks the number of the operator's writes in the scenario's namespace.
///
/// # Arguments
/// * `others` - the number of writes to each kind of object except the statuses of Workers.
/// * `statuses` - the permitted numbers of writes to the statuses of Workers.
fn ensure_written(
    scenario: &Scenario,
    log: &AuditLog,
    others: &[(&str, usize)],
    statuses: RangeInclusive<usize>,
) -> anyhow::Result<()> {
    let (namespace, account) = (scenario.namespace.name(), scenario.account().user());
    let mut written = BTreeMap::<String, usize>::new();
    for request in log.requests()? {
        let is_from_operator = request.user.username == account;
        if is_from_operator && request.is_in(namespace) && request.has_written() {
            *written.entry(request.resource()).or_default() += 1;
        }
    }
    let of_statuses = written.remove("workers/status").unwrap_or_default();
    ensure!(
        statuses.contains(&of_statuses),
        "{of_statuses} statuses were written, not {statuses:?}"
    );
    let others = others.iter().map(|(kind, count)| ((*kind).to_owned(), *count)).collect();
    ensure!(written == others, "the operator wrote {written:?}, not {others:?}");
    Ok(())
}
