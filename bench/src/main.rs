//! `tenon-bench`: Tenon beside its peers, measured in one run on this machine.

mod contest;
mod load;
mod peers;
mod process;
mod report;
mod tenon;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::Parser;

use crate::contest::{Record, Schedule};
use crate::load::Load;
use crate::peers::Peers;
use crate::process::Placement;
use crate::report::Bar;
use crate::tenon::Site;

/// Whose CPU time for a request is the bar.
const REFERENCE: &str = "Envoy + deno";

/// Measures Tenon beside its peers.
#[derive(Debug, Parser)]
#[command(name = "tenon-bench", version)]
struct Args {
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

    /// Leave Tenon out.
    #[arg(long)]
    peers_only: bool,
}

fn default_bin() -> PathBuf {
    let cache = std::env::var_os("TENON_CACHE").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    cache.unwrap_or_else(|| home().join(".cache/tenon")).join("bench/bin")
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let records = contest(&args)?;
    println!("{}", report::contest(&records, REFERENCE));
    println!("{}", report::bars(&[cpu_bar(&records)]));
    Ok(())
}

fn contest(args: &Args) -> anyhow::Result<Vec<Record>> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
    let scratch = tempfile::tempdir()?;
    let placement = Placement::of_this_machine()?;
    let site = Site::serve(&sources.join("hello.js"))?;
    let peers =
        Peers { bin: args.bin.clone(), sources: sources.clone(), scratch: scratch.path().to_owned(), placement };

    let mut contenders = Vec::new();
    if !args.peers_only {
        let own = std::env::current_exe()?;
        let own = own.parent().context("this program is in a directory")?;
        contenders.push(site.contender(own, scratch.path(), placement)?);
    }
    contenders.extend([peers.envoy_and_deno()?, peers.nginx_and_deno()?, peers.workerd()?, peers.deno()?]);

    let load =
        Load { wrk: args.bin.join("wrk"), script: sources.join("wrk.lua"), connections: args.connections, placement };
    let schedule = Schedule {
        rounds: args.rounds,
        warm_up: Duration::from_secs(args.warm_up),
        measured: Duration::from_secs(args.measured),
    };
    contest::run(&mut contenders, &load, schedule)
}

fn cpu_bar(records: &[Record]) -> Bar {
    let cpu = |name| records.iter().find(|record| record.name == name).map(Record::cpu);
    Bar {
        what: format!("CPU µs/request of router + node, beside {REFERENCE}"),
        measured: cpu("Tenon"),
        at_most: cpu(REFERENCE),
        format: report::micros,
    }
}
