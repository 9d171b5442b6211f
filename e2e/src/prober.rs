//! Steady load that classifies every answer.
//!
//! Each lane has a connection of its own and begins a request whenever its clock ticks, or as soon as the one before it
//! ended. A lane repeats nothing: each request's fate is on record.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anyhow::ensure;
use bytes::Bytes;
use http::Method;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::{Connection, Router, await_condition};

/// What is sent.
#[derive(Clone, Debug)]
pub struct Load {
    pub method: Method,
    /// Of the Workers that are asked, in turn.
    pub hosts: Vec<String>,
    pub lanes: usize,
    /// Between the beginnings of two requests of a lane.
    pub period: Duration,
}

/// One request.
#[derive(Clone, Debug)]
pub struct Probe {
    pub began: Instant,
    pub ended: Instant,
    pub outcome: Outcome,
}

/// What became of a request.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The Worker's own answer.
    Served { body: String, node: Option<String> },
    /// The platform, or the Worker, answered that it failed.
    Refused { status: u16, body: String },
    /// There was no whole answer.
    Broken(String),
}

/// Load that is going on.
#[derive(Debug)]
pub struct Prober {
    stop_tx: watch::Sender<bool>,
    served_rx: watch::Receiver<usize>,
    lanes: Vec<JoinHandle<Vec<Probe>>>,
}

/// Everything that became of a load.
#[derive(Debug)]
pub struct Report {
    pub probes: Vec<Probe>,
}

impl Load {
    /// Enough to show a gap of some ten milliseconds, and little against what a node bears.
    pub fn get(hosts: &[String]) -> Self {
        Self { method: Method::GET, hosts: hosts.to_vec(), lanes: 8, period: Duration::from_millis(20) }
    }

    pub fn post(hosts: &[String]) -> Self {
        Self { method: Method::POST, ..Self::get(hosts) }
    }
}

impl Prober {
    /// Begins.
    pub fn start(router: &Router, load: Load) -> Self {
        let (stop_tx, stop_rx) = watch::channel(false);
        let (served_tx, served_rx) = watch::channel(0);
        let lanes = (0..load.lanes)
            .map(|_| tokio::spawn(lane(router.connection(), load.clone(), stop_rx.clone(), served_tx.clone())))
            .collect();
        Self { stop_tx, served_rx, lanes }
    }

    /// Goes on until `count` more requests have been served.
    ///
    /// # Errors
    /// When that takes longer than half a minute.
    pub async fn serve(&self, count: usize) -> anyhow::Result<()> {
        let before = *self.served_rx.borrow();
        let mut served_rx = self.served_rx.clone();
        await_condition(&format!("{count} more answers"), Duration::from_secs(30), async || {
            let served = served_rx.wait_for(|served| *served >= before + count).await;
            ensure!(served.is_ok(), "the load has ended");
            Ok(())
        })
        .await
    }

    /// Begins no more, lets what has begun end, and tells.
    pub async fn stop(self) -> anyhow::Result<Report> {
        self.stop_tx.send_replace(true);
        let mut probes = Vec::new();
        for lane in self.lanes {
            probes.extend(lane.await?);
        }
        probes.sort_by_key(|probe| probe.began);
        Ok(Report { probes })
    }
}

async fn lane(
    mut connection: Connection,
    load: Load,
    stop_rx: watch::Receiver<bool>,
    served_tx: watch::Sender<usize>,
) -> Vec<Probe> {
    let mut probes = Vec::new();
    let mut ticks = interval(load.period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for host in load.hosts.iter().cycle() {
        if *stop_rx.borrow() {
            break;
        }
        ticks.tick().await;
        let began = Instant::now();
        let body = if load.method == Method::GET { Bytes::new() } else { Bytes::from_static(b"probe") };
        let outcome = match connection.send(load.method.clone(), host, "/", body).await {
            Ok(answer) if answer.status < 400 => Outcome::Served { body: answer.body, node: answer.node },
            Ok(answer) => Outcome::Refused { status: answer.status, body: answer.body },
            Err(error) => Outcome::Broken(format!("{error:#}")),
        };
        if matches!(outcome, Outcome::Served { .. }) {
            served_tx.send_modify(|served| *served += 1);
        }
        probes.push(Probe { began, ended: Instant::now(), outcome });
    }
    probes
}

impl Report {
    /// The requests that were not served.
    pub fn failures(&self) -> impl Iterator<Item = &Probe> {
        self.probes.iter().filter(|probe| !matches!(probe.outcome, Outcome::Served { .. }))
    }

    /// # Errors
    /// When a request failed, with what became of them all.
    pub fn ensure_no_failure(&self) -> anyhow::Result<()> {
        ensure!(!self.probes.is_empty(), "nothing was sent");
        ensure!(self.failures().next().is_none(), "requests failed: {self}");
        Ok(())
    }

    /// How often each body was served.
    pub fn bodies(&self) -> BTreeMap<&str, usize> {
        let mut bodies = BTreeMap::new();
        for probe in &self.probes {
            if let Outcome::Served { body, .. } = &probe.outcome {
                *bodies.entry(body.as_str()).or_default() += 1;
            }
        }
        bodies
    }
}

/// A line for each kind of outcome: how often, and when it was seen first and last.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut kinds: BTreeMap<String, (usize, Instant, Instant)> = BTreeMap::new();
        for probe in &self.probes {
            let kind = match &probe.outcome {
                Outcome::Served { node, .. } => format!("served by {}", node.as_deref().unwrap_or("nobody")),
                Outcome::Refused { status, body } => format!("{status} {}", without_id(body)),
                Outcome::Broken(error) => error.clone(),
            };
            let seen = kinds.entry(kind).or_insert((0, probe.began, probe.began));
            (seen.0, seen.2) = (seen.0 + 1, probe.began);
        }
        let Some(begin) = self.probes.first().map(|probe| probe.began) else { return f.write_str("no requests") };
        for (kind, (count, first, last)) in kinds {
            write!(f, "\n  {count} × {kind} ({:?} to {:?})", first - begin, last - begin)?;
        }
        Ok(())
    }
}

/// Every failure has a request id of its own, which would make each one a kind.
fn without_id(body: &str) -> &str {
    body.split(",\"requestId\"").next().unwrap_or(body)
}
