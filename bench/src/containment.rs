//! Measures how hostile Workers affect their neighbors, on an installed Tenon with several nodes.
//!
//! ```text
//!  200 requests a second, at a fixed rate ──► 300 Workers in 30 namespaces ─┐
//!  each hostile script, in a namespace of its own, one after another:       ├─► routers ──► nodes
//!    unknown   its hostile requests come first                              │
//!    promoted  light requests until a shard serves it, then hostile ones ───┘
//!  one node stopped for 12 s ───────────────────────────────────────────────┘
//! ```
//!
//! The scripts come from the suite of hostile Workers (`runtime-node/tests/hostile`), which checks
//! how they end. This part counts the effects on requests to other Workers, on processes of nodes,
//! and on Pods. It needs the cluster of `make cluster` and runs inside its network, as root,
//! because it stops the processes of a node.

mod installation;
mod phase;
pub(crate) mod script;
mod script_run;
mod stopping;

use std::fmt;
use std::time::Duration;

use anyhow::Context;
use tenon_e2e::open_loop::{Lap, OpenLoop, Plan, PlannedRequest};
use tenon_e2e::{Cluster, Namespace, answering, worker};
use tokio::time::sleep;

use crate::objective::Objective;
use crate::table::Table;
use crate::unit::human;
use installation::{Installation, Lost};
use phase::Phase;
use script_run::ScriptRun;

/// Number of requests per second to all victims together.
const RATE: u32 = 200;

/// Number of namespaces with victims.
const NAMESPACES: usize = 30;
/// Number of victims in each namespace.
const VICTIMS_PER_NAMESPACE: usize = 10;

/// Duration of the load on the victims before the first measurement, long enough for each victim to
/// be promoted to a shard.
const WARM_UP: Duration = Duration::from_secs(30);

/// Duration of the measurement of the victims alone, for comparison.
const ALONE: Duration = Duration::from_secs(20);

/// Maximum latency of a victim's request during a run in which a process is lost.
const BOUND_DURING_LOSS: Duration = Duration::from_secs(2);

/// Maximum latency of a victim's request while a node is stopped.
const BOUND_DURING_STOP: Duration = Duration::from_millis(2_500);

/// The measurements of the whole part.
#[derive(Debug)]
pub struct Record {
    alone: Lap,
    runs: Vec<ScriptRun>,
    /// Scripts that could not be run, with the reason.
    skipped: Vec<String>,
    stopped: Option<Lap>,
    /// The lap after the last measurement, with the requests that were still in flight.
    final_lap: Lap,
    /// Number of restarts of containers.
    restarts: i32,
}

/// Runs the scripts on the installed Tenon.
///
/// # Arguments
/// * `words` - select the scripts whose names contain at least one of them. Without words, all
///   scripts run.
///
/// # Errors
/// Fails if Tenon is not installed, if a victim's request fails before the first script, or if a
/// call to the cluster fails. A script that cannot be run is skipped, and later requests may fail.
pub fn run(words: &[String]) -> anyhow::Result<Record> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let cluster = Cluster::from_env().await?;
        let installation = Installation::find(&cluster).await.context("Tenon is not installed")?;
        let before = installation.restarts().await?;
        let victims = Victims::deploy(&cluster).await?;
        let plan = Plan { target: installation.routers, rate: RATE, requests: victims.requests() };
        let mut load = OpenLoop::start(plan);
        eprintln!(
            "containment: sending requests to {} victims",
            NAMESPACES * VICTIMS_PER_NAMESPACE
        );
        sleep(WARM_UP).await;
        load.lap();
        sleep(ALONE).await;
        let alone = load.lap();
        alone.ensure_all_served(RATE).context("the victims fail without hostile scripts")?;
        eprintln!("containment: alone: {alone}");
        let (mut runs, mut skipped) = (Vec::new(), Vec::new());
        for script in script::all().into_iter().filter(|script| is_chosen(&script.name, words)) {
            for phase in Phase::ALL {
                match script_run::run_script(&installation, &script, phase, &mut load).await {
                    Ok(run) => {
                        eprintln!("containment: {run}");
                        run.victims.failures.iter().for_each(|failure| eprintln!("    {failure}"));
                        runs.push(run);
                    }
                    Err(error) => skipped.push(format!("{} {phase}: {error:#}", script.name)),
                }
            }
        }
        // Restarts are counted before a node is stopped, because the node's liveness probe may then
        // restart it.
        let restarts = installation.restarts().await? - before;
        let stopped = match is_chosen("stop", words) {
            true => Some(stopping::stop_node(&mut load).await?),
            false => None,
        };
        let final_lap = load.stop().await;
        eprintln!("containment: at the end: {final_lap}");
        victims.delete().await?;
        Ok(Record { alone, runs, skipped, stopped, final_lap, restarts })
    })
}

fn is_chosen(name: &str, words: &[String]) -> bool {
    words.is_empty() || words.iter().any(|word| name.contains(word.as_str()))
}

/// The victims: Workers that do no harm.
struct Victims {
    namespaces: Vec<Namespace>,
}

impl Victims {
    async fn deploy(cluster: &Cluster) -> anyhow::Result<Self> {
        let mut namespaces = Vec::new();
        for _ in 0..NAMESPACES {
            let namespace = Namespace::create(cluster, "victims").await?;
            for name in Self::names() {
                namespace.apply(&worker(&name, &answering(&name))).await?;
            }
            namespaces.push(namespace);
        }
        for namespace in &namespaces {
            for name in Self::names() {
                namespace.await_ready(&name, tenon_crds::ConditionStatus::True).await?;
            }
        }
        Ok(Self { namespaces })
    }

    fn names() -> impl Iterator<Item = String> {
        (0..VICTIMS_PER_NAMESPACE).map(|i| format!("victim-{i}"))
    }

    fn requests(&self) -> Vec<PlannedRequest> {
        let requests_of = |namespace: &Namespace| {
            let namespace = namespace.clone();
            Self::names()
                .map(move |name| PlannedRequest { host: namespace.host(&name), body: name })
        };
        self.namespaces.iter().flat_map(requests_of).collect()
    }

    async fn delete(self) -> anyhow::Result<()> {
        for namespace in self.namespaces {
            namespace.delete().await?;
        }
        Ok(())
    }
}

impl Record {
    /// Returns the number of victims' requests that failed while hostile scripts ran, or at the
    /// end.
    fn failed(&self) -> u64 {
        self.runs
            .iter()
            .map(|run| &run.victims)
            .chain([&self.final_lap])
            .map(|lap| lap.failed)
            .sum()
    }

    /// Returns the victims' slowest request during the runs in which a process was lost.
    fn slowest_beside_a_loss(&self) -> Duration {
        let beside = self.runs.iter().filter(|run| run.lost != Lost::default());
        beside.map(|run| run.victims.latency.max).max().unwrap_or_default()
    }

    /// Returns the number of runs that ended more processes than [`ScriptRun::is_too_costly`]
    /// allows.
    fn too_costly(&self) -> u64 {
        self.runs.iter().filter(|run| run.is_too_costly()).count() as u64
    }
}

/// Returns the objectives of this part.
pub fn objectives(record: Option<&Record>) -> [Objective; 6] {
    let stopped = record.and_then(|record| record.stopped.as_ref());
    [
        Objective::never(
            "failed requests of victims during hostile scripts",
            record.map(Record::failed),
        ),
        Objective::time(
            "victims' slowest request when a process was lost",
            record.map(Record::slowest_beside_a_loss),
            Some(BOUND_DURING_LOSS),
        ),
        Objective::never(
            "revisions that ended more than 2 lanes, or 1 shard + 1 lane",
            record.map(Record::too_costly),
        ),
        Objective::never(
            "restarted containers",
            record.and_then(|record| u64::try_from(record.restarts).ok()),
        ),
        Objective::never(
            "failed requests of victims while a node was stopped for 12 s",
            stopped.map(|lap| lap.failed),
        ),
        Objective::time(
            "victims' slowest request while a node was stopped for 12 s",
            stopped.map(|lap| lap.latency.max),
            Some(BOUND_DURING_STOP),
        ),
    ]
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scripts = self.runs.len();
        writeln!(
            f,
            "{} victims with {RATE} requests/s; {scripts} runs of hostile scripts\n",
            NAMESPACES * VICTIMS_PER_NAMESPACE
        )?;
        let mut table =
            Table::new(["", "runs", "requests", "failed", "p50", "p99 (worst run)", "slowest"]);
        let row = |what: String, count: usize, lap: &Lap| {
            let [p50, p99, max] = [lap.latency.p50, lap.latency.p99, lap.latency.max].map(human);
            [what, count.to_string(), lap.sent.to_string(), lap.failed.to_string(), p50, p99, max]
        };
        table.row(row("alone".to_owned(), 0, &self.alone));
        for phase in Phase::ALL {
            let laps =
                self.runs.iter().filter(|run| run.phase == phase).map(|run| run.victims.clone());
            let count = laps.clone().count();
            if let Some(lap) = laps.reduce(Lap::and) {
                table.row(row(format!("during scripts, {phase}"), count, &lap));
            }
        }
        if let Some(lap) = &self.stopped {
            table.row(row("node stopped".to_owned(), 0, lap));
        }
        writeln!(f, "{table}")?;
        for run in self.runs.iter().filter(|run| run.is_remarkable()) {
            writeln!(f, "{run}")?;
            run.victims.failures.iter().try_for_each(|failure| writeln!(f, "    {failure}"))?;
        }
        if let Some(lap) = &self.stopped {
            lap.failures.iter().try_for_each(|failure| writeln!(f, "node stopped: {failure}"))?;
        }
        self.skipped.iter().try_for_each(|why| writeln!(f, "skipped: {why}"))?;
        writeln!(f, "{} containers were restarted", self.restarts)
    }
}
