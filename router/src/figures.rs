//! Counts the requests of each revision of a Worker that operators measure during a rollout.
//!
//! ```text
//!  forward ─► Measured ── reply, failure, abandoned ─► ThreadFigures
//!                                                         │ every second, if there are any
//!                                        operator ◄── Reporter, on the catalog's thread
//! ```
//!
//! A thread counts in its own memory, without a lock. A request of a Worker that is not measured
//! costs one comparison. The figures of a thread are bounded by the number of measured revisions in
//! the catalog: each of these has one entry until the entries are sent.

mod report;

use std::cell::RefCell;
use std::collections::HashMap;
use std::convert::Infallible;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tenon_proto::failure::FailureCode;
use tenon_proto::figures::Figures;
use tenon_proto::id::{RevisionDigest, WorkerId};
use tenon_table::Worker;
use tokio::sync::mpsc;

pub(crate) use report::Reporter;

/// The interval at which a thread sends its figures, and the minimum interval between two reports.
const INTERVAL: Duration = Duration::from_secs(1);

/// The subject of figures: a revision, and the number of the measurement.
type Subject = (RevisionDigest, u64);

/// The figures of several revisions, each with the id of its Worker.
pub(crate) type Counted = HashMap<Subject, (WorkerId, Figures)>;

/// The figures of one thread that have not been sent yet.
pub(crate) struct ThreadFigures {
    counted: RefCell<Counted>,
    counted_tx: mpsc::Sender<Counted>,
}

/// A request of a measured Worker that is being forwarded. If this value is dropped before the
/// request has ended, the client has abandoned the request. Such a request counts with the time
/// that its client has waited, because the clients of a revision that hangs give up.
pub(crate) struct Measured<'a> {
    figures: &'a ThreadFigures,
    worker: &'a Worker,
    measurement: u64,
    began: Instant,
    outcome: Outcome,
}

#[derive(PartialEq, Eq)]
enum Outcome {
    Served,
    /// The client gets a status of 500 or more.
    Failed,
    Abandoned,
    /// The request failed because of its client, so it says nothing about the revision.
    Excluded,
}

impl ThreadFigures {
    /// Creates the figures of a thread.
    ///
    /// # Arguments
    /// * `counted_tx` - the channel to which the figures are sent.
    pub(crate) fn new(counted_tx: mpsc::Sender<Counted>) -> Rc<Self> {
        Rc::new(Self { counted: RefCell::default(), counted_tx })
    }

    /// Begins the measurement of a request, if its Worker is measured.
    pub(crate) fn begin<'a>(&'a self, worker: &'a Worker) -> Option<Measured<'a>> {
        let measurement = worker.measurement?.get();
        let (began, outcome) = (Instant::now(), Outcome::Abandoned);
        Some(Measured { figures: self, worker, measurement, began, outcome })
    }

    /// Sends the figures periodically.
    pub(crate) async fn run(self: Rc<Self>) -> Infallible {
        loop {
            tokio::time::sleep(INTERVAL).await;
            if !self.counted.borrow().is_empty() {
                // Without an operator, the channel becomes full, and figures are lost, for all
                // revisions alike.
                let _ = self.counted_tx.try_send(self.counted.take());
            }
        }
    }
}

impl Measured<'_> {
    /// Ends the measurement.
    ///
    /// # Arguments
    /// * `result` - the status of the response, or the code of the failure.
    pub(crate) fn end(mut self, result: Result<u32, FailureCode>) {
        self.outcome = match result {
            Ok(100..500) => Outcome::Served,
            Err(code) if code.http_status() < 500 => Outcome::Excluded,
            Ok(_) | Err(_) => Outcome::Failed,
        };
    }
}

impl Drop for Measured<'_> {
    fn drop(&mut self) {
        if self.outcome == Outcome::Excluded {
            return;
        }
        let Self { figures, worker, measurement, began, .. } = *self;
        let mut counted = figures.counted.borrow_mut();
        let entry = counted.entry((worker.digest, measurement));
        let (_, figures) = entry.or_insert_with(|| (worker.id.clone(), Figures::default()));
        figures.requests += 1;
        figures.failed += u64::from(self.outcome == Outcome::Failed);
        // The first requests of a new revision wait until its isolates have started.
        if !worker.is_new(began) {
            figures.latencies.record(began.elapsed());
        }
    }
}

#[cfg(test)]
mod tests {
    use tenon_proto::catalog;

    use super::*;

    fn worker(measurement: u64) -> Worker {
        let digest = vec![7; 32];
        let entry =
            catalog::Worker { id: "shop/cart".into(), digest, measurement, ..Default::default() };
        Worker::new(entry).unwrap()
    }

    fn counted(measurement: u64, results: &[Option<Result<u32, FailureCode>>]) -> Option<Figures> {
        let (counted_tx, _counted_rx) = mpsc::channel(1);
        let (figures, worker) = (ThreadFigures::new(counted_tx), worker(measurement));
        for result in results {
            let measured = figures.begin(&worker);
            if let (Some(measured), Some(result)) = (measured, result) {
                measured.end(*result);
            }
        }
        let counted = figures.counted.take();
        assert!(counted.keys().all(|subject| *subject == (worker.digest, measurement)));
        counted.into_values().next().map(|(_, figures)| figures)
    }

    #[test]
    fn a_request_whose_client_gets_a_server_error_has_failed() {
        let results = [200, 404, 101, 500, 599, 0, 600].map(|status| Some(Ok(status)));
        let figures = counted(3, &results).unwrap();
        assert_eq!((figures.requests, figures.failed), (7, 4));
        let codes = [FailureCode::WorkerException, FailureCode::WallLimitExceeded];
        let figures = counted(3, &codes.map(|code| Some(Err(code)))).unwrap();
        assert_eq!((figures.requests, figures.failed, figures.latencies.total()), (2, 2, 2));
    }

    #[test]
    fn a_request_that_its_client_abandons_has_not_failed_and_its_latency_counts() {
        let figures = counted(3, &[None, None]).unwrap();
        assert_eq!((figures.requests, figures.failed, figures.latencies.total()), (2, 0, 2));
    }

    #[test]
    fn a_request_that_fails_because_of_its_client_does_not_count() {
        for code in [FailureCode::RequestTooLarge, FailureCode::RequestTimeout] {
            assert_eq!(counted(3, &[Some(Err(code))]), None);
        }
    }

    #[test]
    fn requests_of_a_worker_that_is_not_measured_do_not_count() {
        assert_eq!(counted(0, &[Some(Ok(500)), None]), None);
    }

    #[test]
    fn the_latency_of_a_revision_that_is_new_does_not_count() {
        let (counted_tx, _counted_rx) = mpsc::channel(1);
        let (figures, mut worker) = (ThreadFigures::new(counted_tx), worker(3));
        worker.announce(None, Some(Instant::now()));
        figures.begin(&worker).unwrap().end(Ok(200));
        let (_, figures) = figures.counted.take().into_values().next().unwrap();
        assert_eq!((figures.requests, figures.latencies.total()), (1, 0));
    }
}
