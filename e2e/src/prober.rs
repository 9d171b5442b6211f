//! Generates a steady load, and classifies every response.
//!
//! Each client has its own connection and starts a request on every tick of its clock, or as soon
//! as its previous request has ended, whichever is later. A client never retries, and the outcome
//! of each request is recorded.

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

/// Time limit for the next requests to be served.
const SERVED_WITHIN: Duration = Duration::from_secs(30);

/// The load to generate.
#[derive(Clone, Debug)]
pub struct Load {
    pub method: Method,
    /// Hosts of the Workers to request, in turn.
    pub hosts: Vec<String>,
    pub clients: usize,
    /// Minimum interval between the starts of two requests of a client.
    pub period: Duration,
}

/// A finished request.
#[derive(Clone, Debug)]
pub struct Probe {
    pub began: Instant,
    pub ended: Instant,
    pub outcome: Outcome,
}

/// The outcome of a request.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// A response with a status below 400.
    Served { body: String, node: Option<String> },
    /// A response with a status of 400 or more, from the platform or the Worker.
    Refused { status: u16, body: String },
    /// There was no complete response.
    Broken(String),
}

/// Load in progress.
#[derive(Debug)]
pub struct Prober {
    stop_tx: watch::Sender<bool>,
    served_rx: watch::Receiver<usize>,
    clients: Vec<JoinHandle<Vec<Probe>>>,
}

/// The outcomes of all requests of a load.
#[derive(Debug)]
pub struct Report {
    pub probes: Vec<Probe>,
}

impl Load {
    /// Returns a load of GET requests that is dense enough to show a gap of about ten milliseconds,
    /// and light compared to what a node can serve.
    pub fn get(hosts: &[String]) -> Self {
        Self {
            method: Method::GET,
            hosts: hosts.to_vec(),
            clients: 8,
            period: Duration::from_millis(20),
        }
    }

    pub fn post(hosts: &[String]) -> Self {
        Self { method: Method::POST, ..Self::get(hosts) }
    }
}

impl Prober {
    /// Starts the load.
    pub fn start(router: &Router, load: Load) -> Self {
        let (stop_tx, stop_rx) = watch::channel(false);
        let (served_tx, served_rx) = watch::channel(0);
        let clients = (0..load.clients)
            .map(|_| {
                tokio::spawn(run_client(
                    router.connection(),
                    load.clone(),
                    stop_rx.clone(),
                    served_tx.clone(),
                ))
            })
            .collect();
        Self { stop_tx, served_rx, clients }
    }

    /// Waits until `count` more requests have been served.
    ///
    /// # Errors
    /// Fails if that takes longer than `SERVED_WITHIN`, or if the load stops.
    pub async fn await_served(&self, count: usize) -> anyhow::Result<()> {
        let before = *self.served_rx.borrow();
        let mut served_rx = self.served_rx.clone();
        await_condition(&format!("{count} more requests to be served"), SERVED_WITHIN, async || {
            let served = served_rx.wait_for(|served| *served >= before + count).await;
            ensure!(served.is_ok(), "the load has stopped");
            Ok(())
        })
        .await
    }

    /// Stops the load, waits for the requests in flight, and returns the report. A client that
    /// waits for its tick still sends one request.
    pub async fn stop(self) -> anyhow::Result<Report> {
        self.stop_tx.send_replace(true);
        let mut probes = Vec::new();
        for client in self.clients {
            probes.extend(client.await?);
        }
        probes.sort_by_key(|probe| probe.began);
        Ok(Report { probes })
    }
}

async fn run_client(
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
        let body =
            if load.method == Method::GET { Bytes::new() } else { Bytes::from_static(b"probe") };
        let outcome = match connection.send(load.method.clone(), host, "/", body).await {
            Ok(answer) if answer.status < 400 => {
                Outcome::Served { body: answer.body, node: answer.node }
            }
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
    /// Returns the requests that were not served.
    pub fn failures(&self) -> impl Iterator<Item = &Probe> {
        self.probes.iter().filter(|probe| !matches!(probe.outcome, Outcome::Served { .. }))
    }

    /// Checks that no request failed.
    ///
    /// # Errors
    /// Fails if a request failed, or if none was sent. The error contains a summary of all
    /// outcomes.
    pub fn ensure_no_failure(&self) -> anyhow::Result<()> {
        ensure!(!self.probes.is_empty(), "no request was sent");
        ensure!(self.failures().next().is_none(), "requests failed: {self}");
        Ok(())
    }

    /// Returns how often each body was served.
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

/// Writes one line for each kind of outcome: its count, and when its first and its last request
/// began, counted from the beginning of the load.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut kinds: BTreeMap<String, (usize, Instant, Instant)> = BTreeMap::new();
        for probe in &self.probes {
            let kind = match &probe.outcome {
                Outcome::Served { node, .. } => {
                    format!("served by {}", node.as_deref().unwrap_or("an unnamed node"))
                }
                Outcome::Refused { status, body } => format!("{status} {}", without_id(body)),
                Outcome::Broken(error) => error.clone(),
            };
            let entry = kinds.entry(kind).or_insert((0, probe.began, probe.began));
            (entry.0, entry.2) = (entry.0 + 1, probe.began);
        }
        let Some(begin) = self.probes.first().map(|probe| probe.began) else {
            return f.write_str("no requests");
        };
        for (kind, (count, first, last)) in kinds {
            write!(f, "\n  {count} × {kind} ({:?} to {:?})", first - begin, last - begin)?;
        }
        Ok(())
    }
}

/// Removes the request id from an error body. Otherwise every failure would be a kind of its own.
fn without_id(body: &str) -> &str {
    body.split(",\"requestId\"").next().unwrap_or(body)
}
