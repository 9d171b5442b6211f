//! `tenon-bench` measures what Tenon promises, beside its peers, in one run on one machine.
//!
//! ```text
//!  rollback  three routers on a real control plane ──► shares of revisions, time of a rollback
//!  apply     a real control plane and Tenon's processes on it ──► apply → first 200
//!  import    thousands of Workers ──► delay of a new one, writes, cold starts without an operator
//!  contest   router + node, and the peers, in turn under the same load ──► CPU time per request
//!  hop       router + node with mutual TLS, long heads, large bodies ──► CPU time, latency, syscalls
//!  engine    the node's own benchmark, without a network ──► warm invocation, cold start
//!  isolates  a node beside workerd ──► cold start, memory per Worker
//!  fleet     thousands of Workers on a node ──► failures, evictions, latencies
//!  fairness  a greedy tenant on a shard ──► its neighbors' latencies and throughput
//!  spread    a Worker with the load of four shards ──► latencies, shards that it gets
//!  front     greedy clients of a router ──► latencies of its other clients, its memory
//!  hostile   the suite of hostile Workers ──► scripts that fail, whether their process survives
//!  streams   a gibibyte through a Worker ──► throughput, and the node's memory
//!  assets    a static file, beside nginx ──► CPU time of each
//!  web       typical work of Workers, beside deno ──► CPU time of each
//!                                                          └──► the objectives, and their verdicts
//! ```
//!
//! The other parts are measured only if they are named: `peers` measures the peers alone; `builds`
//! compares builds of Tenon; `soak` takes hours, with a mix of all kinds of load; and `containment`
//! needs Tenon installed on a cluster, and runs hostile Workers beside 300 others on several nodes.

mod apply;
mod assets;
mod authority;
mod containment;
mod contest;
mod crowd;
mod engine;
mod fairness;
mod fleet;
mod front;
mod hello;
mod hop;
mod hostile;
mod import;
mod isolates;
mod load;
mod metrics;
mod objective;
mod peers;
mod process;
mod quantile;
mod report;
mod rollback;
mod soak;
mod sockets;
mod spread;
mod streams;
mod syscalls;
mod table;
mod tenon;
mod traffic;
mod unit;
mod web;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::{Parser, Subcommand, ValueEnum};

use crate::contest::{Contender, Schedule};
use crate::load::{Load, RequestSpec};
use crate::peers::Peers;
use crate::process::Placement;
use crate::report::Report;
use crate::tenon::{NODE, ROUTER, Testbed};

/// Number of concurrent connections to the fleet.
const FLEET_CONNECTIONS: usize = 32;

/// Number of concurrent streams in the cases with many streams.
const STREAMS: usize = 1_000;

/// Benchmarks Tenon and its peers.
#[derive(Debug, Parser)]
#[command(name = "tenon-bench", version, args_conflicts_with_subcommands = true)]
struct Args {
    #[command(subcommand)]
    role: Option<Role>,

    /// Parts to measure; by default all except `peers`, `builds`, `soak` and `containment`.
    #[arg(value_enum)]
    parts: Vec<Part>,

    /// Number of Workers that `apply` applies.
    #[arg(long, default_value_t = 100)]
    workers: usize,

    /// Number of Workers that `import` imports.
    #[arg(long, default_value_t = 2_000)]
    imported: usize,

    /// Number of requests that `rollback` divides between two revisions.
    #[arg(long, default_value_t = 100_000)]
    divided: usize,

    /// Directory into which bench/setup installed the peers.
    #[arg(long, env = "TENON_BENCH_BIN", default_value_os_t = default_bin())]
    bin: PathBuf,

    /// Number of concurrent connections.
    #[arg(long, default_value_t = 64)]
    connections: u32,

    /// Number of rounds. Each round measures every contender once.
    #[arg(long, default_value_t = 3)]
    rounds: u32,

    /// Duration of the load before each measurement, in seconds.
    #[arg(long, default_value_t = 2)]
    warm_up: u64,

    /// Duration of each measurement, in seconds.
    #[arg(long, default_value_t = 5)]
    measured: u64,

    /// Number of cold starts of each kind.
    #[arg(long, default_value_t = 40)]
    starts: usize,

    /// Number of Workers whose memory is measured.
    #[arg(long, default_value_t = 500)]
    isolates: usize,

    /// Number of Workers in the fleet.
    #[arg(long, default_value_t = 2_000)]
    fleet: usize,

    /// Size of each stream that flows at full speed, in MiB.
    #[arg(long, default_value_t = 1024)]
    stream: u64,

    /// Words that select what `containment` does: it runs the scripts whose names contain one of
    /// the words, and stops a node if one of the words is `stop`. By default, it does all of that.
    #[arg(long)]
    only: Vec<String>,

    /// Duration of `soak`, in minutes.
    #[arg(long, default_value_t = 180)]
    minutes: u64,

    /// Directories with the router and the node of other builds, which `builds` measures beside
    /// this one.
    #[arg(long, value_name = "DIR")]
    beside: Vec<PathBuf>,

    /// Number of requests to the fleet in each run.
    #[arg(long, default_value_t = 40_000)]
    requests: usize,
}

/// The roles in which this program starts itself.
#[derive(Debug, Subcommand)]
enum Role {
    #[command(hide = true)]
    Crowd(crowd::Args),
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Part {
    /// Time from apply to the first response. Must run inside the cluster's network namespace.
    Apply,
    /// Shares of revisions, and the time of a rollback on three routers. Must run inside the
    /// cluster's network namespace.
    Rollback,
    /// New Workers during an import of thousands, and cold starts while the operator is replaced.
    /// Must run inside the cluster's network namespace.
    Import,
    /// Tenon and its peers under load.
    Contest,
    /// Tenon with and without mutual TLS between its processes, compared with nginx and deno.
    Hop,
    /// The peers alone.
    Peers,
    /// This build of Tenon and those of `--beside` under the same load, without peers.
    Builds,
    /// Invocations without a network.
    Engine,
    /// Cold starts and memory, compared with workerd.
    Isolates,
    /// Thousands of Workers on one node.
    Fleet,
    /// The neighbors of a greedy Worker.
    Fairness,
    /// A Worker with more requests than one shard can serve.
    Spread,
    /// The other clients of a router during a crowd of greedy clients.
    Front,
    /// The suite of hostile Workers.
    Hostile,
    /// The suite of hostile Workers on an installed Tenon with 300 other Workers. Must run inside
    /// the cluster's network namespace.
    Containment,
    /// Mixed load for hours.
    Soak,
    /// Streamed bodies.
    Streams,
    /// A static file, compared with nginx.
    Assets,
    /// The Web API, compared with deno.
    Web,
}

fn default_bin() -> PathBuf {
    let cache = std::env::var_os("TENON_CACHE").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    cache.unwrap_or_else(|| home().join(".cache/tenon")).join("bench/bin")
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    if let Some(Role::Crowd(args)) = &args.role {
        return crowd::run(args);
    }
    let parts = match args.parts.as_slice() {
        [] => &[
            Part::Engine,
            Part::Contest,
            Part::Hop,
            Part::Isolates,
            Part::Fleet,
            Part::Fairness,
            Part::Spread,
            Part::Front,
            Part::Streams,
            Part::Web,
            Part::Assets,
            Part::Hostile,
            Part::Apply,
            Part::Rollback,
            Part::Import,
        ],
        chosen => chosen,
    };
    let scratch = tempfile::tempdir()?;
    let peers = Peers {
        bin: args.bin.clone(),
        sources: Path::new(env!("CARGO_MANIFEST_DIR")).join("peers"),
        scratch: scratch.path().to_owned(),
        placement: Placement::of_this_machine()?,
    };
    let programs = own_programs()?;
    let mut report = Report::default();
    let mut failed = Vec::new();
    for part in parts {
        // The other parts are measured nevertheless, because each takes minutes.
        if let Err(error) = measure(*part, &args, &peers, &programs, &mut report) {
            failed.push(format!("{part:?}: {error:#}"));
        }
    }
    println!("\n{report}");
    ensure!(failed.is_empty(), "parts that could not be measured:\n{}", failed.join("\n"));
    Ok(())
}

/// Measures a part, and puts the result into `report`.
fn measure(
    part: Part,
    args: &Args,
    peers: &Peers,
    programs: &Path,
    report: &mut Report,
) -> anyhow::Result<()> {
    match part {
        Part::Apply => report.apply = Some(apply::run(args.workers)?),
        Part::Rollback => report.rollback = Some(rollback::run(args.divided)?),
        Part::Import => report.import = Some(import::run(args.imported)?),
        Part::Contest => report.contest = contest(args, peers, Some(programs))?,
        Part::Hop => {
            let (load, schedule) = (args.load(peers), args.schedule());
            report.hop = Some(hop::run(peers, programs, &load, schedule)?);
        }
        Part::Builds => report.contest = builds(args, peers, programs)?,
        Part::Peers => report.contest = contest(args, peers, None)?,
        Part::Engine => report.engine = Some(engine::run()?),
        Part::Isolates => report.isolates = Some(isolates::run(peers, programs, args.isolates())?),
        Part::Fleet => report.fleet = Some(fleet::run(peers, programs, args.fleet())?),
        Part::Fairness => report.fairness = Some(fairness::run(peers, programs, args.fairness())?),
        Part::Spread => {
            let measured = 2 * Duration::from_secs(args.measured);
            report.spread = Some(spread::run(peers, programs, measured)?);
        }
        Part::Front => {
            report.front =
                Some(front::run(peers, programs, 2 * Duration::from_secs(args.measured))?)
        }
        Part::Streams => report.streams = Some(streams::run(peers, programs, args.streams())?),
        Part::Web => {
            report.web = Some(web::run(peers, programs, &args.load(peers), args.schedule())?)
        }
        Part::Assets => {
            let (load, schedule) = (args.load(peers), args.schedule());
            report.assets = Some(assets::run(peers, programs, &load, schedule)?);
        }
        Part::Containment => report.containment = Some(containment::run(&args.only)?),
        Part::Soak => {
            let duration = Duration::from_secs(60 * args.minutes);
            report.soak = Some(soak::run(peers, programs, duration)?);
        }
        Part::Hostile => report.hostile = Some(hostile::run()?),
    }
    Ok(())
}

impl Args {
    fn isolates(&self) -> isolates::Scale {
        isolates::Scale { starts: self.starts, workers: self.isolates }
    }

    fn fleet(&self) -> fleet::Scale {
        fleet::Scale {
            workers: self.fleet,
            requests: self.requests,
            connections: FLEET_CONNECTIONS,
        }
    }

    fn streams(&self) -> streams::Scale {
        streams::Scale { bytes: self.stream << 20, at_once: STREAMS }
    }

    fn load(&self, peers: &Peers) -> Load {
        Load {
            wrk: self.bin.join("wrk"),
            script: peers.sources.join("wrk.lua"),
            request: RequestSpec::path("/"),
            connections: self.connections,
            placement: peers.placement,
        }
    }

    fn schedule(&self) -> Schedule {
        Schedule {
            rounds: self.rounds,
            warm_up: Duration::from_secs(self.warm_up),
            measured: Duration::from_secs(self.measured),
        }
    }

    fn fairness(&self) -> fairness::Schedule {
        fairness::Schedule { rounds: self.rounds, measured: Duration::from_secs(self.measured) }
    }
}

/// Returns the directory of this program, which holds the other programs of the same build.
fn own_programs() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe()?;
    Ok(program.parent().context("this program is not in a directory")?.to_owned())
}

fn contest(
    args: &Args,
    peers: &Peers,
    programs: Option<&Path>,
) -> anyhow::Result<Vec<contest::Record>> {
    let tenon = programs.map(|programs| build(peers, programs, "Tenon")).transpose()?;
    let colocated = programs.map(|programs| colocated(peers, programs)).transpose()?;
    let (_testbeds, mut contenders): (Vec<_>, Vec<_>) = tenon.into_iter().chain(colocated).unzip();
    contenders.extend([
        peers.envoy_and_deno()?,
        peers.nginx_and_deno()?,
        peers.workerd()?,
        peers.deno()?,
    ]);
    contest::run(&mut contenders, &args.load(peers), args.schedule())
}

/// Starts a node with a front. It serves the hello Worker while the returned testbed is open.
fn colocated(peers: &Peers, programs: &Path) -> anyhow::Result<(Testbed, Contender)> {
    let testbed = Testbed::open(1)?;
    testbed.deploy("hello", peers.hello()?);
    let scratch = tempfile::tempdir_in(&peers.scratch)?.keep().join("colocated");
    let node = peers.placement.contender(&programs.join(NODE));
    let contender = testbed.start_colocated(&scratch, node)?;
    Ok((testbed, contender))
}

/// Runs a contest of builds of Tenon.
fn builds(args: &Args, peers: &Peers, programs: &Path) -> anyhow::Result<Vec<contest::Record>> {
    let others = args.beside.iter().map(|dir| build(peers, dir, &dir.display().to_string()));
    let started: Vec<_> = std::iter::once(build(peers, programs, "Tenon"))
        .chain(others)
        .collect::<anyhow::Result<_>>()?;
    let (_testbeds, mut contenders): (Vec<_>, Vec<_>) = started.into_iter().unzip();
    contest::run(&mut contenders, &args.load(peers), args.schedule())
}

/// Starts the router and the node of the build in a directory. They serve the hello Worker while
/// the returned testbed is open.
fn build(peers: &Peers, programs: &Path, name: &str) -> anyhow::Result<(Testbed, Contender)> {
    let testbed = Testbed::open(1)?;
    testbed.deploy("hello", peers.hello()?);
    let program = |name| peers.placement.contender(&programs.join(name));
    let scratch = tempfile::tempdir_in(&peers.scratch)?.keep().join("tenon");
    let tenon = testbed.start(&scratch, program(NODE), program(ROUTER))?;
    Ok((testbed, Contender { name: name.to_owned(), ..tenon.into() }))
}
