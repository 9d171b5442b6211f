//! Measures how a Worker's requests are divided among its revisions, and how fast the Worker is
//! rolled back, on a real control plane with three routers.
//!
//! ```text
//!  old revision 90 %, new revision 10 % ──► requests to the three routers in turn ──► the share
//!  one revision 100 % ──► patch spec.traffic ──► all routers serve the other one ──► the time
//! ```
//!
//! Requests continue while the Worker is rolled back, so that failed requests are counted.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, ensure};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tenon_crds::{ConditionStatus, Worker};
use tenon_e2e::{Connection, Namespace, Platform, Router, Transport, answering, worker};
use tokio::time::Instant;

use crate::objective::Objective;
use crate::quantile::{median, quantile};
use crate::table::Table;
use crate::unit::human;

const NAME: &str = "divided";

/// The percentage of the requests that the new revision gets.
const CANARY: i32 = 10;

/// The number of rollbacks to the old revision. Each follows a switch to the new revision.
const ROLLBACKS: usize = 20;

/// The time limit for a switch to another revision.
const LIMIT: Duration = Duration::from_secs(30);

/// The maximum difference between the measured and the configured share, as a part of all requests.
const MAX_DEVIATION: f64 = 0.005;

/// The maximum p99 of the time of a switch.
const SWITCH_WITHIN: Duration = Duration::from_millis(500);

/// All measurements of this part.
#[derive(Debug)]
pub struct Record {
    pub requests: usize,
    /// The number of requests that the new revision served.
    canary: usize,
    /// The times from a patch until all routers serve the other revision.
    switches: Vec<Duration>,
    /// The number of requests that failed during the switches.
    pub failures: u64,
}

impl Record {
    /// Returns the difference between the measured and the configured share, as a part of all
    /// requests.
    pub fn deviation(&self) -> f64 {
        (self.canary as f64 / self.requests as f64 - f64::from(CANARY) / 100.0).abs()
    }

    pub fn p50(&self) -> Duration {
        Duration::from_secs_f64(median(self.seconds()))
    }

    pub fn p99(&self) -> Duration {
        Duration::from_secs_f64(quantile(self.seconds(), 0.99))
    }

    fn seconds(&self) -> Vec<f64> {
        self.switches.iter().map(Duration::as_secs_f64).collect()
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = 100.0 * self.canary as f64 / self.requests as f64;
        writeln!(
            f,
            "Requests divided among the revisions of a Worker, and rollbacks on three routers\n"
        )?;
        let mut table = Table::new(["measured", "value"]);
        table.row([format!("share of a revision with {CANARY} %"), format!("{share:.2} %")]);
        table.row(["rollback, p50".to_owned(), human(self.p50())]);
        table.row(["rollback, p99".to_owned(), human(self.p99())]);
        table.row(["failed requests".to_owned(), self.failures.to_string()]);
        writeln!(f, "{table}")
    }
}

/// Returns the objectives of this part.
pub fn objectives(record: Option<&Record>) -> [Objective; 3] {
    [
        Objective::share(
            "deviation of a canary's share from its percentage",
            record.map(Record::deviation),
            Some(MAX_DEVIATION),
        ),
        Objective::time(
            "rollback on three routers, p99",
            record.map(Record::p99),
            Some(SWITCH_WITHIN),
        ),
        Objective::never("failed requests during rollbacks", record.map(|record| record.failures)),
    ]
}

/// Starts the platform with three routers, takes the measurements, and stops the platform.
///
/// # Arguments
/// * `requests` - the number of requests that are divided.
///
/// # Errors
/// Fails if there is no control plane, a request fails while no rollback is in progress, or a
/// switch takes longer than `LIMIT`.
pub fn run(requests: usize) -> anyhow::Result<Record> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let platform = Platform::start().await.context("cannot start the platform")?;
        let start = async |name| {
            Router::start(name, Transport::Plain, platform.catalog(), platform.logs()).await
        };
        let others = [start("router-2").await?, start("router-3").await?];
        let namespace = Namespace::create(&platform.cluster, "bench").await?;
        let routers = [&platform.router, &others[0], &others[1]];
        let mut connections = routers.map(Router::connection);
        let host = namespace.host(NAME);

        let old = deploy(&namespace, "old").await?;
        let new = deploy(&namespace, "new").await?;
        let traffic =
            json!([{"revision": old, "percent": 100 - CANARY}, {"revision": new, "percent": CANARY}]);
        patch(&namespace, &traffic).await?;
        namespace.await_ready(NAME, ConditionStatus::True).await?;
        let mut canary = 0;
        for i in 0..requests {
            let answer = connections[i % routers.len()].get(&host, "/").await?;
            ensure!(answer.status == 200, "the response is {} {}", answer.status, answer.body);
            canary += usize::from(answer.body == "new");
        }

        let (mut switches, mut failures) = (Vec::new(), 0);
        for i in 0..2 * ROLLBACKS {
            let (revision, body) = if i % 2 == 0 { (&new, "new") } else { (&old, "old") };
            let traffic = json!([{"revision": revision, "percent": 100}]);
            let (took, failed) =
                switch(&namespace, &traffic, &mut connections, &host, body).await?;
            failures += failed;
            // The first switch ends the division of requests, so its time is not counted.
            if i > 0 {
                switches.push(took);
            }
        }
        namespace.delete().await?;
        platform.stop().await?;
        Ok(Record { requests, canary, switches, failures })
    })
}

/// Deploys code, and returns the name of its revision once it serves.
async fn deploy(namespace: &Namespace, text: &str) -> anyhow::Result<String> {
    namespace.apply(&worker(NAME, &answering(text))).await?;
    namespace.await_ready(NAME, ConditionStatus::True).await?;
    let status = namespace.worker(NAME).await?.status;
    status.and_then(|status| status.latest_revision).context("the Worker has no revision")
}

async fn patch(namespace: &Namespace, traffic: &serde_json::Value) -> anyhow::Result<()> {
    let patch = Patch::Merge(json!({"spec": {"traffic": traffic}}));
    let workers: Api<Worker> = namespace.api();
    workers.patch(NAME, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Changes the traffic, and sends requests to all routers in turn until all of them serve `body`.
/// Returns the time that this takes, and the number of failed requests.
async fn switch(
    namespace: &Namespace,
    traffic: &serde_json::Value,
    connections: &mut [Connection],
    host: &str,
    body: &str,
) -> anyhow::Result<(Duration, u64)> {
    let (began, mut failed) = (Instant::now(), 0);
    let mut patched = std::pin::pin!(patch(namespace, traffic));
    let mut is_patched = false;
    loop {
        if !is_patched {
            tokio::select! {
                biased;
                done = &mut patched => { done?; is_patched = true; }
                () = tokio::task::yield_now() => {}
            }
        }
        let mut serving = 0;
        for connection in connections.iter_mut() {
            match connection.get(host, "/").await {
                Ok(answer) if answer.status == 200 => {
                    serving += usize::from(answer.body == body);
                }
                _ => failed += 1,
            }
        }
        if is_patched && serving == connections.len() {
            return Ok((began.elapsed(), failed));
        }
        ensure!(began.elapsed() < LIMIT, "the routers do not serve {body:?} within {LIMIT:?}");
    }
}
