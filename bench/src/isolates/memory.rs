//! Measures the memory that each additional Worker takes in a process.

use std::path::Path;

use anyhow::ensure;

use crate::hello::{ANSWER, HOST};
use crate::isolates::workerd;
use crate::load::{HttpResponse, get, get_unix};
use crate::peers::Peers;
use crate::tenon::{NODE, ROUTER, Testbed};

/// The resident memory of a process with one Worker, and with all of them, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Footprint {
    pub workers: usize,
    pub with_one: u64,
    pub with_all: u64,
}

impl Footprint {
    /// Returns the memory that each Worker after the first has added, in bytes.
    pub fn per_worker(self) -> u64 {
        self.with_all.saturating_sub(self.with_one) / (self.workers as u64 - 1).max(1)
    }
}

/// Measures workerd, in a process with one Worker and in another with all, because workerd loads
/// its Workers when it starts.
///
/// # Errors
/// Fails if a process does not start, or if a response is wrong.
pub fn of_workerd(peers: &Peers, workers: usize) -> anyhow::Result<Footprint> {
    let resident = |count| -> anyhow::Result<u64> {
        let mut workers = workerd::ManyWorkers::start(peers, count)?;
        for socket in &workers.sockets {
            ensure_hello(&get_unix(socket, HOST)?)?;
        }
        workers.process.ensure_running()?;
        workers.process.resident()
    };
    Ok(Footprint { workers, with_one: resident(1)?, with_all: resident(workers)? })
}

/// Measures one node, which starts the Workers one after another.
///
/// # Errors
/// Fails if the node does not start, or if a response is wrong.
pub fn of_tenon(peers: &Peers, programs: &Path, workers: usize) -> anyhow::Result<Footprint> {
    let (testbed, source) = (Testbed::open(1)?, peers.hello()?);
    let hosts: Vec<_> =
        (0..workers).map(|i| testbed.deploy(&format!("worker-{i}"), source.clone())).collect();
    let mut node = peers.placement.contender(&programs.join(NODE));
    // The pool has room for all isolates, and no spare isolates: they would be counted at the end
    // and not at the beginning.
    node.args([
        "--isolates-per-shard",
        &(workers + workers / 5).to_string(),
        "--spare-isolates",
        "0",
    ]);
    let router = peers.placement.load(&programs.join(ROUTER));
    let mut tenon = testbed.start(&peers.scratch.join("memory"), node, router)?;
    tenon.await_up(&hosts[0])?;
    let with_one = tenon.node.resident()?;
    for host in &hosts {
        ensure_hello(&get(tenon.addr, host)?)?;
    }
    tenon.ensure_running()?;
    Ok(Footprint { workers, with_one, with_all: tenon.node.resident()? })
}

fn ensure_hello(answer: &HttpResponse) -> anyhow::Result<()> {
    ensure!(
        answer.status == 200 && answer.body.contains(ANSWER),
        "the response of a Worker is {answer:?}"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_the_process_counts_for_the_first_worker_only() {
        let footprint = Footprint { workers: 5, with_one: 40 << 20, with_all: 48 << 20 };
        assert_eq!(footprint.per_worker(), 2 << 20);
    }
}
