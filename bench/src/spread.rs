//! Measures a Worker that gets four times as many requests as one shard can serve, beside Workers
//! with few requests.
//!
//! ```text
//!  1,600 requests a second at a fixed rate ──► the hot Worker ──┐
//!    200 requests a second at a fixed rate ──► 40 neighbors ────┴─► 8 shards
//! ```
//!
//! The hot Worker waits for 10 ms and handles four requests at a time, so that a shard can serve
//! 400 of its requests a second on any processor. Its requests must go to as many shards as
//! necessary, and those of its neighbors must stay on the shards where the neighbors are warm.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use tenon_proto::revision::Limits;

use crate::metrics::Metrics;
use crate::objective::Objective;
use crate::peers::Peers;
use crate::table::Table;
use crate::tenon::{NODE, ROUTER, Testbed};
use crate::traffic::{self, Reuse, Tally};
use crate::unit::human;

const SHARDS: u16 = 8;

const HOT_SOURCE: &str = "export default {
    async fetch() {
        await new Promise(resolve => setTimeout(resolve, 10));
        return new Response('done');
    }
}";

/// Number of requests that an isolate of the hot Worker handles at a time.
const CONCURRENCY: u32 = 4;

/// Number of requests per second to the hot Worker in the calm phase, a tenth of what one shard can
/// serve.
const CALM_RATE: u32 = 40;
/// Number of requests per second to the hot Worker that take four shards.
const LOADED_RATE: u32 = 1_600;

const NEIGHBORS: usize = 40;
/// Number of requests per second to all neighbors together.
const NEIGHBORS_RATE: u32 = 200;

/// The time within which the requests have to spread.
const SETTLE: Duration = Duration::from_secs(3);

/// Maximum p99 of the hot Worker's requests, as a multiple of the p99 in the calm phase.
const MAX_SLOWDOWN: u32 = 3;

/// The measurements.
#[derive(Debug)]
pub struct Record {
    calm: Tally,
    /// The hot Worker while its requests spread.
    settling: Tally,
    /// The hot Worker after its requests have spread.
    loaded: Tally,
    neighbors: Tally,
    /// Number of isolates that were started during the load.
    started: u64,
}

/// Measures the hot Worker and its neighbors.
///
/// # Arguments
/// * `programs` - the directory of Tenon's programs.
/// * `measured` - the duration of each phase.
///
/// # Errors
/// Fails if a program does not start, or if it exits early, but not if a request fails.
pub fn run(peers: &Peers, programs: &Path, measured: Duration) -> anyhow::Result<Record> {
    let testbed = Testbed::open(SHARDS)?;
    let limits = Limits { concurrency: CONCURRENCY, ..Limits::default() };
    let hot = [testbed.deploy_with_limits("hot", HOT_SOURCE, limits)];
    let hello = peers.hello()?;
    let neighbors: Vec<_> =
        (0..NEIGHBORS).map(|i| testbed.deploy(&format!("neighbor-{i}"), hello.clone())).collect();
    let placement = peers.placement;
    let (node, router) =
        (placement.contender(&programs.join(NODE)), placement.load(&programs.join(ROUTER)));
    let mut tenon = testbed.start(&peers.scratch.join("spread"), node, router)?;
    for host in hot.iter().chain(&neighbors) {
        tenon.await_up(host)?;
    }

    let (addr, admin) = (tenon.addr, tenon.admin);
    let record = placement.loading(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let open = |rate, lasts, hosts| traffic::open(addr, rate, lasts, hosts, Reuse::Always);
            // The neighbors move from the lane to their shards before the measurement.
            let (calm, _) = tokio::join!(
                open(CALM_RATE, measured, &hot),
                open(NEIGHBORS_RATE, 2 * measured, &neighbors)
            );
            let before = started(admin).await?;
            let load = async {
                (open(LOADED_RATE, SETTLE, &hot).await, open(LOADED_RATE, measured, &hot).await)
            };
            let ((settling, loaded), neighbors) =
                tokio::join!(load, open(NEIGHBORS_RATE, SETTLE + measured, &neighbors));
            let started = started(admin).await? - before;
            anyhow::Ok(Record { calm, settling, loaded, neighbors, started })
        })
    })?;
    tenon.ensure_running()?;
    Ok(record)
}

/// Returns the number of isolates that the node has started.
async fn started(admin: std::net::SocketAddr) -> anyhow::Result<u64> {
    Ok(Metrics::of(admin).await?.by("tenon_cold_starts_total", "outcome").values().sum())
}

/// Returns the objectives of this part.
pub fn objectives(record: Option<&Record>) -> [Objective; 3] {
    let p99 = |tally: &Tally| tally.latency(0.99);
    let failed = |record: &Record| {
        [&record.settling, &record.loaded, &record.neighbors].map(Tally::failed).iter().sum()
    };
    [
        Objective::time(
            "a Worker with the load of four shards, p99",
            record.map(|record| p99(&record.loaded)),
            record.map(|record| p99(&record.calm) * MAX_SLOWDOWN),
        ),
        Objective::never("failed requests of it and its neighbors", record.map(failed)),
        Objective::never(
            "isolates started beyond one of the hot Worker for each shard",
            record.map(|record| record.started.saturating_sub(u64::from(SHARDS))),
        ),
    ]
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "A Worker with {LOADED_RATE} requests/s on {SHARDS} shards, of which each can serve 400, beside \
             {NEIGHBORS} neighbors\n"
        )?;
        let mut table = Table::new(["", "p50", "p99", "worst", "requests", "failed"]);
        for (name, tally) in [
            ("hot Worker, 40 requests/s", &self.calm),
            ("while its requests spread", &self.settling),
            ("afterward", &self.loaded),
            ("neighbors", &self.neighbors),
        ] {
            let [p50, p99, worst] = [0.5, 0.99, 1.0].map(|share| human(tally.latency(share)));
            let (requests, failed) = (tally.requests().to_string(), tally.failed().to_string());
            table.row([name.to_owned(), p50, p99, worst, requests, failed]);
        }
        writeln!(f, "{table}")?;
        writeln!(f, "{} isolates were started during the load", self.started)?;
        for (name, tally) in [("the hot Worker", &self.settling), ("the hot Worker", &self.loaded)]
            .into_iter()
            .chain([("a neighbor", &self.neighbors)])
        {
            for (why, count) in tally.failures() {
                writeln!(f, "{name} got {count} × {why}")?;
            }
        }
        Ok(())
    }
}
