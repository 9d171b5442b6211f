//! Runs one script on the cluster: applies its Workers, sends their requests, deletes them, and
//! measures the effect on everything else.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, ensure};
use bytes::Bytes;
use futures::future::join_all;
use http::Method;
use kube::ResourceExt;
use tenon_crds::{ConditionStatus, Worker};
use tenon_e2e::open_loop::{Lap, OpenLoop};
use tenon_e2e::{Connection, HttpResponse, Namespace, await_condition};
use tokio::time::sleep;

use super::installation::{Installation, Lost};
use super::phase::Phase;
use super::script::{self, Script};
use crate::traffic::code;
use crate::unit::human;

/// Number of times that a script's requests are sent in each phase, so that a revision that has
/// ended a process gets requests again.
const TIMES: usize = 4;

/// Time limit for the operator to decide whether a Worker can serve.
const DECISION_TIMEOUT: Duration = Duration::from_secs(30);

/// Time limit for a light Worker to move to its shard, which usually takes much less time.
const MOVE_TIMEOUT: Duration = Duration::from_secs(10);

/// Duration of the measurement after the last request of a script, which covers delayed effects.
const OBSERVED_AFTER: Duration = Duration::from_millis(300);

/// Duration of a further measurement if a process was lost. Within this time, the requests of the
/// victims that wait for the successor of the process have ended.
const OBSERVED_AFTER_LOSS: Duration = Duration::from_secs(3);

/// The measurements of one run of a script.
#[derive(Debug)]
pub(super) struct ScriptRun {
    name: String,
    pub(super) phase: Phase,
    /// Number of revisions of the script.
    revisions: u64,
    /// The distinct outcomes of the hostile requests.
    outcomes: Vec<String>,
    pub(super) lost: Lost,
    pub(super) victims: Lap,
}

/// Runs a script once.
///
/// # Errors
/// Fails if the script cannot be applied, or if a call to the cluster fails.
pub(super) async fn run_script(
    installation: &Installation,
    script: &Script,
    phase: Phase,
    load: &mut OpenLoop,
) -> anyhow::Result<ScriptRun> {
    let workers = script::workers(script, phase)?;
    let namespace = Namespace::create(&installation.cluster, "hostile").await?;
    let before = installation.exits().await?;
    load.lap();
    let outcomes = collect_outcomes(installation, script, phase, &namespace, &workers).await;
    namespace.delete().await?;
    sleep(OBSERVED_AFTER).await;
    let mut lost = installation.exits().await?.since(&before);
    if lost != Lost::default() {
        sleep(OBSERVED_AFTER_LOSS).await;
        installation.await_all_serving().await?;
        lost = installation.exits().await?.since(&before);
    }
    let revisions = workers.len() as u64;
    Ok(ScriptRun {
        name: script.name.clone(),
        phase,
        revisions,
        outcomes: outcomes?,
        lost,
        victims: load.lap(),
    })
}

/// Applies the Workers and sends requests to them in turn.
async fn collect_outcomes(
    installation: &Installation,
    script: &Script,
    phase: Phase,
    namespace: &Namespace,
    workers: &[Worker],
) -> anyhow::Result<Vec<String>> {
    let mut outcomes = Vec::new();
    for worker in workers {
        namespace.apply(worker).await?;
    }
    for worker in workers {
        let name = worker.name_any();
        let host = namespace.host(&name);
        if let Some(refusal) = refusal(namespace, &name).await? {
            outcomes.push(refusal);
        } else if phase == Phase::Promoted
            && let Err(error) = move_to_its_shard(installation, &host).await
        {
            outcomes.push(format!("not promoted ({:.60})", error.root_cause().to_string()));
        }
    }
    for request in 0..script.requests * TIMES {
        let host = namespace.host(&workers[request % workers.len()].name_any());
        let requests = (0..script.at_once).map(|_| send(installation, script, &host));
        outcomes.extend(join_all(requests).await);
    }
    outcomes.sort_unstable();
    outcomes.dedup();
    Ok(outcomes)
}

/// Returns the reason why a Worker is not ready, or `None` if it is ready.
async fn refusal(namespace: &Namespace, name: &str) -> anyhow::Result<Option<String>> {
    await_condition(&format!("{name} to be ready or refused"), DECISION_TIMEOUT, async || {
        let status =
            namespace.worker(name).await?.status.context("the Worker has no status yet")?;
        let ready = status.conditions.into_iter().find(|condition| condition.type_ == "Ready");
        let ready = ready.context("the Worker has no Ready condition yet")?;
        ensure!(ready.status != ConditionStatus::Unknown, "the condition Ready is {ready:?}");
        Ok((ready.status == ConditionStatus::False).then_some(ready.reason))
    })
    .await
}

async fn move_to_its_shard(installation: &Installation, host: &str) -> anyhow::Result<()> {
    let mut connection = Connection::to(installation.routers);
    await_condition("the Worker to move to a shard", MOVE_TIMEOUT, async || {
        let answer = connection.get(host, "/light").await?;
        let shard = answer.shard.clone().with_context(|| outcome(&answer))?;
        ensure!(!shard.starts_with("lane"), "the Worker is still in a lane");
        Ok(())
    })
    .await
}

/// Sends one hostile request, and returns its outcome.
async fn send(installation: &Installation, script: &Script, host: &str) -> String {
    let method = if script.body.is_empty() { Method::GET } else { Method::POST };
    let body = Bytes::from(script.body.clone());
    let answer = Connection::to(installation.routers).send(method, host, "/", body).await;
    answer.map_or_else(|error| format!("{error:#}"), |answer| outcome(&answer))
}

fn outcome(answer: &HttpResponse) -> String {
    match answer.status {
        200 => "200".to_owned(),
        status => format!("{status} {:.60}", code(&answer.body)),
    }
}

impl ScriptRun {
    /// Returns whether the run ended more processes than allowed: two for each revision, at most
    /// one of them a shard.
    pub(super) fn is_too_costly(&self) -> bool {
        let Lost { shards, lanes } = self.lost;
        shards > self.revisions || shards + lanes > 2 * self.revisions
    }

    /// Returns whether the run gets a line of its own in the report.
    pub(super) fn is_remarkable(&self) -> bool {
        self.victims.failed > 0
            || self.lost != Lost::default()
            || self.victims.latency.max >= Duration::from_secs(1)
    }
}

impl fmt::Display for ScriptRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, phase, outcomes, lost, victims, .. } = self;
        write!(f, "{name}, {phase}: {}; ", outcomes.join(", "))?;
        if *lost != Lost::default() {
            write!(f, "ended {} lanes and {} shards; ", lost.lanes, lost.shards)?;
        }
        let [p99, max] = [victims.latency.p99, victims.latency.max].map(human);
        write!(
            f,
            "victims: {} failed of {}, p99 {p99}, slowest {max}",
            victims.failed, victims.sent
        )
    }
}
