//! Fairness: what neighbours on a shard feel of a tenant that takes all it may, and of one that takes more.
//!
//! ```text
//!  16 connections, each asking again ──► the tenant: its whole CPU limit in each request ─┐
//!  200 requests a second, come what may ──► 4 hello Workers, one after another ───────────┴─► one shard
//! ```
//!
//! The neighbours' requests come on their own time, in an open loop: a closed one would ask less of a shard that makes
//! them wait, and so count few of those who had to. Three phases take turns, round by round: the neighbours alone, beside
//! a *spender*, whose requests use nine tenths of the limit and are answered, and beside a *breaker*, whose requests
//! never end, so that each is terminated and its isolate replaced.
//!
//! Two things are promised of each phase. A neighbour waits for at most one turn of the tenant, which is at most the CPU
//! limit. And it keeps its share: all that the neighbours ask is far less than their part of a shard of five Workers, so a
//! fair one serves them as many requests in the time as it does when they are alone.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::ensure;
use tenon_e2e::Connection;
use tenon_proto::revision::Limits;

use crate::bar::Bar;
use crate::metrics::Metrics;
use crate::peers::Peers;
use crate::quantile::median;
use crate::table::Table;
use crate::tenon::{NODE, ROUTER, Site};
use crate::traffic::{self, Reuse, Tally};
use crate::unit::{human, percent};

const NEIGHBOURS: usize = 4;
/// Requests a second, for all of them together.
const RATE: u32 = 200;
/// The tenant's connections, each with a request in flight at all times.
const BACKLOG: usize = 16;

/// What the end of a turn and the way back may take, on top of the limit.
const SLACK: Duration = Duration::from_millis(5);

/// How much of their throughput alone neighbours keep: the rest is what is under way when the time is over.
const KEPT: f64 = 0.9;

/// Spends CPU time in proportion to the number in its query.
const SPENDER: &str = "export default {
  fetch(request) {
    const rounds = Number(new URL(request.url).search.slice(1));
    let x = 1;
    for (let i = 0; i < rounds; i++) x = (Math.imul(x, 31) + i) | 0;
    return new Response(String(x));
  },
};";

const BREAKER: &str = "export default { fetch() { for (;;); } };";

/// How long it takes.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    pub rounds: u32,
    /// Of each phase in each round.
    pub measured: Duration,
}

/// All that was seen.
#[derive(Debug)]
pub struct Record {
    phases: [Phase; 3],
    /// Isolates that were replaced.
    condemned: u64,
}

#[derive(Debug)]
struct Phase {
    name: &'static str,
    neighbours: Tally,
    tenant: Tally,
}

/// A tenant that has more to do than there is time for.
#[derive(Clone, Debug)]
struct Tenant {
    host: String,
    path: String,
}

/// # Arguments
/// * `own` - the directory of Tenon's programs.
///
/// # Errors
/// When something does not start, or ends; not when a request fails.
pub fn run(peers: &Peers, own: &Path, schedule: Schedule) -> anyhow::Result<Record> {
    let hello = peers.hello()?;
    let site = Site::open(1)?;
    let neighbours: Vec<_> = (0..NEIGHBOURS).map(|i| site.deploy(&format!("neighbour-{i}"), hello.clone())).collect();
    let (spender, breaker) = (site.deploy("spender", SPENDER), site.deploy("breaker", BREAKER));
    let placement = peers.placement;
    let (node, router) = (placement.contender(&own.join(NODE)), placement.load(&own.join(ROUTER)));
    let mut tenon = site.start(&peers.scratch.join("fairness"), node, router)?;
    for host in neighbours.iter().chain([&spender]) {
        tenon.await_up(host)?;
    }

    let addr = tenon.addr;
    let (phases, metrics) = placement.loading(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let spender = Tenant { path: calibrate(addr, &spender).await?, host: spender };
            let breaker = Tenant { path: "/".to_owned(), host: breaker };
            let phase = |name| Phase { name, neighbours: Tally::default(), tenant: Tally::default() };
            let mut phases = ["alone", "beside a spender", "beside a breaker"].map(phase);
            for round in 1..=schedule.rounds {
                for (phase, tenant) in phases.iter_mut().zip([None, Some(&spender), Some(&breaker)]) {
                    eprintln!("fairness: round {round} of {}: neighbours {}", schedule.rounds, phase.name);
                    phase.last(addr, &neighbours, tenant, schedule.measured).await;
                }
            }
            anyhow::Ok((phases, Metrics::of(tenon.admin).await?))
        })
    })?;
    tenon.ensure_running()?;
    let evictions = metrics.by("tenon_evictions_total", "reason");
    Ok(Record { phases, condemned: evictions.get("condemned").copied().unwrap_or(0) })
}

impl Phase {
    async fn last(&mut self, addr: SocketAddr, hosts: &[String], tenant: Option<&Tenant>, duration: Duration) {
        let until = Instant::now() + duration;
        let neighbours = traffic::open(addr, RATE, duration, hosts, Reuse::Always);
        let tenant = async {
            let Some(Tenant { host, path }) = tenant else { return Tally::default() };
            let hosts = std::iter::repeat_with(|| host.as_str()).take_while(|_| Instant::now() < until);
            traffic::closed(addr, BACKLOG, path, hosts).await
        };
        let (neighbours, tenant) = tokio::join!(neighbours, tenant);
        self.neighbours.merge(neighbours);
        self.tenant.merge(tenant);
    }
}

/// The path with which the spender uses nine tenths of its CPU limit: a little more, and a slow moment would break it.
async fn calibrate(addr: SocketAddr, host: &str) -> anyhow::Result<String> {
    const SAMPLES: usize = 9;
    let limit = cpu_limit();
    let mut connection = Connection::to(addr);
    let mut rounds: u64 = 1_000_000;
    loop {
        let path = format!("/?{rounds}");
        let mut seconds = Vec::with_capacity(SAMPLES);
        for _ in 0..SAMPLES {
            let began = Instant::now();
            let answer = connection.get(host, &path).await?;
            ensure!(answer.status == 200, "the spender answers {answer:?} to {path}");
            seconds.push(began.elapsed().as_secs_f64());
        }
        let one = median(seconds);
        if one > limit.as_secs_f64() / 5.0 {
            let rounds = rounds as f64 * 0.9 * limit.as_secs_f64() / one;
            return Ok(format!("/?{rounds:.0}"));
        }
        rounds *= 2;
    }
}

fn cpu_limit() -> Duration {
    Duration::from_millis(Limits::default().cpu_ms.into())
}

/// The promises.
pub fn bars(record: Option<&Record>) -> [Bar; 5] {
    let p99 = |i: usize| record.map(|record| record.phases[i].neighbours.latency(0.99));
    let throughput = |i: usize| record.map(|record| record.phases[i].neighbours.in_time_per_second());
    let within = Some(cpu_limit() + SLACK);
    let share = throughput(0).map(|alone| alone * KEPT);
    let failed = record.map(|record| record.phases.iter().map(|phase| phase.neighbours.failed()).sum());
    [
        Bar::time("neighbours of a Worker that spends its CPU limit, p99", p99(1), within),
        Bar::time("neighbours of a Worker that breaks its CPU limit, p99", p99(2), within),
        Bar::rate("neighbours of a Worker that spends its CPU limit, their share", throughput(1), share),
        Bar::rate("neighbours of a Worker that breaks its CPU limit, their share", throughput(2), share),
        Bar::never("failed requests of neighbours", failed),
    ]
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{NEIGHBOURS} hello Workers with {RATE} requests/s on a shard, and a tenant with {BACKLOG} requests in flight\n"
        )?;
        let mut table = Table::new([
            "neighbours",
            "p50",
            "p99",
            "worst",
            "asked",
            "done in time",
            "failed",
            "tenant: answered/s",
            "failed/s",
        ]);
        for Phase { name, neighbours, tenant } in &self.phases {
            let [p50, p99, worst] = [0.5, 0.99, 1.0].map(|share| human(neighbours.latency(share)));
            let share = |count: u64| match tenant.asked() {
                0 => "-".to_owned(),
                asked => format!("{:.1}", tenant.per_second() * count as f64 / asked as f64),
            };
            table.row([
                (*name).to_owned(),
                p50,
                p99,
                worst,
                neighbours.asked().to_string(),
                percent(neighbours.in_time(), neighbours.asked()),
                neighbours.failed().to_string(),
                share(tenant.answered()),
                share(tenant.failed()),
            ]);
        }
        writeln!(f, "{table}")?;
        writeln!(f, "{} isolates were replaced", self.condemned)?;
        for Phase { name, neighbours, tenant } in &self.phases {
            for (who, tally) in [("a neighbour", neighbours), ("the tenant", tenant)] {
                for (why, count) in tally.failures() {
                    writeln!(f, "{name}: {who} got {count} × {why}")?;
                }
            }
        }
        Ok(())
    }
}
