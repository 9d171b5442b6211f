//! Nodes' reports about the Workers that they run, and how they are parsed. This module is pure.
//!
//! A report must come from the pool of the node that it names, and be about a Worker of that pool
//! and a revision that serves now; a quarantine may also be about one that served recently. Any
//! other report, whether mistaken, late or malicious, is dropped ([`super::intake`]).

use std::time::Duration;

use prometheus::{IntCounterVec, Registry};
use tenon_lifecycle::metrics::Register as _;
use tenon_proto::catalog::{self, ReportRequest, WorkerReport, quarantined, worker_report::State};
use tenon_proto::failure::{FailureCode, Place};
use tenon_proto::id::{InvalidDigest, InvalidWorkerId, RevisionDigest, WorkerId};
use tokio::sync::mpsc;

/// Maximum number of Workers in one message.
const MAX_WORKERS: usize = 100;

/// The longest quarantine, to which longer ones are cut. Nodes of this version report at most an
/// hour.
const LONGEST_QUARANTINE: Duration = Duration::from_secs(24 * 3600);

/// The longest file name that is accepted, in bytes; several must fit into an Event's note.
const MAX_FILE_NAME: usize = 128;

/// A node's report about one Worker's revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthReport {
    pub worker: WorkerId,
    /// Name of the WorkerRevision.
    pub revision: String,
    pub node: String,
    pub health: WorkerHealth,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerHealth {
    /// The revision's code has failed `failures` times in a row over the period `age`, most
    /// recently with this code and at this place.
    CrashLoop { code: FailureCode, failures: u32, age: Duration, place: Option<Place> },
    /// The revision's code runs again.
    Recovered,
    /// The revision's code ended a process of the node for the `times`-th time, and the node
    /// refuses it for `duration`.
    Quarantined { cause: Cause, duration: Duration, times: u32 },
}

/// The way in which code ended a process of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The process ended while the code ran.
    Crashed,
    /// The process was killed because the code did not stop when it was terminated.
    Hung,
}

/// The receiver of nodes' reports.
pub struct ReportSink {
    pub reports_tx: mpsc::Sender<HealthReport>,
    /// Counts reports, each about one Worker, by [`Outcome`].
    pub outcomes: IntCounterVec,
}

/// The outcome of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Taken,
    /// The report is about a revision that does not serve the Worker now and, if it is about a
    /// quarantine, did not serve recently.
    Outdated,
    /// The node is unknown, or does not belong to the pools of the caller and of the Worker.
    UnknownNode,
    /// The channel of reports is full.
    Full,
}

impl Outcome {
    /// Registers the counters of reports by outcome.
    ///
    /// # Errors
    /// Fails if the registry already has them.
    pub fn register(registry: &Registry) -> prometheus::Result<IntCounterVec> {
        registry.counters(
            "tenon_operator_worker_reports_total",
            "Nodes' reports about Workers' health, by outcome.",
            &["outcome"],
        )
    }

    /// Returns the value of the label in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::Outdated => "outdated",
            // The value is older than the variant's name. Recorded metrics have it.
            Self::UnknownNode => "stranger",
            Self::Full => "full",
        }
    }
}

/// The reason why a report is malformed. Tenon's nodes never send such a report.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum MalformedReport {
    #[error("the report is about {0} Workers, more than {MAX_WORKERS}")]
    TooLong(usize),
    #[error(transparent)]
    Worker(#[from] InvalidWorkerId),
    #[error(transparent)]
    Digest(#[from] InvalidDigest),
    #[error("unknown failure code")]
    Code,
    #[error("unknown cause of a quarantine")]
    Cause,
    #[error("the report contains no state of Worker {0}")]
    NoState(WorkerId),
}

/// The part of a report about one Worker.
pub(super) type Part = (WorkerId, RevisionDigest, WorkerHealth);

/// Parses a report into the node's name and the parts.
///
/// # Errors
/// Fails if any part is malformed: the other parts of such a report are not trusted either.
pub(super) fn parse(request: ReportRequest) -> Result<(String, Vec<Part>), MalformedReport> {
    if request.workers.len() > MAX_WORKERS {
        return Err(MalformedReport::TooLong(request.workers.len()));
    }
    let parts = request.workers.into_iter().map(part).collect::<Result<_, _>>()?;
    Ok((request.node, parts))
}

fn part(report: WorkerReport) -> Result<Part, MalformedReport> {
    let worker: WorkerId = report.worker.parse()?;
    let digest = RevisionDigest::try_from(&report.digest[..])?;
    let health = match report.state {
        Some(State::CrashLoop(reported)) => WorkerHealth::CrashLoop {
            code: FailureCode::from_name(&reported.code).ok_or(MalformedReport::Code)?,
            failures: reported.failures,
            age: Duration::from_secs(reported.for_seconds),
            place: reported.place.and_then(place),
        },
        Some(State::Recovered(_)) => WorkerHealth::Recovered,
        Some(State::Quarantined(reported)) => WorkerHealth::Quarantined {
            cause: cause(&reported)?,
            duration: Duration::from_millis(reported.duration_ms).min(LONGEST_QUARANTINE),
            times: reported.times.max(1),
        },
        None => return Err(MalformedReport::NoState(worker)),
    };
    Ok((worker, digest, health))
}

fn cause(reported: &catalog::Quarantined) -> Result<Cause, MalformedReport> {
    match reported.cause() {
        quarantined::Cause::Crashed => Ok(Cause::Crashed),
        quarantined::Cause::Hung => Ok(Cause::Hung),
        quarantined::Cause::Unspecified => Err(MalformedReport::Cause),
    }
}

/// Converts a position. The tenant or its source map chooses the file's name; a name that could be
/// read as a sentence is dropped, so that it never reaches a status.
fn place(reported: catalog::Place) -> Option<Place> {
    let catalog::Place { file, line, column } = reported;
    let is_blank = |character: char| character.is_whitespace() || character.is_control();
    (!file.is_empty() && file.len() <= MAX_FILE_NAME && !file.contains(is_blank)).then_some(Place {
        file,
        line,
        column,
    })
}

#[cfg(test)]
mod tests {
    use tenon_proto::catalog::{CrashLoop, Recovered};

    use super::*;

    fn report(worker: &str, digest: usize, state: Option<State>) -> ReportRequest {
        let report = WorkerReport { worker: worker.to_owned(), digest: vec![7; digest], state };
        ReportRequest { node: "node-a".to_owned(), workers: vec![report] }
    }

    fn crash_loop(code: &str) -> Option<State> {
        let place = catalog::Place { file: "src/cart.ts".to_owned(), line: 3, column: 14 };
        Some(State::CrashLoop(CrashLoop {
            code: code.to_owned(),
            failures: 3,
            for_seconds: 9,
            place: Some(place),
        }))
    }

    #[test]
    fn a_crash_loop_and_a_recovery_are_parsed() {
        let (node, parts) =
            parse(report("shop/cart", 32, crash_loop("memory_limit_exceeded"))).unwrap();
        let (code, age) = (FailureCode::MemoryLimitExceeded, Duration::from_secs(9));
        let place = Some(Place { file: "src/cart.ts".to_owned(), line: 3, column: 14 });
        let health = WorkerHealth::CrashLoop { code, failures: 3, age, place };
        let digest = RevisionDigest::new([7; 32]);
        assert_eq!(
            (node.as_str(), parts),
            ("node-a", vec![(WorkerId::new("shop", "cart"), digest, health)])
        );
        let (_, parts) =
            parse(report("shop/cart", 32, Some(State::Recovered(Recovered {})))).unwrap();
        assert_eq!(parts[0].2, WorkerHealth::Recovered);
    }

    #[test]
    fn a_quarantine_is_parsed_and_capped_at_a_day() {
        let quarantined = |cause: quarantined::Cause, duration_ms| {
            let reported = catalog::Quarantined { cause: cause.into(), duration_ms, times: 2 };
            parse(report("shop/cart", 32, Some(State::Quarantined(reported))))
                .map(|(_, parts)| parts[0].2.clone())
        };
        let health = |cause, duration| Ok(WorkerHealth::Quarantined { cause, duration, times: 2 });
        let (crashed, hung) = (quarantined::Cause::Crashed, quarantined::Cause::Hung);
        assert_eq!(quarantined(crashed, 20_000), health(Cause::Crashed, Duration::from_secs(20)));
        assert_eq!(quarantined(hung, u64::MAX), health(Cause::Hung, LONGEST_QUARANTINE));
        assert_eq!(quarantined(quarantined::Cause::Unspecified, 1), Err(MalformedReport::Cause));
    }

    #[test]
    fn text_that_is_not_a_file_name_gives_no_position() {
        let long = "x".repeat(MAX_FILE_NAME + 1);
        for file in ["", "call this number", "a\nb", "a\u{a0}b", "\u{1b}[2J", &long] {
            assert_eq!(
                place(catalog::Place { file: file.to_owned(), line: 1, column: 1 }),
                None,
                "{file:?}"
            );
        }
    }

    #[test]
    fn a_malformed_report_is_refused() {
        let loops = || crash_loop("worker_start_failed");
        assert!(matches!(parse(report("cart", 32, loops())), Err(MalformedReport::Worker(_))));
        assert!(matches!(parse(report("shop/cart", 31, loops())), Err(MalformedReport::Digest(_))));
        let lie = crash_loop("your cluster is on fire, call this number");
        assert_eq!(parse(report("shop/cart", 32, lie)), Err(MalformedReport::Code));
        assert!(matches!(parse(report("shop/cart", 32, None)), Err(MalformedReport::NoState(_))));
        let mut flood = report("shop/cart", 32, loops());
        flood.workers = vec![flood.workers[0].clone(); MAX_WORKERS + 1];
        assert_eq!(parse(flood), Err(MalformedReport::TooLong(MAX_WORKERS + 1)));
    }
}
