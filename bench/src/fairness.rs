//! Measures how a tenant affects its neighbors on a shard when it uses as much of the shard as it
//! can.
//!
//! ```text
//!  16 connections, each in a closed loop ──► the hog ──────────────────┐
//!  200 requests a second at a fixed rate ──► 4 hello Workers in turn ──┴─► one shard, one lane
//! ```
//!
//! The neighbors' requests arrive in an open loop. A closed loop would send fewer requests to a
//! shard that makes them wait, and would therefore count few of the delayed requests. Phases
//! alternate, round by round: the neighbors alone, and beside each kind of hog
//! (`fairness/hogs.rs`): a *spender*, whose requests use nine tenths of the CPU limit and succeed;
//! a *breaker*, whose requests never end, so the node terminates each request and replaces the
//! isolate; a *collector*, which keeps 100 MiB and turns it into garbage; *cold starts* of Workers
//! of one mebibyte; and a *compiler* of WebAssembly.
//!
//! The objectives check three promises. First, a neighbor beside a hog waits no longer than it
//! would for a few light requests of other Workers. Second, it keeps its throughput: the neighbors'
//! total demand is far less than their part of a shard of five Workers, so a fair shard serves them
//! as many requests per second as when they are alone. Third, no request of a neighbor fails.

mod hogs;

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;

use crate::metrics::Metrics;
use crate::objective::Objective;
use crate::peers::Peers;
use crate::table::Table;
use crate::tenon::{NODE, ROUTER, Testbed};
use crate::traffic::{self, Reuse, Tally};
use crate::unit::{human, percent};
use hogs::Hog;

/// Number of neighbors.
const NEIGHBORS: usize = 4;
/// Number of requests per second to all neighbors together.
const RATE: u32 = 200;
/// Number of connections to the hog. Each has a request in flight at all times.
const BACKLOG: usize = 16;

/// Maximum p99 of the neighbors beside a hog. If twice the p99 of the neighbors alone is more than
/// this, then that value is the maximum.
const P99: Duration = Duration::from_millis(10);

/// Minimum throughput of the neighbors, as a share of their throughput alone. The difference
/// from 1 allows for requests that are in flight when the time is over.
const MIN_THROUGHPUT_SHARE: f64 = 0.9;

/// The number of rounds, and the duration of the measurements.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    pub rounds: u32,
    /// The duration of each phase in each round.
    pub measured: Duration,
}

/// The measurements of all phases.
#[derive(Debug)]
pub struct Record {
    /// The phases. In the first one, the neighbors are alone.
    phases: Vec<Phase>,
    /// The number of isolates that were replaced.
    condemned: u64,
}

#[derive(Debug)]
struct Phase {
    name: String,
    neighbors: Tally,
    hog: Tally,
}

/// Measures the neighbors alone and beside each hog.
///
/// # Arguments
/// * `programs` - the directory of Tenon's programs.
///
/// # Errors
/// Fails if a program exits or does not start, but not if a request fails.
pub fn run(peers: &Peers, programs: &Path, schedule: Schedule) -> anyhow::Result<Record> {
    let hello = peers.hello()?;
    let testbed = Testbed::open(1)?;
    let neighbors: Vec<_> =
        (0..NEIGHBORS).map(|i| testbed.deploy(&format!("neighbor-{i}"), hello.clone())).collect();
    let mut hogs = Hog::deploy(&testbed);
    let placement = peers.placement;
    let (node, router) =
        (placement.contender(&programs.join(NODE)), placement.load(&programs.join(ROUTER)));
    let mut tenon = testbed.start(&peers.scratch.join("fairness"), node, router)?;
    for host in &neighbors {
        tenon.await_up(host)?;
    }

    let addr = tenon.addr;
    let (phases, metrics) = placement.loading(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            hogs[0].calibrate(addr).await?;
            let beside = hogs.iter().map(|hog| (format!("with {}", hog.name), Some(hog)));
            let phases = std::iter::once(("alone".to_owned(), None)).chain(beside);
            let mut phases: Vec<_> = phases.map(|(name, hog)| (Phase::new(name), hog)).collect();
            for round in 1..=schedule.rounds {
                for (phase, hog) in &mut phases {
                    eprintln!(
                        "fairness: round {round} of {}: neighbors {}",
                        schedule.rounds, phase.name
                    );
                    phase.run(addr, &neighbors, *hog, schedule.measured).await;
                }
            }
            anyhow::Ok((
                phases.into_iter().map(|(phase, _)| phase).collect(),
                Metrics::of(tenon.admin).await?,
            ))
        })
    })?;
    tenon.ensure_running()?;
    let evictions = metrics.by("tenon_evictions_total", "reason");
    Ok(Record { phases, condemned: evictions.get("condemned").copied().unwrap_or(0) })
}

impl Phase {
    fn new(name: String) -> Self {
        Self { name, neighbors: Tally::default(), hog: Tally::default() }
    }

    async fn run(
        &mut self,
        addr: SocketAddr,
        hosts: &[String],
        hog: Option<&Hog>,
        duration: Duration,
    ) {
        let until = Instant::now() + duration;
        let neighbors = traffic::open(addr, RATE, duration, hosts, Reuse::Always);
        let hog = async {
            let Some(hog) = hog else { return Tally::default() };
            traffic::closed(addr, BACKLOG, hog.path(), hog.hosts_until(until)).await
        };
        let (neighbors, hog) = tokio::join!(neighbors, hog);
        self.neighbors.merge(neighbors);
        self.hog.merge(hog);
    }
}

/// Returns the objectives of this part.
pub fn objectives(record: Option<&Record>) -> [Objective; 3] {
    let alone = record.and_then(|record| record.phases.first());
    let beside = || record.iter().flat_map(|record| record.phases.iter().skip(1));
    let p99 = beside().map(|phase| phase.neighbors.latency(0.99)).max();
    let rate = beside().map(|phase| phase.neighbors.in_time_per_second()).min_by(f64::total_cmp);
    let within = alone.map(|alone| P99.max(2 * alone.neighbors.latency(0.99)));
    let share = alone.map(|alone| alone.neighbors.in_time_per_second() * MIN_THROUGHPUT_SHARE);
    let failed =
        record.map(|record| record.phases.iter().map(|phase| phase.neighbors.failed()).sum());
    [
        Objective::time("neighbors of a greedy Worker, p99 with the worst one", p99, within),
        Objective::rate("neighbors of a greedy Worker, requests in time", rate, share),
        Objective::never("failed requests of neighbors", failed),
    ]
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{NEIGHBORS} hello Workers with {RATE} requests/s on a shard, and a hog with {BACKLOG} requests in flight\n"
        )?;
        let mut table = Table::new([
            "neighbors",
            "p50",
            "p99",
            "worst",
            "requests",
            "in time",
            "failed",
            "hog: answered/s",
            "failed/s",
        ]);
        for Phase { name, neighbors, hog } in &self.phases {
            let [p50, p99, worst] = [0.5, 0.99, 1.0].map(|share| human(neighbors.latency(share)));
            let share = |count: u64| match hog.requests() {
                0 => "-".to_owned(),
                requests => format!("{:.1}", hog.per_second() * count as f64 / requests as f64),
            };
            table.row([
                name.clone(),
                p50,
                p99,
                worst,
                neighbors.requests().to_string(),
                percent(neighbors.in_time(), neighbors.requests()),
                neighbors.failed().to_string(),
                share(hog.answered()),
                share(hog.failed()),
            ]);
        }
        writeln!(f, "{table}")?;
        writeln!(f, "{} isolates were replaced", self.condemned)?;
        for Phase { name, neighbors, hog } in &self.phases {
            for (client, tally) in [("a neighbor", neighbors), ("the hog", hog)] {
                for (why, count) in tally.failures() {
                    writeln!(f, "{name}: {client} got {count} × {why}")?;
                }
            }
        }
        Ok(())
    }
}
