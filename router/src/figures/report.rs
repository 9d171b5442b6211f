//! Sends the figures of all threads to the operator whose catalog this router watches.
//!
//! Figures may be lost with a connection or a router, or if an answer is late, and may be counted
//! twice if the connection breaks after an operator has taken them. Both affect all revisions
//! alike.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use tenon_proto::catalog::catalog_client::CatalogClient;
use tenon_proto::catalog::{ReportTrafficRequest, RevisionTraffic};
use tenon_proto::figures::Figures;
use tenon_proto::id::WorkerId;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::{Counted, INTERVAL, Subject};

/// The maximum number of entries in one call. Operators refuse more.
const MAX_ENTRIES: usize = 200;

/// The maximum number of entries that wait for an operator. Figures of more revisions are dropped.
const MAX_PENDING: usize = 10_000;

/// The maximum time to wait for the answer to one call.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// The capacity of the channel from the threads, in messages. Each thread sends at most one message
/// per second.
const CHANNEL_CAPACITY: usize = 256;

/// Receives the figures of all threads, and reports them to an operator.
pub(crate) struct Reporter {
    counted_rx: mpsc::Receiver<Counted>,
    pending: Pending,
}

/// The figures that no operator has yet.
#[derive(Default)]
struct Pending(BTreeMap<Subject, (WorkerId, Figures)>);

type Entry = (Subject, (WorkerId, Figures));

impl Reporter {
    /// Creates the reporter, and the sender of the threads' figures.
    pub(crate) fn new() -> (mpsc::Sender<Counted>, Self) {
        let (counted_tx, counted_rx) = mpsc::channel(CHANNEL_CAPACITY);
        (counted_tx, Self { counted_rx, pending: Pending::default() })
    }

    /// Reports to an operator, as long as this future is polled.
    pub(crate) async fn run(&mut self, mut operator: CatalogClient<Channel>) -> Infallible {
        let mut not_before = Instant::now();
        loop {
            let is_due = !self.pending.0.is_empty();
            tokio::select! {
                counted = self.counted_rx.recv() => match counted {
                    Some(counted) => self.pending.add(counted),
                    // All threads have ended.
                    None => return pending().await,
                },
                () = sleep_until(not_before), if is_due => {
                    if let Err(status) = self.send(&mut operator).await {
                        if status.code() == Code::Unimplemented {
                            tracing::info!("the operator's version does not support rollouts");
                            return self.discard().await;
                        }
                        let (code, message) = (status.code(), status.message());
                        tracing::warn!(?code, message, "cannot report figures");
                    }
                    not_before = Instant::now() + INTERVAL;
                }
            }
        }
    }

    /// Sends all pending figures. Those that the operator cannot take now remain pending.
    async fn send(&mut self, operator: &mut CatalogClient<Channel>) -> Result<(), Status> {
        while let Some(entries) = self.pending.take() {
            let revisions = entries.iter().map(message).collect();
            let call = operator.report_traffic(ReportTrafficRequest { revisions });
            let answer = tokio::time::timeout(CALL_TIMEOUT, call).await;
            let answer = answer.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer")));
            if let Err(status) = answer {
                if matches!(status.code(), Code::ResourceExhausted | Code::Unavailable) {
                    self.pending.add(entries);
                }
                return Err(status);
            }
        }
        Ok(())
    }

    /// Drops all figures, for an operator that does not take any.
    async fn discard(&mut self) -> Infallible {
        self.pending = Pending::default();
        while self.counted_rx.recv().await.is_some() {}
        pending().await
    }
}

impl Pending {
    fn add(&mut self, counted: impl IntoIterator<Item = Entry>) {
        for (subject, (worker, figures)) in counted {
            if self.0.len() < MAX_PENDING || self.0.contains_key(&subject) {
                let sum = self.0.entry(subject).or_insert_with(|| (worker, Figures::default()));
                sum.1.add(&figures);
            }
        }
    }

    /// Takes the entries of the next call.
    fn take(&mut self) -> Option<Vec<Entry>> {
        let entries: Vec<_> = std::iter::from_fn(|| self.0.pop_first()).take(MAX_ENTRIES).collect();
        (!entries.is_empty()).then_some(entries)
    }
}

fn message(((digest, measurement), (worker, figures)): &Entry) -> RevisionTraffic {
    RevisionTraffic {
        worker: worker.to_string(),
        measurement: *measurement,
        digest: digest.as_bytes().to_vec(),
        requests: figures.requests,
        failed: figures.failed,
        latencies: figures.latencies.counts().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use tenon_proto::id::RevisionDigest;

    use super::*;

    fn counted(measurement: u64, requests: u64) -> Entry {
        let subject = (RevisionDigest::new([7; 32]), measurement);
        let figures = Figures { requests, ..Figures::default() };
        (subject, (WorkerId::new("shop", "cart"), figures))
    }

    #[test]
    fn figures_of_the_same_revision_and_measurement_are_added_up() {
        let mut pending = Pending::default();
        pending.add([counted(1, 2), counted(2, 10)]);
        pending.add([counted(1, 3)]);
        let taken = pending.take().unwrap();
        let requests: Vec<_> = taken.iter().map(|(_, (_, figures))| figures.requests).collect();
        assert!(requests == [5, 10] && pending.take().is_none(), "{requests:?}");
    }

    #[test]
    fn calls_and_pending_figures_are_bounded() {
        let mut pending = Pending::default();
        let many = || (0..).map(|measurement| counted(measurement, 1)).take(2 * MAX_PENDING);
        pending.add(many());
        pending.add(many());
        let sizes: Vec<_> =
            std::iter::from_fn(|| pending.take()).map(|taken| taken.len()).collect();
        assert_eq!(sizes, [MAX_ENTRIES; MAX_PENDING / MAX_ENTRIES]);
    }
}
