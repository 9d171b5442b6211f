//! Tests of the number of writes that a Worker costs, because these bound the number of Workers that
//! a cluster can take.

use std::collections::BTreeMap;

use anyhow::ensure;
use tenon_crds::ConditionStatus;
use tenon_e2e::{Scenario, answering, worker};

use crate::audit::AuditLog;

/// Number of Workers that are deployed one after another.
const WORKERS: usize = 5;

pub async fn a_new_worker_costs_a_revision_and_two_statuses(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let log = AuditLog::open()?.from_now()?;
    for number in 0..WORKERS {
        let name = format!("new-{number}");
        scenario.namespace.apply(&worker(&name, &answering("new"))).await?;
        scenario.namespace.await_ready(&name, ConditionStatus::True).await?;
    }
    // The first status is accepted by the catalogs of all replicas, and the second one says that a
    // router has acknowledged it.
    let expected = [("workerrevisions", WORKERS), ("workers/status", 2 * WORKERS)];
    ensure_written(&scenario, &log, &expected)
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
    let expected = [("workerrevisions", 1), ("workers/status", 2 + 2), ("events", 2)];
    ensure_written(&scenario, &log, &expected)
}

/// Checks the number of the operator's writes in the scenario's namespace, by kind of object.
fn ensure_written(
    scenario: &Scenario,
    log: &AuditLog,
    expected: &[(&str, usize)],
) -> anyhow::Result<()> {
    let (namespace, account) = (scenario.namespace.name(), scenario.account().user());
    let mut written = BTreeMap::<String, usize>::new();
    for request in log.requests()? {
        let is_from_operator = request.user.username == account;
        if is_from_operator && request.is_in(namespace) && request.has_written() {
            *written.entry(request.kind()).or_default() += 1;
        }
    }
    let expected = expected.iter().map(|(kind, count)| ((*kind).to_owned(), *count)).collect();
    ensure!(written == expected, "the operator wrote {written:?}, not {expected:?}");
    Ok(())
}
