//! Measures the time to the first response of a Worker that has not been loaded.
//!
//! workerd loads the Workers of its configuration when it starts. A Worker that is not loaded is
//! therefore one whose process is not running, or one that another Worker loads through the
//! experimental `workerLoader`.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::ensure;
use tenon_e2e::Connection;

use crate::hello::ANSWER;
use crate::isolates::workerd;
use crate::peers::Peers;
use crate::quantile::{median, quantile};
use crate::tenon::{NODE, ROUTER, Tenon, Testbed};

/// Number of rounds. In each round, the starts of each kind are measured in turn.
const ROUNDS: usize = 4;

/// Pause between two starts that each find a spare isolate. The node creates the next spare isolate
/// after a response, and the next start must not wait for it. Starts without a spare isolate follow
/// each other directly, as do those of workerd.
const PAUSE: Duration = Duration::from_millis(20);

/// The times of each kind of start.
#[derive(Debug)]
pub struct Starts {
    /// Starts of a workerd process for each Worker.
    pub process: Times,
    /// Starts through the `workerLoader` of workerd.
    pub loader: Times,
    /// Starts for which the node creates the isolate on request.
    pub bare: Times,
    /// Starts for which the node has created the isolate in advance.
    pub spare: Times,
}

/// The times of one kind of start.
#[derive(Debug)]
pub struct Times {
    /// The title in the table.
    pub what: &'static str,
    /// The times in seconds.
    times: Vec<f64>,
}

/// Measures the kinds of start in turn, several starts at a time. A disturbance of the machine thus
/// affects all kinds alike, and the CPU's caches are not full of another kind's data.
///
/// # Arguments
/// * `programs` - the directory of Tenon's programs.
/// * `count` - the number of starts of each kind.
///
/// # Errors
/// Fails if a program does not start, or if a response is wrong.
pub fn measure(peers: &Peers, programs: &Path, count: usize) -> anyhow::Result<Starts> {
    let (bare_testbed, spare_testbed) = (Testbed::open(1)?, Testbed::open(1)?);
    let source = peers.hello()?;
    let deploy = |name: &str| {
        bare_testbed.deploy(name, source.clone());
        spare_testbed.deploy(name, source.clone())
    };
    // The first Worker makes the processes open their connections, so it is not counted.
    let mut hosts = vec![deploy("worker-0")];
    let mut bare = tenon(&bare_testbed, peers, programs, "start-bare", &["--spare-isolates", "0"])?;
    let mut spare = tenon(&spare_testbed, peers, programs, "start-spare", &[])?;
    let mut loader = workerd::Loader::start(peers)?;
    bare.await_up(&hosts[0])?;
    spare.await_up(&hosts[0])?;
    loader.await_up(&hosts[0])?;
    // The other Workers are deployed while everything runs, as usual. When the last one answers,
    // the routers know all of them.
    hosts.extend((1..=count).map(|i| deploy(&format!("worker-{i}"))));
    let last = deploy("last");
    bare.await_up(&last)?;
    spare.await_up(&last)?;

    let mut process = Times::of("workerd, one process each");
    let mut subjects = [
        Subject::new("workerd, workerLoader", loader.addr, Duration::ZERO),
        Subject::new("Tenon, no spare isolate", bare.addr, Duration::ZERO),
        Subject::new("Tenon, spare isolate", spare.addr, PAUSE),
    ];
    peers.placement.loading(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            for round in hosts.chunks(hosts.len().div_ceil(ROUNDS)) {
                for _ in round {
                    process.times.push(workerd::start_to_answer(peers)?.as_secs_f64());
                }
                for subject in &mut subjects {
                    for host in round {
                        subject.measure(host).await?;
                        tokio::time::sleep(subject.pause).await;
                    }
                }
            }
            anyhow::Ok(())
        })
    })?;
    bare.ensure_running()?;
    spare.ensure_running()?;
    let [loader, bare, spare] = subjects.map(|subject| subject.times);
    let [process, loader, bare, spare] =
        [process, loader, bare, spare].map(Times::without_the_first);
    Ok(Starts { process, loader, bare, spare })
}

fn tenon(
    testbed: &Testbed,
    peers: &Peers,
    programs: &Path,
    name: &str,
    args: &[&str],
) -> anyhow::Result<Tenon> {
    let mut node = peers.placement.contender(&programs.join(NODE));
    node.args(args);
    testbed.start(&peers.scratch.join(name), node, peers.placement.load(&programs.join(ROUTER)))
}

/// A server with Workers that it has not loaded yet.
struct Subject {
    connection: Connection,
    /// The pause after each start.
    pause: Duration,
    times: Times,
}

impl Subject {
    fn new(what: &'static str, addr: SocketAddr, pause: Duration) -> Self {
        Self { connection: Connection::to(addr), pause, times: Times::of(what) }
    }

    async fn measure(&mut self, host: &str) -> anyhow::Result<()> {
        let began = Instant::now();
        let answer = self.connection.get(host, "/").await?;
        self.times.times.push(began.elapsed().as_secs_f64());
        ensure!(
            (answer.status, answer.body.as_str()) == (200, ANSWER),
            "the response of {} is {answer:?}",
            self.times.what
        );
        Ok(())
    }
}

impl Starts {
    /// Returns the smaller of the two medians of workerd.
    pub fn fastest_of_workerd(&self) -> Duration {
        self.process.p50().min(self.loader.p50())
    }
}

impl Times {
    fn of(what: &'static str) -> Self {
        Self { what, times: Vec::new() }
    }

    fn without_the_first(mut self) -> Self {
        self.times.drain(..1);
        self
    }

    pub fn count(&self) -> usize {
        self.times.len()
    }

    pub fn p50(&self) -> Duration {
        Duration::from_secs_f64(median(self.times.clone()))
    }

    pub fn p99(&self) -> Duration {
        Duration::from_secs_f64(quantile(self.times.clone(), 0.99))
    }

    pub fn worst(&self) -> Duration {
        Duration::from_secs_f64(quantile(self.times.clone(), 1.0))
    }
}
