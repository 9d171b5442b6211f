//! A soak puts mixed load on one router and one node for hours, and measures whether memory, file
//! descriptors and latency stay flat.
//!
//! ```text
//!  victims  200 requests a second to 50 hello Workers, in an open loop ─┐
//!  cold     the next of 2,000 Workers, ten a second                     │
//!  streams  16 MiB through a Worker and back, again and again           ├─► router ──► node
//!  sockets  100 messages over a WebSocket, then the next WebSocket      │
//!  caches   `caches.default`: a lookup, and a write if it misses        │
//!  hostile  the scripts of the suite, one after another                ─┘
//!                                     every ten seconds: a sample
//! ```
//!
//! The first quarter of the time warms everything up. The rest is divided into two halves, and the
//! growth of a series is the share by which the median of the second half exceeds that of the
//! first. Medians of many samples do not depend on the script that happens to run when a sample is
//! taken.

mod growth;
mod loads;

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tenon_e2e::open_loop::{Lap, OpenLoop, Plan, PlannedRequest};
use tokio::time::{MissedTickBehavior, interval};

use crate::hello::ANSWER;
use crate::objective::Objective;
use crate::peers::Peers;
use crate::process::Placement;
use crate::table::Table;
use crate::tenon::{NODE, ROUTER, Tenon, Testbed};
use crate::unit::{human, mib};
use growth::growth;
use loads::Loads;

const SHARDS: u16 = 2;

/// Memory that the node may use, in MiB. It is less than the Workers need together.
const BUDGET: u64 = 1024;

/// Number of victims.
const VICTIMS: usize = 50;
/// Number of requests per second to all victims together.
const RATE: u32 = 200;

const SAMPLE_INTERVAL: Duration = Duration::from_secs(10);

/// Maximum growth per hour, as a share.
const PER_HOUR: f64 = 0.01;

/// Growth, as a share, that a run of any length may show because of noise, even without a leak.
const NOISE: f64 = 0.05;

/// The measurements of the whole run.
#[derive(Debug)]
pub struct Record {
    lasted: Duration,
    samples: Vec<Sample>,
    /// Number of victims' requests that failed.
    failed: u64,
    /// The first failures in each interval between samples.
    failures: Vec<String>,
    /// Number of requests or other units of work that each load has completed.
    done: Vec<(&'static str, u64)>,
}

/// The measurements at one time.
#[derive(Debug)]
struct Sample {
    /// Resident memory of the node, in bytes.
    node: u64,
    /// Resident memory of the router, in bytes.
    router: u64,
    /// Number of file descriptors of node and router together.
    descriptors: u64,
    /// 99th percentile of the latency of the victims' requests since the previous sample.
    p99: Duration,
}

/// A series of measurements that must stay flat.
struct Series {
    what: &'static str,
    of: fn(&Sample) -> f64,
    show: fn(f64) -> String,
}

const SERIES: [Series; 4] = [
    Series { what: "memory of the node", of: |sample| sample.node as f64, show: bytes },
    Series { what: "memory of the router", of: |sample| sample.router as f64, show: bytes },
    Series {
        what: "descriptors of both",
        of: |sample| sample.descriptors as f64,
        show: |count| format!("{count:.0}"),
    },
    Series {
        what: "p99 of the victims",
        of: |sample| sample.p99.as_secs_f64(),
        show: |seconds| human(Duration::from_secs_f64(seconds)),
    },
];

fn bytes(bytes: f64) -> String {
    mib(bytes as u64)
}

/// Runs the loads, and measures their effects.
///
/// # Arguments
/// * `programs` - the directory of Tenon's programs.
/// * `duration` - the duration of the run.
///
/// # Errors
/// Fails if a program does not start, or if it exits, but not if a request fails.
pub fn run(peers: &Peers, programs: &Path, duration: Duration) -> anyhow::Result<Record> {
    let hello = peers.hello()?;
    let testbed = Testbed::open(SHARDS)?;
    let victims: Vec<_> = (0..VICTIMS)
        .map(|i| {
            testbed.deploy_for_tenant(
                "victims",
                &format!("victim-{i}"),
                hello.clone(),
                Default::default(),
            )
        })
        .collect();
    let loads = Loads::deploy(&testbed, &hello);
    let mut node = Placement::anywhere(&programs.join(NODE));
    node.args(["--memory-budget", &BUDGET.to_string()]);
    let router = Placement::anywhere(&programs.join(ROUTER));
    let mut tenon = testbed.start(&peers.scratch.join("soak"), node, router)?;
    for host in &victims {
        tenon.await_up(host)?;
    }
    let body = ANSWER.to_owned();
    let requests =
        victims.into_iter().map(|host| PlannedRequest { host, body: body.clone() }).collect();
    let plan = Plan { target: tenon.addr, rate: RATE, requests };

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let addr = tenon.addr;
        let mut record = tokio::select! {
            record = measure(&mut tenon, plan, duration) => record?,
            never = loads.run(addr) => match never {},
        };
        record.done = loads.done();
        Ok(record)
    })
}

/// Takes samples until `duration` has passed.
async fn measure(tenon: &mut Tenon, plan: Plan, duration: Duration) -> anyhow::Result<Record> {
    let mut load = OpenLoop::start(plan);
    let began = Instant::now();
    let (mut samples, mut failed, mut failures) = (Vec::new(), 0, Vec::new());
    let mut count = |lap: &Lap| {
        failed += lap.failed;
        failures.extend(lap.failures.iter().map(ToString::to_string));
    };
    let mut ticks = interval(SAMPLE_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    while began.elapsed() < duration {
        ticks.tick().await;
        tenon.ensure_running()?;
        let lap = load.lap();
        count(&lap);
        let sample = Sample {
            node: tenon.node.resident()?,
            router: tenon.router.resident()?,
            descriptors: tenon.node.descriptors()? + tenon.router.descriptors()?,
            p99: lap.latency.p99,
        };
        eprintln!("soak: {:.0?}: {sample}, {} failed", began.elapsed(), lap.failed);
        samples.push(sample);
    }
    count(&load.stop().await);
    tenon.ensure_running().context("a program exited before the end of the soak")?;
    Ok(Record { lasted: began.elapsed(), samples, failed, failures, done: Vec::new() })
}

impl Record {
    fn growth(&self, series: &Series) -> f64 {
        growth(&self.samples.iter().map(series.of).collect::<Vec<_>>())
    }
}

/// Returns the maximum growth in a run of this length, as a share.
fn bound(lasted: Duration) -> f64 {
    NOISE.max(PER_HOUR * lasted.as_secs_f64() / 3600.0)
}

/// Returns the objectives of this part.
pub fn objectives(record: Option<&Record>) -> Vec<Objective> {
    let within = record.map(|record| bound(record.lasted));
    let mut objectives: Vec<_> = SERIES
        .iter()
        .map(|series| {
            let growth = record.map(|record| record.growth(series));
            Objective::share(format!("growth during a soak: {}", series.what), growth, within)
        })
        .collect();
    let failed = record.map(|record| record.failed);
    objectives.push(Objective::never("failed requests of victims during a soak", failed));
    objectives
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = SERIES
            .iter()
            .map(|series| format!("{} {}", series.what, (series.show)((series.of)(self))));
        f.write_str(&shown.collect::<Vec<_>>().join(", "))
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "A soak of {:.0?} on one router and one node of {SHARDS} shards\n",
            self.lasted
        )?;
        let mut table = Table::new(["", "first half", "second half", "growth"]);
        for series in &SERIES {
            let values: Vec<_> = self.samples.iter().map(series.of).collect();
            let [first, second] = growth::halves(&values).map(series.show);
            table.row([
                series.what.to_owned(),
                first,
                second,
                format!("{:+.1} %", 100.0 * self.growth(series)),
            ]);
        }
        writeln!(f, "{table}")?;
        let done = self.done.iter().map(|(load, count)| format!("{load} {count}"));
        writeln!(f, "other loads: {}", done.collect::<Vec<_>>().join(", "))?;
        self.failures.iter().take(20).try_for_each(|failure| writeln!(f, "{failure}"))
    }
}
