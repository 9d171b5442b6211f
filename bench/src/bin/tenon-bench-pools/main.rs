//! `tenon-bench-pools` compares the costs of running an isolate on one thread and on many threads.
//! The architectures use the same V8, the same isolates and the same handlers, in one run. There
//! are three kinds:
//!
//! ```text
//!  legacy   request ──► a new isolate, for it alone
//!  shared   request ──► any thread ──► the common pool, locked ──► V8's Locker ──► an isolate
//!  pinned   request ──► the thread that the Worker's id hashes to ──► its isolate, enter and exit
//! ```
//!
//! The **mechanism** is the same for all architectures and does not depend on them: [`sandbox`]
//! creates an isolate, [`turn`] runs one turn, [`residence`] lets a thread enter the isolate,
//! [`invocation`] carries a request through its turns, and [`host`] performs the operations that
//! the request awaits. The **policy** is one small module for each architecture: [`legacy`],
//! [`shared`], [`pinned`] and [`handed`], which is the pinned pool with a handover between threads.
//! [`tenon`] uses the product's own engine where [`pinned`] uses the harness, to show that the
//! harness is a fair baseline. [`load`] sends the requests; [`report`] and [`verdict`] print the
//! results.
//!
//! A process must not use V8 both with its Locker and without, and memory that one measurement has
//! used must not be charged to the next. This program therefore runs itself once per measurement,
//! in rounds, and prints a table of what these processes have measured.

mod architecture;
mod handed;
mod histogram;
mod host;
mod invocation;
mod legacy;
mod load;
mod measurement;
mod origin;
mod pinned;
mod report;
mod residence;
mod sandbox;
mod scenario;
mod shared;
#[path = "../../table.rs"]
mod table;
mod tenon;
mod turn;
mod usage;
mod verdict;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use clap::{Parser, Subcommand, ValueEnum};

use crate::architecture::Architecture;
use crate::load::{Load, Window};
use crate::measurement::Measurement;
use crate::origin::Origin;
use crate::report::Report;
use crate::sandbox::Sandbox;
use crate::scenario::Scenario;
use crate::usage::Machine;

/// Compares isolates that are created for each request, shared between threads, or pinned to one
/// thread.
#[derive(Debug, Parser)]
#[command(name = "tenon-bench-pools", version)]
struct Args {
    #[command(subcommand)]
    mode: Option<Mode>,

    /// Number of rounds. Each round has every measurement, so that a noisy moment affects all of
    /// them.
    #[arg(long, default_value_t = 3)]
    rounds: usize,

    #[command(flatten)]
    window: Window,

    /// Scenarios to measure; by default all.
    #[arg(value_enum)]
    scenarios: Vec<Scenario>,
}

#[derive(Debug, Subcommand)]
enum Mode {
    /// Run one measurement in this process, and print it for the parent process.
    #[command(hide = true)]
    Measure(Measure),
}

#[derive(Debug, clap::Args)]
struct Measure {
    architecture: Architecture,
    scenario: Scenario,
    /// Path of the snapshot.
    #[arg(long)]
    snapshot: PathBuf,
    /// Address of the origin that Workers fetch from.
    #[arg(long)]
    origin: SocketAddr,
    #[command(flatten)]
    window: Window,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    match args.mode {
        Some(Mode::Measure(measure)) => measure.run(),
        None => compare(&args),
    }
}

/// Runs every measurement in a process of its own, round by round.
fn compare(args: &Args) -> anyhow::Result<()> {
    let scratch = tempfile::tempdir()?;
    let snapshot = scratch.path().join("snapshot.bin");
    // V8 is initialized before the origin's thread starts.
    sandbox::init("");
    std::fs::write(&snapshot, sandbox::snapshot()).context("cannot write the snapshot")?;
    let origin = Origin::serve()?;

    let chosen =
        |scenario: &Scenario| args.scenarios.is_empty() || args.scenarios.contains(scenario);
    let mut report = Report::default();
    let before = Machine::now()?;
    for round in 1..=args.rounds {
        for scenario in Scenario::value_variants().iter().copied().filter(chosen) {
            eprintln!("round {round} of {}: {scenario}", args.rounds);
            for &architecture in scenario.contenders() {
                let measurement = measure_in_child(
                    architecture,
                    scenario,
                    &snapshot,
                    origin.address(),
                    args.window,
                )?;
                report.add(architecture, scenario, measurement);
            }
        }
    }
    report.set_others(Machine::now()?.others_since(before));
    println!("{report}");
    Ok(())
}

fn measure_in_child(
    architecture: Architecture,
    scenario: Scenario,
    snapshot: &Path,
    origin: SocketAddr,
    window: Window,
) -> anyhow::Result<Measurement> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("measure").arg(name(architecture)).arg(name(scenario));
    command
        .arg("--snapshot")
        .arg(snapshot)
        .arg("--origin")
        .arg(origin.to_string())
        .args(window.to_args());
    let output =
        command.stderr(Stdio::inherit()).output().context("cannot run this program again")?;
    ensure!(
        output.status.success(),
        "the measurement of {architecture} in {scenario} ended with {}",
        output.status
    );
    serde_json::from_slice(&output.stdout).with_context(|| {
        format!("the process for {architecture} in {scenario} printed no measurement")
    })
}

/// Returns the value's name on the command line.
fn name(value: impl ValueEnum) -> String {
    value
        .to_possible_value()
        .expect("the value has no name on the command line")
        .get_name()
        .to_owned()
}

impl Measure {
    fn run(self) -> anyhow::Result<()> {
        abort_on_panic();
        let measure = match self.architecture {
            Architecture::Legacy => legacy::measure,
            Architecture::SharedHeld => shared::measure_held,
            Architecture::SharedReleased => shared::measure_released,
            Architecture::Pinned => pinned::measure,
            Architecture::Handed => handed::measure,
            Architecture::Tenon => return self.tenon(),
        };
        let shape = self.scenario.shape();
        sandbox::init(shape.flags);
        let snapshot = std::fs::read(&self.snapshot).context("cannot read the snapshot")?;
        let sandbox = Sandbox::new(snapshot, &shape, self.origin);
        print(&measure(sandbox, &Load::new(shape, self.window)?)?)
    }

    fn tenon(self) -> anyhow::Result<()> {
        tenon::init();
        print(&tenon::measure(&Load::new(self.scenario.shape(), self.window)?)?)
    }
}

fn print(measurement: &Measurement) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string(measurement)?);
    Ok(())
}

/// Makes a panic end the process. The threads of a measurement wait for each other, and would wait
/// forever for a thread that has panicked.
fn abort_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::exit(1);
    }));
}
