//! Measures a fleet: random requests to many Workers, on a node that has memory for all of them, or
//! only for some.
//!
//! ```text
//!  connections, each in a closed loop ──► router ──► node: 2 shards, a memory budget
//!            │                                        └─ warm, or cold: evict, fetch, start
//!            └─ popularity: uniform, or Zipf: the k-th Worker gets 1/k of the first one's requests
//! ```
//!
//! Only memory limits the number of isolates. With a budget that holds all isolates, a node should
//! evict none. With a smaller budget, a node has to evict isolates, and still must not fail a
//! request.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use bytes::Bytes;
use fastrand::Rng;

use crate::metrics::Metrics;
use crate::objective::Objective;
use crate::peers::Peers;
use crate::process::Placement;
use crate::table::Table;
use crate::tenon::{NODE, ROUTER, Testbed};
use crate::traffic::{self, Tally};
use crate::unit::{human, mib, percent};

const SHARDS: u16 = 2;

/// Seed of the random requests, so that every run sends the same ones.
const SEED: u64 = 2_000;

/// Memory that the node may use, in MiB. The first budget holds 2,000 hello Workers, and the second
/// does not.
const BUDGETS: [u64; 2] = [4096, 1024];

/// The numbers of Workers, requests and connections.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    pub workers: usize,
    /// Number of requests in each run.
    pub requests: usize,
    pub connections: usize,
}

/// The measurements of all runs.
#[derive(Debug)]
pub struct Record {
    scale: Scale,
    runs: Vec<Run>,
}

/// The measurements of one node.
#[derive(Debug)]
struct Run {
    budget_mib: u64,
    demand: Demand,
    tally: Tally,
    cold_starts: u64,
    /// Number of evictions, by reason.
    evictions: BTreeMap<String, u64>,
    /// Resident memory at the end, in bytes.
    resident: u64,
    /// Peak of resident memory, in bytes.
    peak: u64,
}

/// The distribution of requests over Workers.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Demand {
    Uniform,
    /// Zipf's law with the exponent 1, which requests for web sites follow.
    Zipf,
}

/// Measures one node for each budget and distribution.
///
/// # Arguments
/// * `programs` - the directory of Tenon's programs.
///
/// # Errors
/// Fails if a program does not start or exits, but not if a request fails.
pub fn run(peers: &Peers, programs: &Path, scale: Scale) -> anyhow::Result<Record> {
    let source = peers.hello()?;
    let mut runs = Vec::new();
    for budget_mib in BUDGETS {
        for demand in [Demand::Uniform, Demand::Zipf] {
            eprintln!("fleet: {} Workers, {budget_mib} MiB, {}", scale.workers, demand.name());
            runs.push(measure(peers, programs, &source, scale, budget_mib, demand)?);
        }
    }
    Ok(Record { scale, runs })
}

fn measure(
    peers: &Peers,
    programs: &Path,
    source: &Bytes,
    scale: Scale,
    budget_mib: u64,
    demand: Demand,
) -> anyhow::Result<Run> {
    let testbed = Testbed::open(SHARDS)?;
    let hosts: Vec<_> = (0..scale.workers)
        .map(|i| testbed.deploy(&format!("worker-{i}"), source.clone()))
        .collect();
    let mut node = Placement::anywhere(&programs.join(NODE));
    node.args(["--memory-budget", &budget_mib.to_string()]);
    node.args(["--isolates-per-shard", &scale.workers.to_string()]);
    let dir = peers.scratch.join(format!("fleet-{budget_mib}-{}", demand.name()));
    let mut tenon = testbed.start(&dir, node, Placement::anywhere(&programs.join(ROUTER)))?;
    tenon.await_up(&hosts[0])?;

    let requests = demand.requests(scale.workers, scale.requests);
    let hosts = requests.into_iter().map(|worker| hosts[worker].as_str());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (tally, metrics) = runtime.block_on(async {
        let tally = traffic::closed(tenon.addr, scale.connections, "/", hosts).await;
        anyhow::Ok((tally, Metrics::of(tenon.admin).await?))
    })?;
    tenon.ensure_running()?;
    Ok(Run {
        budget_mib,
        demand,
        tally,
        cold_starts: metrics.by("tenon_cold_starts_total", "outcome").values().sum(),
        evictions: metrics.by("tenon_evictions_total", "reason"),
        resident: tenon.node.resident()?,
        peak: tenon.node.peak()?,
    })
}

impl Demand {
    fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipf => "Zipf",
        }
    }

    /// Returns the index of the Worker for each of `requests` requests.
    fn requests(self, workers: usize, requests: usize) -> Vec<usize> {
        let weight = |rank: usize| match self {
            Self::Uniform => 1.0,
            Self::Zipf => 1.0 / (rank + 1) as f64,
        };
        let sum = |sum: &mut f64, rank| {
            *sum += weight(rank);
            Some(*sum)
        };
        let sums: Vec<f64> = (0..workers).scan(0.0, sum).collect();
        let total = sums.last().copied().unwrap_or_default();
        let mut random = Rng::with_seed(SEED);
        let draw = |_| {
            let point = random.f64() * total;
            sums.partition_point(|sum| *sum <= point)
        };
        (0..requests).map(draw).collect()
    }
}

/// Returns the objectives of this part.
pub fn objectives(record: Option<&Record>) -> [Objective; 1] {
    let failed = |record: &Record| record.runs.iter().map(|run| run.tally.failed()).sum();
    [Objective::never("failed requests of a fleet", record.map(failed))]
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Scale { workers, requests, connections } = self.scale;
        writeln!(
            f,
            "{workers} hello Workers on one node; {requests} requests over {connections} connections\n"
        )?;
        let mut table = Table::new([
            "demand",
            "budget",
            "failed",
            "warm",
            "p50",
            "p99",
            "worst",
            "requests/s",
            "evicted",
            "memory",
            "peak memory",
        ]);
        for run in &self.runs {
            let tally = &run.tally;
            let [p50, p99, worst] = [0.5, 0.99, 1.0].map(|share| human(tally.latency(share)));
            table.row([
                run.demand.name().to_owned(),
                mib(run.budget_mib << 20),
                tally.failed().to_string(),
                percent(tally.requests().saturating_sub(run.cold_starts), tally.requests()),
                p50,
                p99,
                worst,
                format!("{:.0}", tally.per_second()),
                run.evicted(),
                mib(run.resident),
                mib(run.peak),
            ]);
        }
        writeln!(f, "{table}")?;
        for run in &self.runs {
            for (why, count) in run.tally.failures() {
                writeln!(f, "{}, {} MiB: {count} × {why}", run.demand.name(), run.budget_mib)?;
            }
        }
        Ok(())
    }
}

impl Run {
    fn evicted(&self) -> String {
        let reasons = self.evictions.iter().filter(|(_, count)| **count > 0);
        let reasons: Vec<_> = reasons.map(|(reason, count)| format!("{count} {reason}")).collect();
        if reasons.is_empty() { "none".to_owned() } else { reasons.join(", ") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(demand: Demand) -> Vec<usize> {
        let mut counts = vec![0; 100];
        for worker in demand.requests(100, 100_000) {
            counts[worker] += 1;
        }
        counts
    }

    #[test]
    fn a_uniform_demand_gives_all_workers_about_the_same_number_of_requests() {
        assert!(counts(Demand::Uniform).iter().all(|count| (850..1_150).contains(count)));
    }

    #[test]
    fn the_second_worker_of_a_zipf_demand_gets_half_as_many_requests_as_the_first() {
        let counts = counts(Demand::Zipf);
        let ratio = |k: usize| counts[0] as f64 / counts[k - 1] as f64;
        assert!((1.9..2.1).contains(&ratio(2)) && (9.0..11.0).contains(&ratio(10)), "{counts:?}");
    }

    #[test]
    fn every_run_sends_the_same_requests() {
        assert_eq!(Demand::Zipf.requests(50, 500), Demand::Zipf.requests(50, 500));
    }
}
