//! A node of several processes: its supervisor, which runs in the test's own process, and a process
//! of the program for each shard and lane.

use std::path::{Path, PathBuf};

use clap::Parser as _;
use prometheus::Registry;
use tenon_lifecycle::admin::Exposition as _;
use tenon_lifecycle::drain::{self, Signal};
use tenon_lifecycle::readiness::Readiness;
use tenon_proto::catalog::Quarantined;
use tenon_proto::catalog::worker_report::State;
use tenon_proto::failure::{Failure, FailureCode};
use tenon_proto::id::{ShardId, WorkerId};
use tenon_proto::revision::{Limits, Revision};
use tenon_runtime_node::config::{Config, NodeArgs};
use tenon_runtime_node::supervisor::{Program, Supervisor};

use super::Deployed;
use super::catalog::Catalog;
use super::client::{Client, WorkerResponse};

/// The command line of a node.
#[derive(clap::Parser)]
struct CommandLine {
    #[command(flatten)]
    node: NodeArgs,
}

/// A running node of one lane and, unless its arguments say otherwise, one shard.
pub(crate) struct SupervisedNode {
    pub(crate) catalog: Catalog,
    pub(crate) name: &'static str,
    pub(crate) node: Option<Supervisor>,
    pub(crate) signal: Option<Signal>,
    pub(crate) shard: Client,
    pub(crate) lane: Client,
}

impl SupervisedNode {
    pub(crate) async fn start(name: &'static str) -> Self {
        Self::with(name, &[]).await
    }

    /// Starts a node with additional command-line arguments.
    ///
    /// # Arguments
    /// * `more` - arguments to append to the command line.
    pub(crate) async fn with(name: &'static str, more: &[&str]) -> Self {
        let catalog = Catalog::start();
        let url = catalog.url();
        let line =
            ["--name", name, "--listen-ip", "127.0.0.1", "--shard-port", "0", "--lanes", "1"];
        let shards: &[&str] = if more.contains(&"--shards") { &[] } else { &["--shards", "1"] };
        let line = line.into_iter().chain(shards.iter().copied());
        let line = line.chain(["--no-pin", "--drain-grace", "20s", "--catalog", &url]);
        let line: Vec<&str> = line.chain(more.iter().copied()).collect();
        let args = CommandLine::parse_from(["node"].iter().chain(&line)).node;
        let config = Config::try_from(args).unwrap();
        let path = Path::new(env!("CARGO_BIN_EXE_tenon-runtime-node")).to_owned();
        let program = Program {
            name: path.clone().into(),
            path,
            arguments: line.iter().map(Into::into).collect(),
        };
        let (signal, watch) = drain::channel();
        let readiness = Readiness::new();
        let node = Supervisor::spawn(config, program, watch, &Registry::new(), &readiness).unwrap();
        readiness.ready().await;
        let client = |wanted| {
            let found = node.addresses().iter().find(|(id, _)| *id == wanted);
            Client::of(found.expect("the node has no such process").1)
        };
        let (shard, lane) = (client(ShardId(0)), client(ShardId::lane(0)));
        Self { catalog, name, node: Some(node), signal: Some(signal), shard, lane }
    }

    /// Deploys a Worker whose handler has this function body. Its CPU limit is the maximum with
    /// which a Worker may run on a shard.
    pub(crate) fn handler(&self, name: &str, body: &str) -> Deployed {
        self.handler_within(name, body, 1_000)
    }

    /// Deploys a Worker whose handler has this function body, with a CPU limit of `cpu_ms`
    /// milliseconds.
    pub(crate) fn handler_within(&self, name: &str, body: &str, cpu_ms: u32) -> Deployed {
        let source = format!("export default {{ async fetch(request, env, ctx) {{ {body} }} }}");
        let worker = WorkerId::new(self.name, name);
        let digest = self.catalog.put(Revision {
            limits: Limits { cpu_ms, wall_ms: 300_000, startup_ms: 5_000, ..Limits::default() },
            ..Revision::from_source(worker.clone(), source)
        });
        Deployed { worker, digest }
    }

    /// Deploys a Worker and sends it requests until it runs on its shard. A revision that starts
    /// slowly stays in the lanes, so several attempts may be necessary on a slow machine. Each
    /// attempt deploys another Worker, whose name is `name` with a number.
    pub(crate) async fn known(&self, name: &str, body: &str) -> Deployed {
        let mut attempts = 0;
        loop {
            let worker = self.handler(&format!("{name}-{attempts}"), body);
            for _ in 0..64 {
                if self.shard.get(&worker).await.is_ok() {
                    return worker;
                }
                let _ = self.lane.get(&worker).await;
            }
            attempts += 1;
        }
    }

    /// Sends a request as a router does: to the shard, and to the lane if the shard answers
    /// `moved`.
    pub(crate) async fn get(&self, worker: &Deployed) -> Result<WorkerResponse, Failure> {
        match self.shard.get(worker).await {
            Err(failure) if failure.code == FailureCode::Moved => self.lane.get(worker).await,
            outcome => outcome,
        }
    }

    pub(crate) async fn metrics(&self) -> String {
        let page = self
            .node
            .as_ref()
            .expect("the node has been joined")
            .exposition()
            .render()
            .await
            .unwrap();
        String::from_utf8(page).unwrap()
    }

    /// Waits until the metrics contain this line.
    pub(crate) async fn await_line(&self, line: &str) {
        while !self.metrics().await.lines().any(|found| found == line) {
            tokio::task::yield_now().await;
        }
    }

    /// Sends a signal to the process of a shard or lane, with kill(1).
    pub(crate) fn signal(&self, id: &str, signal: &str) {
        let process = self.process(id).expect("the process is not running");
        let pid = process.file_name().unwrap();
        assert!(
            std::process::Command::new("kill").arg(signal).arg(pid).status().unwrap().success()
        );
    }

    /// Returns a field of `/proc/PID/status` of the process of a shard or lane, such as `VmRSS`, in
    /// bytes; zero if there is no such process or field.
    pub(crate) fn memory(&self, id: &str, field: &str) -> u64 {
        let status = self
            .process(id)
            .and_then(|process| std::fs::read_to_string(process.join("status")).ok());
        let status = status.unwrap_or_default();
        let value = status
            .lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':')?.strip_suffix("kB"));
        value.map_or(0, |kib| kib.trim().parse::<u64>().unwrap() << 10)
    }

    /// Returns the `/proc` directory of the process of a shard or lane.
    fn process(&self, id: &str) -> Option<PathBuf> {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let arguments = |pid: &Path| std::fs::read(pid.join("cmdline")).unwrap_or_default();
        let wanted = [format!("--child={id}"), self.name.to_owned()].map(String::into_bytes);
        let is_wanted = |pid: &Path| {
            let line = arguments(pid);
            let words: Vec<_> = line.split(|byte| *byte == 0).collect();
            wanted.iter().all(|wanted| words.contains(&&wanted[..]))
        };
        processes.map(|entry| entry.path()).find(|path| is_wanted(path))
    }

    /// Returns the quarantines that the node has reported to the operator.
    pub(crate) fn quarantines(&self) -> Vec<Quarantined> {
        let reports = self.catalog.reports().into_iter().flat_map(|report| report.workers);
        let quarantined = reports.filter_map(|report| match report.state {
            Some(State::Quarantined(quarantined)) => Some(quarantined),
            _ => None,
        });
        quarantined.collect()
    }
}

impl Drop for SupervisedNode {
    fn drop(&mut self) {
        self.signal.take();
        self.node.take().into_iter().for_each(Supervisor::join);
    }
}

pub(crate) fn code(outcome: Result<WorkerResponse, Failure>) -> Option<FailureCode> {
    outcome.err().map(|failure| failure.code)
}
