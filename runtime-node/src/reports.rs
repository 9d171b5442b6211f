//! What the node tells the operator: which Workers' code fails again and again, and which runs again.
//!
//! ```text
//!  shard 0 ─┐
//!  shard 1 ─┼─ failing, recovered ──► ledger: the latest of each revision ──► Report, each 2 s at most ──► catalog
//!  shard n ─┘                            ▲ stays due until it has arrived ──────┘ gone? later, and later
//! ```
//!
//! On a thread of its own: a shard sends a message and goes on. What is to be told and when is decided by [`ledger`].
//! An operator that is gone is told when it is back. Each report has a connection to itself, as there is seldom one: what
//! would be kept for the next may by then lead to a process that is no more, which nobody tells.

mod ledger;

use std::io;
use std::time::{Duration, Instant};

use prometheus::IntGauge;
use tenon_lifecycle::tls::{Connector, Role, Tls};
use tenon_lifecycle::vital;
use tenon_proto::catalog::catalog_client::CatalogClient;
use tenon_proto::catalog::worker_report::State;
use tenon_proto::catalog::{self, CrashLoop, Quarantined, Recovered, ReportRequest, WorkerReport, quarantined};
use tenon_proto::failure::{FailureCode, Place};
use tenon_proto::id::{RevisionDigest, ShardId, WorkerId};
use tokio::sync::mpsc;
use tonic::transport::Endpoint;
use tonic::{Code, Status};

use crate::seat::Supervisor;
use ledger::{Failing, Ledger};

const CONNECT: Duration = Duration::from_secs(1);
const ATTEMPT: Duration = Duration::from_secs(5);

/// Between two messages. Doubled after each that did not arrive.
const INTERVAL: Duration = Duration::from_secs(2);
const LONGEST_INTERVAL: Duration = Duration::from_secs(30);

/// The process's reporter. The thread, if it has one, ends with it and the last of its [`Reports`].
pub struct Reporter(Destination);

/// A shard's way to the reporter. Never waits and never fails.
#[derive(Clone)]
pub struct Reports {
    shard: ShardId,
    destination: Destination,
}

/// Where words go.
#[derive(Clone)]
enum Destination {
    Thread(mpsc::UnboundedSender<(ShardId, Word)>),
    Supervisor(Supervisor),
}

/// Where the operator is, and how it is reached.
struct Operator {
    endpoint: Endpoint,
    connector: Connector,
}

enum Word {
    Failing(Failing),
    Recovered(RevisionDigest),
    /// The shard's process has ended, and all that it knew.
    Gone,
    /// A revision ended a process.
    Quarantined(WorkerReport),
}

impl Reporter {
    /// Starts the thread.
    ///
    /// # Arguments
    /// * `node` - the node's name.
    /// * `tls` - where the catalog's URL says so.
    /// * `loops` - tells how many revisions are in a crash loop.
    ///
    /// # Errors
    /// When the thread cannot be made.
    pub fn spawn(node: String, catalog: Endpoint, tls: Option<Tls>, loops: IntGauge) -> io::Result<Self> {
        let (words_tx, words_rx) = mpsc::unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let connector = Connector::new(tls, Role::Operator, CONNECT);
        let operator = Operator { endpoint: catalog.connect_timeout(CONNECT), connector };
        vital::spawn("reports".to_owned(), move || {
            runtime.block_on(report(&node, &operator, words_rx, &loops));
        })?;
        Ok(Self(Destination::Thread(words_tx)))
    }

    /// A reporter that has the supervisor report, for a shard's process.
    pub(crate) fn of_supervisor(supervisor: Supervisor) -> Self {
        Self(Destination::Supervisor(supervisor))
    }

    pub fn of(&self, shard: ShardId) -> Reports {
        Reports { shard, destination: self.0.clone() }
    }

    /// Passes on what a shard's process reports.
    ///
    /// # Arguments
    /// * `worker` - of a revision that fails.
    pub(crate) fn relay(&self, shard: ShardId, worker: Option<WorkerId>, digest: RevisionDigest, state: State) {
        let reports = self.of(shard);
        match (state, worker) {
            (State::CrashLoop(CrashLoop { code, failures, place, .. }), Some(worker)) => {
                let place = place.map(|catalog::Place { file, line, column }| Place { file, line, column });
                if let Some(code) = FailureCode::named(&code) {
                    reports.failing(&worker, digest, code, failures, place);
                }
            }
            (State::Recovered(_), _) => reports.recovered(digest),
            _ => {}
        }
    }

    /// A shard's process has ended: what fails there is not known any more.
    pub(crate) fn gone(&self, shard: ShardId) {
        self.of(shard).say(Word::Gone);
    }

    /// A revision is refused because it ended a process.
    ///
    /// # Arguments
    /// * `hung` - the process had to be ended, as a turn went on; otherwise it ended by itself.
    /// * `lasts` - for how long; `times`, for which time.
    pub(crate) fn quarantined(
        &self,
        worker: &WorkerId,
        digest: RevisionDigest,
        hung: bool,
        lasts: Duration,
        times: u32,
    ) {
        let cause = if hung { quarantined::Cause::Hung } else { quarantined::Cause::Crashed };
        let duration_ms = u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX);
        let state = State::Quarantined(Quarantined { cause: cause.into(), duration_ms, times });
        let digest = digest.as_bytes().to_vec();
        let report = WorkerReport { worker: worker.to_string(), digest, state: Some(state) };
        self.of(ShardId(0)).say(Word::Quarantined(report));
    }
}

impl Reports {
    /// The revision's code has failed on this shard.
    ///
    /// # Arguments
    /// * `failures` - how many times in a row, with this one. From the second on it is a crash loop.
    /// * `place` - where it has thrown, if it has.
    pub fn failing(
        &self,
        worker: &WorkerId,
        digest: RevisionDigest,
        code: FailureCode,
        failures: u32,
        place: Option<Place>,
    ) {
        self.say(Word::Failing(Failing { worker: worker.clone(), digest, code, failures, place }));
    }

    /// It runs again on this shard. Of one that did not fail this says nothing.
    pub fn recovered(&self, digest: RevisionDigest) {
        self.say(Word::Recovered(digest));
    }

    fn say(&self, word: Word) {
        match &self.destination {
            // Without the thread the node has nobody to tell.
            Destination::Thread(words_tx) => _ = words_tx.send((self.shard, word)),
            Destination::Supervisor(supervisor) => {
                word.into_report().into_iter().for_each(|said| supervisor.report(said))
            }
        }
    }
}

impl Word {
    /// As a shard's process says it to its supervisor.
    fn into_report(self) -> Option<WorkerReport> {
        let (worker, digest, state) = match self {
            Self::Failing(Failing { worker, digest, code, failures, place }) => {
                let place = place.map(|Place { file, line, column }| catalog::Place { file, line, column });
                let code = code.to_string();
                let state = State::CrashLoop(CrashLoop { code, failures, for_seconds: 0, place });
                (worker.to_string(), digest, state)
            }
            Self::Recovered(digest) => (String::new(), digest, State::Recovered(Recovered {})),
            Self::Gone | Self::Quarantined(_) => return None,
        };
        Some(WorkerReport { worker, digest: digest.as_bytes().to_vec(), state: Some(state) })
    }
}

/// Runs until nobody can say anything any more.
async fn report(
    node: &str,
    operator: &Operator,
    mut words_rx: mpsc::UnboundedReceiver<(ShardId, Word)>,
    loops: &IntGauge,
) {
    let mut ledger = Ledger::default();
    let (mut interval, mut not_before) = (INTERVAL, Instant::now());
    loop {
        loops.set(ledger.loops() as i64);
        let due = ledger.next_due().map(|due| due.max(not_before));
        let comes_due = async {
            match due {
                Some(due) => tokio::time::sleep_until(due.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // Word first: what has changed since need not be told.
            biased;
            word = words_rx.recv() => match word {
                Some((shard, Word::Failing(failing))) => ledger.failing(shard, failing, Instant::now()),
                Some((shard, Word::Recovered(digest))) => ledger.recovered(shard, digest, Instant::now()),
                Some((shard, Word::Gone)) => ledger.gone(shard, Instant::now()),
                Some((_, Word::Quarantined(report))) => ledger.quarantined(report, Instant::now()),
                None => return,
            },
            () = comes_due => {
                let mut batch = ledger.due(Instant::now());
                if batch.is_empty() {
                    continue;
                }
                let request = ReportRequest { node: node.to_owned(), workers: std::mem::take(&mut batch.workers) };
                interval = match send(operator, request).await {
                    Ok(()) => {
                        ledger.delivered(&batch, Instant::now());
                        INTERVAL
                    }
                    Err(status) => {
                        tracing::warn!(%status, "cannot tell the operator of crash loops; trying again");
                        (interval * 2).min(LONGEST_INTERVAL)
                    }
                };
                not_before = Instant::now() + interval;
            }
        }
    }
}

async fn send(operator: &Operator, request: ReportRequest) -> Result<(), Status> {
    // It connects with the first call.
    let channel = operator.endpoint.connect_with_connector_lazy(operator.connector.clone());
    let mut client = CatalogClient::new(channel);
    match tokio::time::timeout(ATTEMPT, client.report(request)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(status)) if status.code() == Code::InvalidArgument => {
            // It would not take that the next time either.
            tracing::error!(%status, "the operator cannot read the report");
            Ok(())
        }
        Ok(Err(status)) => Err(status),
        Err(_) => Err(Status::deadline_exceeded("the operator did not answer in time")),
    }
}
