//! Stops a node for a while: pauses all of its processes and resumes them, as a hypervisor does.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use tenon_e2e::open_loop::{Lap, OpenLoop};
use tokio::time::sleep;

/// Duration of the stop.
const STOPPED: Duration = Duration::from_secs(12);

/// Duration of the measurement after the node is resumed.
const OBSERVED_AFTER: Duration = Duration::from_secs(8);

/// Name of the program of a supervisor and of its shards and lanes.
const PROGRAM: &str = "tenon-runtime-node";

/// The paused processes of a node. They are resumed on drop.
struct Stopped(Vec<Pid>);

/// Stops one node for a while, and returns the outcomes of the requests of `load` from the stop
/// until [`OBSERVED_AFTER`] has passed after the node is resumed.
///
/// # Errors
/// Fails if no node runs on this machine, or if its processes cannot be stopped.
pub(super) async fn stop_node(load: &mut OpenLoop) -> anyhow::Result<Lap> {
    let (_, processes) = nodes()?.pop_first().context("no node runs on this machine")?;
    load.lap();
    let stopped = Stopped::stop(processes)?;
    sleep(STOPPED).await;
    drop(stopped);
    sleep(OBSERVED_AFTER).await;
    Ok(load.lap())
}

impl Stopped {
    fn stop(processes: Vec<Pid>) -> anyhow::Result<Self> {
        let stopped = Self(processes);
        for pid in &stopped.0 {
            kill_process(*pid, Signal::STOP).with_context(|| format!("cannot stop {pid:?}"))?;
        }
        Ok(stopped)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        for pid in &self.0 {
            // An error means that the process has exited.
            let _ = kill_process(*pid, Signal::CONT);
        }
    }
}

/// Returns the processes of each node on this machine, by the network namespace of the node's Pod.
fn nodes() -> anyhow::Result<BTreeMap<String, Vec<Pid>>> {
    let mut nodes = BTreeMap::<_, Vec<_>>::new();
    for entry in fs::read_dir("/proc")? {
        let path = entry?.path();
        if let Some((network, pid)) = node_process(&path) {
            nodes.entry(network).or_default().push(pid);
        }
    }
    Ok(nodes)
}

fn node_process(path: &Path) -> Option<(String, Pid)> {
    let pid = Pid::from_raw(path.file_name()?.to_str()?.parse().ok()?)?;
    // Processes that exit in the meantime are ignored.
    let program = fs::read_link(path.join("exe")).ok()?;
    let network = fs::read_link(path.join("ns/net")).ok()?;
    program.ends_with(PROGRAM).then(|| (network.to_string_lossy().into_owned(), pid))
}
