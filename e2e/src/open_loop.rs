//! An open-loop load, which keeps its rate no matter what happens to its requests, and records
//! every failure.
//!
//! ```text
//!  clock ──each tick──► one request ──► over a kept-alive connection │ a new one │ HTTP/2
//!                            │
//!                            └── its outcome ──► the next lap that is reported
//! ```
//!
//! A request starts when it is due, not when the previous one has ended, so a stall slows many
//! requests down, as it would for independent clients. A request's latency counts from the time
//! when the request was due. A request that may have been sent is never repeated. A request that
//! was provably not sent, because the server had closed an idle connection, is sent on another
//! connection, as any client would do.

mod clients;
mod lap;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

pub use clients::ClientKind;
use clients::Clients;
pub use lap::{Failure, Lap, Latency};

/// Time limit of a request: one that takes longer has failed.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The kinds of clients, in the order in which they take turns.
const CLIENT_KINDS: [ClientKind; 4] =
    [ClientKind::KeptAlive, ClientKind::Fresh, ClientKind::KeptAlive, ClientKind::Http2];

/// The load to generate.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The address of the routers.
    pub target: SocketAddr,
    /// Requests per second.
    pub rate: u32,
    /// The Workers to request, in turn.
    pub requests: Vec<PlannedRequest>,
}

/// The host of a Worker, and the expected body of its response.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlannedRequest {
    pub host: String,
    pub body: String,
}

/// Load in progress. After it is dropped, no request starts.
#[derive(Debug)]
pub struct OpenLoop {
    sent: Arc<AtomicU64>,
    lap_began: Instant,
    ended_rx: UnboundedReceiver<Ended>,
    clock: JoinHandle<()>,
}

/// The outcome of a request.
#[derive(Debug)]
struct Ended {
    latency: Duration,
    failure: Option<Failure>,
}

impl OpenLoop {
    /// Starts the load.
    pub fn start(plan: Plan) -> Self {
        let (ended_tx, ended_rx) = mpsc::unbounded_channel();
        let sent = Arc::new(AtomicU64::new(0));
        let clock = tokio::spawn(tick(plan, sent.clone(), ended_tx));
        Self { sent, lap_began: Instant::now(), ended_rx, clock }
    }

    /// Returns the outcomes of the requests that have ended since the start or since the previous
    /// lap. Requests in flight belong to the next lap.
    pub fn lap(&mut self) -> Lap {
        let mut ended = Vec::new();
        while let Ok(one) = self.ended_rx.try_recv() {
            ended.push(one);
        }
        self.finish_lap(ended)
    }

    /// Starts no more requests, waits for the requests in flight, and returns the last lap.
    pub async fn stop(mut self) -> Lap {
        self.clock.abort();
        let mut ended = Vec::new();
        // The clock and each request hold a sender, so this loop ends when all of them have ended.
        while let Some(one) = self.ended_rx.recv().await {
            ended.push(one);
        }
        self.finish_lap(ended)
    }

    fn finish_lap(&mut self, ended: Vec<Ended>) -> Lap {
        let took = self.lap_began.elapsed();
        self.lap_began = Instant::now();
        Lap::of(took, self.sent.swap(0, Ordering::Relaxed), ended)
    }
}

impl Drop for OpenLoop {
    fn drop(&mut self) {
        self.clock.abort();
    }
}

async fn tick(plan: Plan, sent: Arc<AtomicU64>, ended_tx: UnboundedSender<Ended>) {
    let clients = Arc::new(Clients::of(plan.target));
    let mut ticks = interval(Duration::from_secs(1) / plan.rate.max(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    // Every Worker is requested by every kind of client, regardless of the number of Workers.
    for (i, planned) in plan.requests.iter().cycle().enumerate() {
        let (round, index) = (i / plan.requests.len(), i % plan.requests.len());
        let kind = CLIENT_KINDS[(round + index) % CLIENT_KINDS.len()];
        let due = ticks.tick().await;
        sent.fetch_add(1, Ordering::Relaxed);
        let request = request(clients.clone(), kind, planned.clone(), due);
        let ended_tx = ended_tx.clone();
        tokio::spawn(async move {
            // The receiver is gone if the load was dropped.
            let _ = ended_tx.send(request.await);
        });
    }
}

async fn request(
    clients: Arc<Clients>,
    kind: ClientKind,
    planned: PlannedRequest,
    due: Instant,
) -> Ended {
    let at = format!("{:.3}", Timestamp::now());
    let answer = timeout(REQUEST_TIMEOUT, clients.get(kind, &planned.host)).await;
    let latency = due.elapsed();
    let (status, reason) = match answer {
        Ok(Ok((200, body))) if body == planned.body => return Ended { latency, failure: None },
        Ok(Ok((status, body))) => (Some(status), lap::beginning_of(&body)),
        Ok(Err(error)) => (None, format!("{error:#}")),
        Err(_) => (None, format!("no response within {REQUEST_TIMEOUT:?}")),
    };
    Ended {
        latency,
        failure: Some(Failure { at, latency, host: planned.host, kind, status, reason }),
    }
}

#[cfg(test)]
mod tests;
