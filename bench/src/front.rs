//! Measures how a greedy crowd affects the other clients of a router, and how much memory the crowd
//! costs the router.
//!
//! ```text
//!  crowd, from 1 or 8 addresses ──► 20,000 connections, 9,000 heads, … ─┐
//!  victims, from 127.0.0.1: 200 requests a second at a fixed rate,      ├─► router ──► node
//!  every other one on a connection of its own ──────────────────────────┘
//! ```
//!
//! The router has a CPU of its own, and half of the chart's memory limit for clients. The node, the
//! victims and the crowd share the other CPU, where the crowd has the lowest priority. The victims
//! are first measured alone, and then beside each crowd once its members are connected. No crowd
//! may make a request of the victims fail or take much longer, or bring the router to its memory
//! limit.

use std::fmt;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::ensure;
use tenon_proto::revision::Limits;

use crate::crowd::{Connections, Crowd, Kind, Visit};
use crate::objective::Objective;
use crate::peers::Peers;
use crate::process::Process;
use crate::sockets::{self, Queued};
use crate::table::Table;
use crate::tenon::{NODE, ROUTER, Testbed};
use crate::traffic::{self, Reuse, Tally};
use crate::unit::{human, mib};

/// Memory limit of the router in the chart, in bytes. Clients get half of it.
const MEMORY_LIMIT: u64 = 512 << 20;

/// Number of victims.
const VICTIMS: usize = 4;
/// Number of requests per second to all victims together.
const RATE: u32 = 200;

/// A latency that does not matter to a client.
const NEGLIGIBLE_LATENCY: Duration = Duration::from_millis(10);

/// Maximum number of file descriptors that a router without a crowd has open.
const MAX_IDLE_DESCRIPTORS: u64 = 100;

/// Time limit for the router to close the connections of a crowd that has been stopped.
const CLOSED_WITHIN: Duration = Duration::from_secs(60);

/// Name, kind and number of members of each crowd.
const CROWDS: [(&str, Kind, usize); 5] = [
    ("idle connections", Kind::Idle, 20_000),
    ("endless heads", Kind::Heads, 9_000),
    ("trickling bodies", Kind::Trickles, 4_000),
    ("promised bodies", Kind::Promises, 64),
    ("unread answers", Kind::Unread, 2_000),
];

/// The source of a Worker that reads the whole request body, or responds with up to four MiB, as
/// fast as the client reads.
const LARGE: &str = "const piece = new Uint8Array(65536).fill(120);
export default {
  async fetch(request) {
    if (request.method === 'POST') return new Response(await request.text());
    let left = 64;
    return new Response(new ReadableStream({
      pull(controller) {
        if (left-- > 0) controller.enqueue(piece);
        else controller.close();
      },
    }));
  },
};";

/// The measurements of all phases.
#[derive(Debug)]
pub struct Record {
    phases: Vec<Phase>,
}

#[derive(Debug)]
struct Phase {
    name: String,
    victims: Tally,
    crowd: Connections,
    crowd_cpu: Duration,
    router_cpu: Duration,
    /// Peak of the router's resident memory, in bytes.
    peak: u64,
    queued: Queued,
    /// Number of file descriptors of the router.
    descriptors: u64,
}

/// Measures the victims alone and beside each crowd.
///
/// # Arguments
/// * `programs` - the directory of Tenon's programs.
/// * `measured` - the duration of each phase.
///
/// # Errors
/// Fails if a program does not start, or if it exits, but not if a request fails.
pub fn run(peers: &Peers, programs: &Path, measured: Duration) -> anyhow::Result<Record> {
    let hello = peers.hello()?;
    let testbed = Testbed::open(1)?;
    let victims: Vec<_> =
        (0..VICTIMS).map(|i| testbed.deploy(&format!("victim-{i}"), hello.clone())).collect();
    let large = testbed.deploy_for_tenant(
        "crowd",
        "large",
        LARGE,
        Limits { concurrency: 2_000, ..Limits::default() },
    );
    let placement = peers.placement;
    let dir = peers.scratch.join("front");
    let mut router = placement.contender(&programs.join(ROUTER));
    router.args(["--client-memory", &((MEMORY_LIMIT / 2) >> 20).to_string()]);
    let mut tenon = testbed.start(&dir, placement.load(&programs.join(NODE)), router)?;
    for host in victims.iter().chain([&large]) {
        tenon.await_up(host)?;
    }

    let mut phases = Vec::new();
    for (name, crowd) in phase_names().zip(crowds()) {
        eprintln!("front: victims {name}");
        tenon.router.reset_peak()?;
        let gather = |(kind, size, from): (Kind, usize, Vec<Ipv4Addr>)| {
            let visit =
                Visit { target: tenon.addr, brief: &victims[0], large: &large, from: &from };
            Crowd::gather(placement, &dir.join(phases.len().to_string()), kind, size, &visit)
        };
        let crowd = crowd.map(gather).transpose()?;
        crowd.iter().for_each(Crowd::await_connected);
        let crowd_cpu =
            || crowd.as_ref().map(Crowd::cpu).transpose().map(Option::unwrap_or_default);
        let (router_before, crowd_before, began) =
            (tenon.router.cpu()?, crowd_cpu()?, Instant::now());
        let victims = placement.loading(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            Ok(runtime.block_on(traffic::open(
                tenon.addr,
                RATE,
                measured,
                &victims,
                Reuse::Alternate,
            )))
        })?;
        tenon.ensure_running()?;
        phases.push(Phase {
            name,
            victims,
            crowd: crowd.as_ref().map(Crowd::connections).unwrap_or_default(),
            crowd_cpu: share(crowd_cpu()? - crowd_before, began),
            router_cpu: share(tenon.router.cpu()? - router_before, began),
            peak: tenon.router.peak()?,
            queued: sockets::queued(tenon.addr.port())?,
            descriptors: tenon.router.descriptors()?,
        });
        drop(crowd);
        await_closed(&mut tenon.router)?;
    }
    Ok(Record { phases })
}

/// Returns the CPU time per second since `since`.
fn share(cpu: Duration, since: Instant) -> Duration {
    cpu.div_f64(since.elapsed().as_secs_f64())
}

/// Returns the crowd of each phase. It is `None` for the first phase, in which the victims are
/// alone.
fn crowds() -> impl Iterator<Item = Option<(Kind, usize, Vec<Ipv4Addr>)>> {
    let one = vec![Ipv4Addr::new(127, 0, 0, 2)];
    let several: Vec<_> = (10..18).map(|last| Ipv4Addr::new(127, 0, 0, last)).collect();
    let crowds = CROWDS.into_iter().flat_map(move |(_, kind, size)| {
        [&one, &several].map(|from| Some((kind, size, from.clone())))
    });
    std::iter::once(None).chain(crowds)
}

fn phase_names() -> impl Iterator<Item = String> {
    let beside = |(name, ..): (&str, Kind, usize)| {
        ["one address", "eight addresses"].map(|from| format!("with {name} from {from}"))
    };
    std::iter::once("alone".to_owned()).chain(CROWDS.into_iter().flat_map(beside))
}

fn await_closed(router: &mut Process) -> anyhow::Result<()> {
    let began = Instant::now();
    while router.descriptors()? > MAX_IDLE_DESCRIPTORS {
        router.ensure_running()?;
        ensure!(
            began.elapsed() < CLOSED_WITHIN,
            "the router still has {} descriptors {CLOSED_WITHIN:?} after the end of the crowd",
            router.descriptors()?
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// Returns the objectives of this part.
pub fn objectives(record: Option<&Record>) -> Vec<Objective> {
    let p99 = |phase: &Phase| phase.victims.latency(0.99);
    let phases = record.map(|record| &record.phases[..]);
    let within = phases.map(|phases| NEGLIGIBLE_LATENCY.max(p99(&phases[0]) * 2));
    let mut objectives: Vec<_> = phase_names()
        .enumerate()
        .skip(1)
        .map(|(i, name)| {
            Objective::time(
                format!("victims {name}, p99"),
                phases.map(|phases| p99(&phases[i])),
                within,
            )
        })
        .collect();
    let failed = phases.map(|phases| phases.iter().map(|phase| phase.victims.failed()).sum());
    let peak =
        phases.and_then(|phases| phases.iter().map(|phase| phase.peak + phase.queued.all()).max());
    objectives.push(Objective::never("failed requests of a crowd's victims", failed));
    objectives.push(Objective::bytes(
        "memory of a router during a crowd, resident and in the kernel",
        peak,
        Some(MEMORY_LIMIT),
    ));
    objectives
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "A router with a crowd: {VICTIMS} hello Workers with {RATE} requests/s, half of them on new connections\n"
        )?;
        let mut table = Table::new([
            "victims",
            "p50",
            "p99",
            "worst",
            "requests",
            "failed",
            "router: resident",
            "in the kernel",
            "descriptors",
            "CPU",
            "crowd: holds",
            "disconnected",
            "CPU",
        ]);
        let cpu = |cpu: Duration| format!("{:.0} %", cpu.as_secs_f64() * 100.0);
        for phase in &self.phases {
            let [p50, p99, worst] =
                [0.5, 0.99, 1.0].map(|share| human(phase.victims.latency(share)));
            table.row([
                phase.name.clone(),
                p50,
                p99,
                worst,
                phase.victims.requests().to_string(),
                phase.victims.failed().to_string(),
                mib(phase.peak),
                mib(phase.queued.all()),
                phase.descriptors.to_string(),
                cpu(phase.router_cpu),
                phase.crowd.held.to_string(),
                phase.crowd.lost.to_string(),
                cpu(phase.crowd_cpu),
            ]);
        }
        writeln!(f, "{table}")?;
        for phase in &self.phases {
            for (why, count) in phase.victims.failures() {
                writeln!(f, "{}: a victim got {count} × {why}", phase.name)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_phase_has_a_name_and_every_crowd_an_objective() {
        assert_eq!(phase_names().count(), crowds().count());
        assert_eq!(objectives(None).len(), crowds().count() - 1 + 2);
    }
}
