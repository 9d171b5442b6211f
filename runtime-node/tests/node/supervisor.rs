//! A node of processes: its supervisor, with the program itself for each shard and lane.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use bytes::Bytes;
use clap::Parser as _;
use futures::stream;
use prometheus::Registry;
use tenon_lifecycle::admin::Exposition as _;
use tenon_lifecycle::drain::{self, Signal};
use tenon_lifecycle::readiness::Readiness;
use tenon_proto::catalog::worker_report::State;
use tenon_proto::catalog::{Quarantined, quarantined};
use tenon_proto::egress::Egress;
use tenon_proto::failure::{Failure, FailureCode};
use tenon_proto::id::{ShardId, WorkerId};
use tenon_proto::revision::{Limits, Revision, StatePolicy};
use tenon_proto::runtime::InvokeHead;
use tenon_runtime_node::config::{Config, NodeArgs};
use tenon_runtime_node::supervisor::{Program, Supervisor};

use crate::harness::catalog::Catalog;
use crate::harness::client::{Answer, Client, head};
use crate::harness::{Deployed, await_condition, trials};

trials! {
    a_revision_moves_from_a_lane_to_its_shard_when_it_has_answered_lightly,
    a_request_that_must_stay_runs_in_the_lane,
    a_revision_whose_code_ran_when_its_process_ended_is_refused_and_reported,
    a_process_that_ends_between_turns_is_started_again_and_nothing_is_refused,
    a_heavy_revision_moves_back_to_the_lanes,
    a_node_that_drains_finishes_what_it_has_begun,
    metrics_are_those_of_all_processes,
}

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    node: NodeArgs,
}

/// A running node of one shard and one lane.
struct Kept {
    catalog: Catalog,
    name: &'static str,
    node: Option<Supervisor>,
    signal: Option<Signal>,
    shard: Client,
    lane: Client,
}

impl Kept {
    async fn start(name: &'static str) -> Self {
        let catalog = Catalog::start();
        let url = catalog.url();
        let line = ["--name", name, "--listen-ip", "127.0.0.1", "--shard-port", "0", "--shards", "1", "--lanes", "1"];
        let line: Vec<&str> = line.into_iter().chain(["--no-pin", "--drain-grace", "20s", "--catalog", &url]).collect();
        let config = Config::try_from(Line::parse_from(["node"].iter().chain(&line)).node).unwrap();
        let path = Path::new(env!("CARGO_BIN_EXE_tenon-runtime-node")).to_owned();
        let program = Program { path, arguments: line.iter().map(Into::into).collect() };
        let (signal, watch) = drain::channel();
        let readiness = Readiness::new();
        let node = Supervisor::spawn(config, program, watch, &Registry::new(), &readiness).unwrap();
        readiness.ready().await;
        let client = |wanted| {
            let found = node.addresses().iter().find(|(id, _)| *id == wanted);
            Client::of(found.expect("the node has one").1)
        };
        let (shard, lane) = (client(ShardId(0)), client(ShardId::lane(0)));
        Self { catalog, name, node: Some(node), signal: Some(signal), shard, lane }
    }

    /// Deploys a Worker whose handler is this function's body. Its limits are those of a slow machine.
    fn handler(&self, name: &str, body: &str) -> Deployed {
        let source = format!("export default {{ async fetch(request) {{ {body} }} }}");
        let worker = WorkerId::new(self.name, name);
        let digest = self.catalog.put(Revision {
            worker: worker.clone(),
            name: format!("{name}-1"),
            entrypoint: "worker.js".to_owned(),
            modules: BTreeMap::from([("worker.js".to_owned(), Bytes::from(source))]),
            vars: BTreeMap::new(),
            secrets: BTreeMap::new(),
            services: BTreeMap::new(),
            limits: Limits { cpu_ms: 30_000, startup_ms: 5_000, ..Limits::default() },
            state: StatePolicy::default(),
            egress: Egress::default(),
            compatibility_flags: BTreeSet::new(),
        });
        Deployed { worker, digest }
    }

    /// Deploys a Worker and asks it until it runs on its shard. A revision that starts slowly stays in the lanes, so on a
    /// slow machine several are tried.
    async fn known(&self, name: &str, body: &str) -> Deployed {
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

    /// Asks as a router does: where the Worker has moved to, until it runs.
    async fn ask(&self, worker: &Deployed) -> Result<Answer, Failure> {
        match self.shard.get(worker).await {
            Err(failure) if failure.code == FailureCode::Moved => self.lane.get(worker).await,
            outcome => outcome,
        }
    }

    async fn metrics(&self) -> String {
        let page = self.node.as_ref().expect("it runs").exposition().render().await.unwrap();
        String::from_utf8(page).unwrap()
    }

    /// Waits until the page of metrics has this line.
    async fn await_line(&self, line: &str) {
        while !self.metrics().await.lines().any(|found| found == line) {
            tokio::task::yield_now().await;
        }
    }

    /// Sends a signal to the process of a shard or lane, by kill(1).
    fn signal(&self, id: &str, signal: &str) {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let arguments = |pid: &Path| std::fs::read(pid.join("cmdline")).unwrap_or_default();
        let wanted = [format!("--seat={id}"), self.name.to_owned()].map(String::into_bytes);
        let is_it = |pid: &Path| {
            let line = arguments(pid);
            let words: Vec<_> = line.split(|byte| *byte == 0).collect();
            wanted.iter().all(|wanted| words.contains(&&wanted[..]))
        };
        let process = processes.map(|entry| entry.path()).find(|path| is_it(path)).expect("the process runs");
        let pid = process.file_name().unwrap().to_str().unwrap().to_owned();
        assert!(std::process::Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    /// What the operator has heard of quarantines.
    fn quarantines(&self) -> Vec<Quarantined> {
        let reports = self.catalog.reports().into_iter().flat_map(|report| report.workers);
        let quarantined = reports.filter_map(|report| match report.state {
            Some(State::Quarantined(quarantined)) => Some(quarantined),
            _ => None,
        });
        quarantined.collect()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.signal.take();
        self.node.take().into_iter().for_each(Supervisor::join);
    }
}

fn code(outcome: Result<Answer, Failure>) -> Option<FailureCode> {
    outcome.err().map(|failure| failure.code)
}

async fn a_revision_moves_from_a_lane_to_its_shard_when_it_has_answered_lightly(name: &'static str) {
    let node = Kept::start(name).await;
    let unknown = node.handler("unknown", "return new Response('light')");
    assert_eq!(code(node.shard.get(&unknown).await), Some(FailureCode::Moved));
    assert_eq!(node.lane.get(&unknown).await.unwrap().text(), "light");
    let worker = node.known("light", "return new Response('light')").await;
    assert_eq!(node.shard.get(&worker).await.unwrap().text(), "light");
    while node.lane.get(&worker).await.is_ok() {}
    assert_eq!(code(node.lane.get(&worker).await), Some(FailureCode::Moved));
}

async fn a_request_that_must_stay_runs_in_the_lane(name: &'static str) {
    let node = Kept::start(name).await;
    let worker = node.handler("stays", "return new Response('here')");
    let head = InvokeHead { stay: true, ..head(&worker) };
    for _ in 0..32 {
        assert_eq!(node.lane.call(head.clone(), stream::empty()).await.unwrap().text(), "here");
    }
}

async fn a_revision_whose_code_ran_when_its_process_ended_is_refused_and_reported(name: &'static str) {
    let node = Kept::start(name).await;
    let killer = node.handler("killer", "for (;;);");
    let other = node.handler("other", "return new Response('served')");
    let (lane, asked) = (node.lane.clone(), killer.clone());
    let lost = tokio::spawn(async move { lane.get(&asked).await });
    // The kernel says which process computes: the lane's turn goes on for as long as its limit says.
    node.await_line("tenon_node_process_up{process=\"lane-0\"} 1").await;
    node.await_line("tenon_shard_inflight{shard=\"lane-0\"} 1").await;
    node.signal("lane-0", "-ABRT");
    assert!(lost.await.unwrap().is_err());
    await_condition("the operator hears", || !node.quarantines().is_empty()).await;
    let told = node.quarantines();
    assert_eq!((told.len(), told[0].cause(), told[0].times), (1, quarantined::Cause::Crashed, 1));
    for client in [&node.shard, &node.lane] {
        assert_eq!(code(client.get(&killer).await), Some(FailureCode::WorkerQuarantined));
    }
    assert_eq!(node.ask(&other).await.unwrap().text(), "served");
    node.await_line("tenon_node_process_exits_total{cause=\"crashed\",process=\"lane-0\"} 1").await;
    node.await_line("tenon_node_quarantined_revisions 1").await;
}

async fn a_process_that_ends_between_turns_is_started_again_and_nothing_is_refused(name: &'static str) {
    let node = Kept::start(name).await;
    let worker = node.handler("innocent", "return new Response('served')");
    assert_eq!(node.ask(&worker).await.unwrap().text(), "served");
    for seat in ["0", "lane-0"] {
        node.signal(seat, "-KILL");
        let process = if seat == "0" { "shard-0" } else { seat };
        node.await_line(&format!("tenon_node_process_exits_total{{cause=\"killed\",process=\"{process}\"}} 1")).await;
        // Connections that come meanwhile wait.
        let (shard, lane) = (node.shard.another(), node.lane.another());
        let outcome = match shard.get(&worker).await {
            Err(failure) if failure.code == FailureCode::Moved => lane.get(&worker).await,
            outcome => outcome,
        };
        assert_eq!(outcome.unwrap().text(), "served", "after the end of {process}");
    }
    assert!(node.quarantines().is_empty());
}

async fn a_heavy_revision_moves_back_to_the_lanes(name: &'static str) {
    let node = Kept::start(name).await;
    let known = node.known(
        "turns",
        "if (request.url.includes('heavy')) { let sum = 0; for (let i = 0; i < 1e8; i++) sum += i % 7; return new Response(`${sum}`) }
         return new Response('light')",
    );
    let worker = known.await;
    let heavy = InvokeHead { url: "https://worker.test/heavy".to_owned(), ..head(&worker) };
    while code(node.shard.call(heavy.clone(), stream::empty()).await) != Some(FailureCode::Moved) {}
    assert!(node.lane.call(heavy, stream::empty()).await.is_ok());
}

async fn a_node_that_drains_finishes_what_it_has_begun(name: &'static str) {
    let mut node = Kept::start(name).await;
    let worker =
        node.handler("slow", "await new Promise((done) => setTimeout(done, 500)); return new Response('done')");
    let (lane, asked) = (node.lane.clone(), worker.clone());
    let begun = tokio::spawn(async move { lane.get(&asked).await });
    node.await_line("tenon_shard_inflight{shard=\"lane-0\"} 1").await;
    node.signal.take();
    assert_eq!(begun.await.unwrap().unwrap().text(), "done");
    let node = node.node.take().unwrap();
    tokio::task::spawn_blocking(|| node.join()).await.unwrap();
}

async fn metrics_are_those_of_all_processes(name: &'static str) {
    let node = Kept::start(name).await;
    let page = node.metrics().await;
    for line in [
        "tenon_shard_inflight{shard=\"0\"} 0",
        "tenon_shard_inflight{shard=\"lane-0\"} 0",
        "tenon_node_process_up{process=\"shard-0\"} 1",
        "tenon_worker_crash_loops 0",
    ] {
        assert!(page.lines().any(|found| found == line), "{line} is not in {page}");
    }
    let mut families: Vec<_> = page.lines().filter(|line| line.starts_with("# TYPE ")).collect();
    let all = families.len();
    families.sort_unstable();
    families.dedup();
    assert_eq!(families.len(), all, "each family comes once");
}
