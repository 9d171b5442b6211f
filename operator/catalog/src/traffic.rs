//! Routers' figures about the revisions of measured Workers, and the checks on them. This module is
//! pure.
//!
//! Figures must be about the measurement that the Worker's entry has now, and about a revision that
//! serves now. Any other figures are late, and are dropped.

use tenon_proto::catalog::{ReportTrafficRequest, RevisionTraffic};
use tenon_proto::figures::Figures;
use tenon_proto::id::{InvalidDigest, InvalidWorkerId, RevisionDigest, WorkerId};
use tokio::sync::mpsc;

use super::Deployed;

/// Maximum number of entries in one message.
const MAX_REVISIONS: usize = 200;

/// A router's figures about one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrafficReport {
    pub worker: WorkerId,
    pub measurement: u64,
    /// Name of the WorkerRevision.
    pub revision: String,
    pub figures: Figures,
}

/// The channel to the code that processes routers' figures. Each message has those of one report.
pub type FiguresSink = mpsc::Sender<Vec<TrafficReport>>;

/// The reason why a report is malformed. Tenon's routers never send such a report.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum MalformedTraffic {
    #[error("the report has {0} entries, more than {MAX_REVISIONS}")]
    TooLong(usize),
    #[error(transparent)]
    Worker(#[from] InvalidWorkerId),
    #[error(transparent)]
    Digest(#[from] InvalidDigest),
}

/// The part of a report about one revision.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) worker: WorkerId,
    pub(super) measurement: u64,
    pub(super) digest: RevisionDigest,
    pub(super) figures: Figures,
}

/// Parses a report.
///
/// # Errors
/// Fails if any part is malformed: the other parts of such a report are not trusted either.
pub(super) fn parse(request: ReportTrafficRequest) -> Result<Vec<Part>, MalformedTraffic> {
    if request.revisions.len() > MAX_REVISIONS {
        return Err(MalformedTraffic::TooLong(request.revisions.len()));
    }
    let part = |reported: &RevisionTraffic| {
        Ok(Part {
            worker: reported.worker.parse()?,
            measurement: reported.measurement,
            digest: RevisionDigest::try_from(&reported.digest[..])?,
            figures: reported.into(),
        })
    };
    request.revisions.iter().map(part).collect()
}

impl Deployed {
    /// Returns a router's figures about a revision, unless they are late.
    pub(super) fn check_figures(&self, part: Part) -> Option<TrafficReport> {
        let Part { worker, measurement, digest, figures } = part;
        let is_current = measurement != 0 && self.state.worker(&worker)?.measurement == measurement;
        let revision = self.revisions.name(&worker, &digest).filter(|_| is_current)?.to_owned();
        Some(TrafficReport { worker, measurement, revision, figures })
    }
}

#[cfg(test)]
mod tests {
    use tenon_proto::figures::BUCKETS;

    use super::*;

    fn report(worker: &str, digest: usize) -> ReportTrafficRequest {
        let entry = RevisionTraffic {
            worker: worker.to_owned(),
            measurement: 5,
            digest: vec![7; digest],
            requests: 10,
            failed: 3,
            latencies: vec![6, 4],
        };
        ReportTrafficRequest { revisions: vec![entry] }
    }

    #[test]
    fn figures_are_parsed() {
        let part = parse(report("shop/cart", 32)).unwrap().remove(0);
        assert_eq!((part.worker.as_str(), part.measurement), ("shop/cart", 5));
        assert_eq!(part.digest, RevisionDigest::new([7; 32]));
        let Figures { requests, failed, latencies } = part.figures;
        assert_eq!((requests, failed, latencies.counts()), (10, 3, &[6, 4][..]));
    }

    #[test]
    fn impossible_figures_are_bounded() {
        let mut lie = report("shop/cart", 32);
        lie.revisions[0].failed = u64::MAX;
        lie.revisions[0].latencies = vec![u64::MAX; 10_000];
        let Figures { requests, failed, latencies } = parse(lie).unwrap().remove(0).figures;
        assert_eq!((requests, failed, latencies.counts().len()), (10, 10, BUCKETS));
        assert_eq!(latencies.total(), u64::MAX);
    }

    #[test]
    fn a_malformed_report_is_refused() {
        assert!(matches!(parse(report("cart", 32)), Err(MalformedTraffic::Worker(_))));
        assert!(matches!(parse(report("shop/cart", 31)), Err(MalformedTraffic::Digest(_))));
        let mut flood = report("shop/cart", 32);
        flood.revisions = vec![flood.revisions[0].clone(); MAX_REVISIONS + 1];
        assert_eq!(parse(flood), Err(MalformedTraffic::TooLong(MAX_REVISIONS + 1)));
    }
}
