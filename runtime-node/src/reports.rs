//! Reports to the operator the Workers whose code fails repeatedly or has recovered, and the
//! revisions that are quarantined.
//!
//! ```text
//!  shard 0 ─┐
//!  shard 1 ─┼─ failing, recovered ──► ledger: latest state ──► Report, 2 s apart ──► catalog
//!  shard n ─┘                           ▲ due until delivered ───┘ failed? longer pauses
//! ```
//!
//! The reporter runs on its own thread: a shard sends a message and continues. [`ledger`] decides
//! what is reported and when. If the operator is unreachable, the report is sent when the operator
//! is reachable again. Each report opens its own connection, because reports are rare: a connection
//! that is kept until the next report might lead to a process that has vanished without closing it.

mod ledger;

use std::io;
use std::time::{Duration, Instant};

use prometheus::{IntGauge, Registry};
use tenon_lifecycle::metrics::Register as _;
use tenon_lifecycle::tls::{Connector, Role, Tls};
use tenon_lifecycle::vital;
use tenon_proto::catalog::catalog_client::CatalogClient;
use tenon_proto::catalog::worker_report::State;
use tenon_proto::catalog::{
    self, CrashLoop, Quarantined, Recovered, ReportRequest, WorkerReport, quarantined,
};
use tenon_proto::failure::{FailureCode, Place};
use tenon_proto::id::{RevisionDigest, ShardId, WorkerId};
use tokio::sync::mpsc;
use tonic::transport::Endpoint;
use tonic::{Code, Status};

use crate::child::Supervisor;
use ledger::{Failing, Ledger};

/// Time limits for connecting and for one whole report.
const CONNECT: Duration = Duration::from_secs(1);
const ATTEMPT: Duration = Duration::from_secs(5);

/// First and longest interval between two reports. The interval doubles after each report that was
/// not delivered.
const INTERVAL: Duration = Duration::from_secs(2);
const LONGEST_INTERVAL: Duration = Duration::from_secs(30);

/// The process's reporter. The reporter's thread, if there is one, ends when the reporter and all
/// of its [`Reports`] have been dropped.
pub struct Reporter(Destination);

/// A shard's handle to the reporter. Its methods neither wait nor fail.
#[derive(Clone)]
pub struct Reports {
    shard: ShardId,
    destination: Destination,
}

/// The destination of reports.
#[derive(Clone)]
enum Destination {
    Thread(mpsc::UnboundedSender<(ShardId, LedgerEvent)>),
    Supervisor(Supervisor),
}

/// The operator's address, with a connector to the operator.
struct Operator {
    endpoint: Endpoint,
    connector: Connector,
}

enum LedgerEvent {
    Failing(Failing),
    Recovered(RevisionDigest),
    /// The shard's process has ended; failures on the shard no longer count.
    ShardEnded,
    /// A revision has ended a process.
    Quarantined(WorkerReport),
}

/// Registers the gauge of revisions in back-off because their code failed several times in a row.
///
/// # Errors
/// Fails if the registry has the gauge already.
pub fn register(registry: &Registry) -> prometheus::Result<IntGauge> {
    registry.gauge(
        "tenon_worker_crash_loops",
        "Revisions in back-off because their code fails repeatedly.",
    )
}

impl Reporter {
    /// Starts the reporter's thread.
    ///
    /// # Arguments
    /// * `node` - the node's name.
    /// * `tls` - used if the catalog's URL is `https`.
    /// * `crash_loops` - gauge of the number of revisions in a crash loop.
    ///
    /// # Errors
    /// Fails if the system cannot create the event loop or the thread.
    pub fn spawn(
        node: String,
        catalog: Endpoint,
        tls: Option<Tls>,
        crash_loops: IntGauge,
    ) -> io::Result<Self> {
        let (events_tx, events_rx) = mpsc::unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let connector = Connector::new(tls, Role::Operator, CONNECT);
        let operator = Operator { endpoint: catalog.connect_timeout(CONNECT), connector };
        vital::spawn("reports".to_owned(), move || {
            runtime.block_on(report(&node, &operator, events_rx, &crash_loops));
        })?;
        Ok(Self(Destination::Thread(events_tx)))
    }

    /// Returns a reporter that sends reports through the supervisor, for a shard's process.
    pub(crate) fn via_supervisor(supervisor: Supervisor) -> Self {
        Self(Destination::Supervisor(supervisor))
    }

    /// Returns the handle of one shard.
    pub fn of(&self, shard: ShardId) -> Reports {
        Reports { shard, destination: self.0.clone() }
    }

    /// Relays a report of a shard's process.
    ///
    /// # Arguments
    /// * `worker` - the revision's Worker; only a report of a failure requires it.
    pub(crate) fn relay(
        &self,
        shard: ShardId,
        worker: Option<WorkerId>,
        digest: RevisionDigest,
        state: State,
    ) {
        let reports = self.of(shard);
        match (state, worker) {
            (State::CrashLoop(CrashLoop { code, failures, place, .. }), Some(worker)) => {
                let place =
                    place.map(|catalog::Place { file, line, column }| Place { file, line, column });
                if let Some(code) = FailureCode::from_name(&code) {
                    reports.failing(&worker, digest, code, failures, place);
                }
            }
            (State::Recovered(_), _) => reports.recovered(digest),
            _ => {}
        }
    }

    /// Records that a shard's process has ended: failures on the shard no longer count.
    pub(crate) fn shard_ended(&self, shard: ShardId) {
        self.of(shard).send(LedgerEvent::ShardEnded);
    }

    /// Reports that a revision is refused because it ended a process.
    ///
    /// # Arguments
    /// * `hung` - whether the process was killed because a turn did not end; otherwise the process
    ///   ended by itself.
    /// * `duration` - length of the quarantine.
    /// * `times` - how often the revision has been quarantined, including this time.
    pub(crate) fn quarantined(
        &self,
        worker: &WorkerId,
        digest: RevisionDigest,
        hung: bool,
        duration: Duration,
        times: u32,
    ) {
        let cause = if hung { quarantined::Cause::Hung } else { quarantined::Cause::Crashed };
        let duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let state = State::Quarantined(Quarantined { cause: cause.into(), duration_ms, times });
        let digest = digest.as_bytes().to_vec();
        let report = WorkerReport { worker: worker.to_string(), digest, state: Some(state) };
        self.of(ShardId(0)).send(LedgerEvent::Quarantined(report));
    }
}

impl Reports {
    /// Reports that the revision's code has failed on this shard.
    ///
    /// # Arguments
    /// * `failures` - consecutive failures, including this one. Two or more are a crash loop.
    /// * `place` - where the code threw, if it did.
    pub fn failing(
        &self,
        worker: &WorkerId,
        digest: RevisionDigest,
        code: FailureCode,
        failures: u32,
        place: Option<Place>,
    ) {
        self.send(LedgerEvent::Failing(Failing {
            worker: worker.clone(),
            digest,
            code,
            failures,
            place,
        }));
    }

    /// Reports that the revision runs again on this shard. Does nothing for a revision that was not
    /// failing.
    pub fn recovered(&self, digest: RevisionDigest) {
        self.send(LedgerEvent::Recovered(digest));
    }

    fn send(&self, event: LedgerEvent) {
        match &self.destination {
            // If the receiver has been dropped, the node is shutting down.
            Destination::Thread(events_tx) => _ = events_tx.send((self.shard, event)),
            Destination::Supervisor(supervisor) => {
                event.into_report().into_iter().for_each(|report| supervisor.report(report))
            }
        }
    }
}

impl LedgerEvent {
    /// Converts the event to the report that a shard's process sends to its supervisor.
    fn into_report(self) -> Option<WorkerReport> {
        let (worker, digest, state) = match self {
            Self::Failing(Failing { worker, digest, code, failures, place }) => {
                let place =
                    place.map(|Place { file, line, column }| catalog::Place { file, line, column });
                let code = code.to_string();
                let state = State::CrashLoop(CrashLoop { code, failures, for_seconds: 0, place });
                (worker.to_string(), digest, state)
            }
            Self::Recovered(digest) => (String::new(), digest, State::Recovered(Recovered {})),
            Self::ShardEnded | Self::Quarantined(_) => return None,
        };
        Some(WorkerReport { worker, digest: digest.as_bytes().to_vec(), state: Some(state) })
    }
}

/// Sends reports until every sender of events has been dropped.
async fn report(
    node: &str,
    operator: &Operator,
    mut events_rx: mpsc::UnboundedReceiver<(ShardId, LedgerEvent)>,
    crash_loops: &IntGauge,
) {
    let mut ledger = Ledger::default();
    let (mut interval, mut not_before) = (INTERVAL, Instant::now());
    loop {
        crash_loops.set(ledger.crash_loops() as i64);
        let due = ledger.next_due().map(|due| due.max(not_before));
        let comes_due = async {
            match due {
                Some(due) => tokio::time::sleep_until(due.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // Events come first, so that a report contains the latest states.
            biased;
            event = events_rx.recv() => match event {
                Some((shard, LedgerEvent::Failing(failing))) => {
                    ledger.failing(shard, failing, Instant::now());
                }
                Some((shard, LedgerEvent::Recovered(digest))) => {
                    ledger.recovered(shard, digest, Instant::now());
                }
                Some((shard, LedgerEvent::ShardEnded)) => ledger.shard_ended(shard, Instant::now()),
                Some((_, LedgerEvent::Quarantined(report))) => {
                    ledger.quarantined(report, Instant::now());
                }
                None => return,
            },
            () = comes_due => {
                let mut batch = ledger.next_batch(Instant::now());
                if batch.is_empty() {
                    continue;
                }
                let workers = std::mem::take(&mut batch.workers);
                let request = ReportRequest { node: node.to_owned(), workers };
                interval = match send(operator, request).await {
                    Ok(()) => {
                        ledger.delivered(&batch, Instant::now());
                        INTERVAL
                    }
                    Err(status) => {
                        tracing::warn!(%status, "cannot report crash loops and quarantines to the operator; retrying");
                        (interval * 2).min(LONGEST_INTERVAL)
                    }
                };
                not_before = Instant::now() + interval;
            }
        }
    }
}

async fn send(operator: &Operator, request: ReportRequest) -> Result<(), Status> {
    // The first call connects.
    let channel = operator.endpoint.connect_with_connector_lazy(operator.connector.clone());
    let mut client = CatalogClient::new(channel);
    match tokio::time::timeout(ATTEMPT, client.report(request)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(status)) if status.code() == Code::InvalidArgument => {
            // The operator would reject the same report again.
            tracing::error!(%status, "the operator rejected the report");
            Ok(())
        }
        Ok(Err(status)) => Err(status),
        Err(_) => Err(Status::deadline_exceeded("the operator did not answer before the timeout")),
    }
}
