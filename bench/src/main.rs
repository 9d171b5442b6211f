//! `tenon-bench`: what Tenon promises, measured in one run on this machine, and its peers beside it.
//!
//! ```text
//!  apply    a real control plane and our processes on it ──► apply → first 200
//!  contest  router + node, and the peers, in turns under one load ──► CPU time for a request
//!  engine   the node's own benchmark, without a network ──► warm invocation, cold start
//!                                                            └──► the bars, and what became of them
//! ```

mod apply;
mod contest;
mod engine;
mod load;
mod peers;
mod process;
mod quantile;
mod report;
mod table;
mod tenon;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::{Parser, ValueEnum};

use crate::contest::Schedule;
use crate::load::Load;
use crate::peers::Peers;
use crate::process::Placement;
use crate::report::Report;
use crate::tenon::Site;

/// Measures Tenon beside its peers.
#[derive(Debug, Parser)]
#[command(name = "tenon-bench", version)]
struct Args {
    /// What to measure; everything unless said otherwise.
    #[arg(value_enum)]
    parts: Vec<Part>,

    /// Workers that are applied.
    #[arg(long, default_value_t = 100)]
    workers: usize,

    /// Where bench/setup left the peers.
    #[arg(long, env = "TENON_BENCH_BIN", default_value_os_t = default_bin())]
    bin: PathBuf,

    /// Connections at once.
    #[arg(long, default_value_t = 64)]
    connections: u32,

    /// How often each contender has its turn.
    #[arg(long, default_value_t = 3)]
    rounds: u32,

    /// Seconds of load before each measurement.
    #[arg(long, default_value_t = 2)]
    warm_up: u64,

    /// Seconds of each measurement.
    #[arg(long, default_value_t = 5)]
    measured: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Part {
    /// From apply to the first answer; inside the cluster's network namespace.
    Apply,
    /// Tenon and its peers under load.
    Contest,
    /// The peers alone.
    Peers,
    /// Invocations without a network.
    Engine,
}

fn default_bin() -> PathBuf {
    let cache = std::env::var_os("TENON_CACHE").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    cache.unwrap_or_else(|| home().join(".cache/tenon")).join("bench/bin")
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let parts = match args.parts.as_slice() {
        [] => &[Part::Engine, Part::Contest, Part::Apply],
        chosen => chosen,
    };
    let mut report = Report::default();
    for part in parts {
        match part {
            Part::Apply => report.apply = Some(apply::run(args.workers)?),
            Part::Contest => report.contest = contest(&args, Some(&own_binaries()?))?,
            Part::Peers => report.contest = contest(&args, None)?,
            Part::Engine => report.engine = engine::run()?,
        }
    }
    println!("\n{report}");
    Ok(())
}

/// The directory of this program, where the others of the same build are.
fn own_binaries() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    Ok(own.parent().context("a program is in a directory")?.to_owned())
}

fn contest(args: &Args, tenon: Option<&Path>) -> anyhow::Result<Vec<contest::Record>> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
    let scratch = tempfile::tempdir()?;
    let placement = Placement::of_this_machine()?;
    let peers =
        Peers { bin: args.bin.clone(), sources: sources.clone(), scratch: scratch.path().to_owned(), placement };
    let load =
        Load { wrk: args.bin.join("wrk"), script: sources.join("wrk.lua"), connections: args.connections, placement };
    let schedule = Schedule {
        rounds: args.rounds,
        warm_up: Duration::from_secs(args.warm_up),
        measured: Duration::from_secs(args.measured),
    };

    let site = Site::serve(&sources.join("hello.js"))?;
    let mut contenders = Vec::new();
    if let Some(binaries) = tenon {
        contenders.push(site.contender(binaries, scratch.path(), placement)?);
    }
    contenders.extend([peers.envoy_and_deno()?, peers.nginx_and_deno()?, peers.workerd()?, peers.deno()?]);
    contest::run(&mut contenders, &load, schedule)
}
