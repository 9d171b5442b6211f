//! Measures the time from the apply of a new Worker to its first response, on a real control plane,
//! through the real operator, router and node.
//!
//! ```text
//!  apply ──► API server ──► operator: compile, revision, status ──► catalog ──► router: route
//!    │            │                                                  └──────► node: fetch, start
//!    │◄─ stored ──┘                                                                   │
//!    │◄─ first 200 ───────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Workers are applied one at a time, because the latency of this path is measured, not its
//! throughput.

use std::time::Duration;

use anyhow::{Context, ensure};
use tenon_e2e::{Namespace, Platform, answering, worker};
use tokio::time::{Instant, sleep};

use crate::quantile::{median, quantile};

/// The pause between two requests, which is the resolution of the measurement.
const PAUSE: Duration = Duration::from_millis(1);

/// Time limit for a Worker's first response with status 200.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// The times of one Worker, counted from the moment at which the apply was sent.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// Time until the API server has stored the Worker.
    stored: Duration,
    /// Time until the first response with status 200.
    first_200: Duration,
}

/// The times of all Workers.
#[derive(Debug)]
pub struct Record {
    samples: Vec<Sample>,
}

/// Selects one of the times of a Worker.
#[derive(Clone, Copy, Debug)]
pub struct Stage(fn(&Sample) -> Duration);

impl Stage {
    pub const STORED: Self = Self(|sample| sample.stored);
    pub const FIRST_200: Self = Self(|sample| sample.first_200);
}

/// Starts the platform, applies `count` Workers one after another, and stops the platform.
///
/// # Errors
/// Fails if there is no control plane, or if a Worker does not respond with status 200 within
/// `ANSWER_TIMEOUT`.
pub fn run(count: usize) -> anyhow::Result<Record> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let platform = Platform::start().await.context("cannot start the platform")?;
        let namespace = Namespace::create(&platform.cluster, "bench").await?;
        // The first Worker makes the processes open their connections, so it is not counted.
        measure(&platform, &namespace, "first").await?;
        let mut samples = Vec::with_capacity(count);
        for i in 0..count {
            samples.push(measure(&platform, &namespace, &format!("worker-{i}")).await?);
        }
        namespace.delete().await?;
        platform.stop().await?;
        Ok(Record { samples })
    })
}

async fn measure(platform: &Platform, namespace: &Namespace, name: &str) -> anyhow::Result<Sample> {
    let worker = worker(name, &answering(name));
    let host = namespace.host(name);
    let mut connection = platform.router.connection();
    // This request opens the client's connection to the router, which does not know the Worker yet.
    let unknown = connection.get(&host, "/").await?;
    ensure!(unknown.status == 404, "{host} answers {} before it exists", unknown.status);

    let began = Instant::now();
    namespace.apply(&worker).await?;
    let stored = began.elapsed();
    loop {
        let answer = connection.get(&host, "/").await?;
        if answer.status == 200 {
            ensure!(answer.body == name, "{host} answers {:?}", answer.body);
            return Ok(Sample { stored, first_200: began.elapsed() });
        }
        ensure!(
            began.elapsed() < ANSWER_TIMEOUT,
            "{host} answers {} {} after {ANSWER_TIMEOUT:?}",
            answer.status,
            answer.body
        );
        sleep(PAUSE).await;
    }
}

impl Record {
    pub fn count(&self) -> usize {
        self.samples.len()
    }

    pub fn p50(&self, stage: Stage) -> Duration {
        Duration::from_secs_f64(median(self.seconds(stage)))
    }

    pub fn p99(&self, stage: Stage) -> Duration {
        Duration::from_secs_f64(quantile(self.seconds(stage), 0.99))
    }

    pub fn max(&self, stage: Stage) -> Duration {
        self.samples.iter().map(stage.0).max().unwrap_or_default()
    }

    fn seconds(&self, stage: Stage) -> Vec<f64> {
        self.samples.iter().map(|sample| stage.0(sample).as_secs_f64()).collect()
    }
}
