//! Measures the time and the memory that an isolate costs, for a node and for workerd.
//!
//! ```text
//!  start    a Worker that has not been loaded ──► its first answer
//!  memory   (resident with all − resident with one) ÷ (all − one), each warmed by one request
//! ```
//!
//! Where the comparison cannot be even, it favors workerd: Tenon's requests pass through the
//! router, and its node fetches code from the catalog. Router and catalog are in other processes.
//! workerd has two ways to start a Worker that is not loaded; the faster one counts. A *spare*
//! isolate is one that a shard has created in advance, without a Worker.

mod memory;
mod start;
mod workerd;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use crate::objective::Objective;
use crate::peers::Peers;
use crate::table::Table;
use crate::unit::{human, mib};
use memory::Footprint;
use start::Starts;

/// Minimum factor by which a cold start without a spare isolate is faster than workerd's.
const FASTER: u32 = 3;

/// Maximum memory of a warm hello Worker in bytes, regardless of workerd's.
const TARGET: u64 = 14 * (1 << 20) / 10;

/// The numbers of starts and of Workers.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Number of starts of each kind.
    pub starts: usize,
    /// Number of Workers that are loaded at the same time, at least two.
    pub workers: usize,
}

/// All measurements of this part.
#[derive(Debug)]
pub struct Record {
    starts: Starts,
    workerd: Footprint,
    tenon: Footprint,
}

/// Measures starts and memory.
///
/// # Arguments
/// * `programs` - the directory of Tenon's programs.
///
/// # Errors
/// Fails if a program does not start, or if a response is wrong.
pub fn run(peers: &Peers, programs: &Path, scale: Scale) -> anyhow::Result<Record> {
    eprintln!("isolates: {} starts of each kind", scale.starts);
    let starts = start::measure(peers, programs, scale.starts)?;
    eprintln!("isolates: {} Workers in workerd", scale.workers);
    let workerd = memory::of_workerd(peers, scale.workers)?;
    eprintln!("isolates: {} Workers in a node", scale.workers);
    let tenon = memory::of_tenon(peers, programs, scale.workers)?;
    Ok(Record { starts, workerd, tenon })
}

/// Returns the objectives of this part.
pub fn objectives(record: Option<&Record>) -> [Objective; 3] {
    let starts = record.map(|record| &record.starts);
    let workerd = record.map(|record| record.workerd.per_worker());
    let tenon = record.map(|record| record.tenon.per_worker());
    [
        Objective::time(
            format!("cold start, no spare isolate, p50: 1/{FASTER} of workerd's"),
            starts.map(|starts| starts.bare.p50()),
            starts.map(|starts| starts.fastest_of_workerd() / FASTER),
        ),
        Objective::bytes("memory of a warm hello Worker, compared with workerd's", tenon, workerd),
        Objective::bytes("memory of a warm hello Worker", tenon, Some(TARGET)),
    ]
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let starts = &self.starts;
        writeln!(
            f,
            "First response of a hello Worker that is not loaded ({} samples each)\n",
            starts.bare.count()
        )?;
        let reference = starts.fastest_of_workerd();
        let mut table = Table::new(["", "p50", "p99", "worst", "workerd ÷ this"]);
        for times in [&starts.process, &starts.loader, &starts.bare, &starts.spare] {
            let [p50, p99, worst] = [times.p50(), times.p99(), times.worst()].map(human);
            let ratio = reference.div_duration_f64(times.p50().max(Duration::from_nanos(1)));
            table.row([times.what.to_owned(), p50, p99, worst, format!("{ratio:.2}")]);
        }
        writeln!(f, "{table}")?;

        writeln!(f, "Memory of hello Workers after one request each\n")?;
        let mut table = Table::new(["", "one Worker", "all Workers", "Workers", "per Worker", ""]);
        for (name, footprint) in [("workerd", self.workerd), ("Tenon, one shard", self.tenon)] {
            let each = footprint.per_worker();
            table.row([
                name.to_owned(),
                mib(footprint.with_one),
                mib(footprint.with_all),
                footprint.workers.to_string(),
                mib(each),
                format!("× {:.2}", each as f64 / self.workerd.per_worker().max(1) as f64),
            ]);
        }
        writeln!(f, "{table}")
    }
}
