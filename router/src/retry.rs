//! Whether a failed attempt may be made again elsewhere.
//!
//! | what happened | may the request have run? | so |
//! | --- | --- | --- |
//! | no connection; never sent; the node refused the stream | no | again, for free |
//! | the node says that it drains | no | again, for free |
//! | the node says that it is overloaded, or cannot get the code | no | again, within the budget |
//! | the node was lost on the way | yes | again within the budget if the method is idempotent |
//! | anything else | yes | the caller's answer |
//!
//! And only while the request's body can be sent once more. The budget keeps retries from doubling the load of
//! nodes that suffer from it already; what costs no node any work is not part of it.
//!
//! Pure.

use std::time::{Duration, Instant};

use http::Method;
use tenon_proto::failure::{Failure, FailureCode, Phase};

/// Attempts that reach a node, per request.
const MAX_ATTEMPTS: u32 = 3;

/// Attempts that reach none cost next to nothing, but end somewhere.
const MAX_UNREACHABLE: u32 = 16;

/// Of the requests of the last one to two windows, this share may be retries, plus the floor.
const BUDGET_SHARE: f64 = 0.2;
const BUDGET_FLOOR: f64 = 256.0;
const BUDGET_WINDOW: Duration = Duration::from_secs(5);

/// Why an attempt has no reply.
#[derive(Debug)]
pub(crate) enum Mishap {
    /// There is no connection to the shard.
    Unreachable,
    /// The request was not sent, or the node has told that it did not look at it.
    NotBegun,
    /// The node said what went wrong.
    Said(Failure),
    /// The connection or the stream broke, and nobody knows how far it had come.
    Lost,
    /// Nothing came by the deadline.
    Silent,
    /// It is the request's own body that failed.
    Upload(Failure),
    /// The node's answer makes no sense.
    Nonsense(String),
}

impl Mishap {
    /// For metrics.
    fn reason(&self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::NotBegun => "not_begun",
            Self::Said(failure) => failure.code.as_str(),
            Self::Lost => "node_lost",
            Self::Silent => "silent",
            Self::Upload(_) => "upload",
            Self::Nonsense(_) => "nonsense",
        }
    }

    /// What to tell the caller when nothing else can be done.
    fn into_failure(self) -> Failure {
        let failure = |code, phase, message: &str| Failure::new(code, phase, message);
        match self {
            Self::Unreachable | Self::NotBegun => {
                failure(FailureCode::NoNode, Phase::Admission, "No node that could run the Worker can be reached.")
            }
            Self::Said(failure) | Self::Upload(failure) => failure,
            Self::Lost => {
                failure(FailureCode::NodeLost, Phase::Handler, "The node went away while it ran the invocation.")
            }
            Self::Silent => {
                failure(FailureCode::WallLimitExceeded, Phase::Handler, "The Worker did not answer in time.")
            }
            Self::Nonsense(what) => {
                tracing::error!(%what, "a node's answer makes no sense");
                failure(FailureCode::Internal, Phase::Handler, "The node's answer makes no sense.")
            }
        }
    }
}

#[derive(Debug, PartialEq)]
pub(crate) enum Verdict {
    /// Try the next candidate. Why, for metrics.
    Again(&'static str),
    Fail(Failure),
}

/// One request's attempts so far.
#[derive(Debug)]
pub(crate) struct Attempts {
    idempotent: bool,
    reached: u32,
    unreachable: u32,
}

impl Attempts {
    pub(crate) fn new(method: &Method) -> Self {
        // RFC 9110, section 9.2.2. Methods we do not know may do anything.
        Self { idempotent: method.is_idempotent(), reached: 0, unreachable: 0 }
    }

    /// What becomes of the request after this mishap.
    ///
    /// # Arguments
    /// `replayable` tells whether its body can be sent once more.
    pub(crate) fn after(&mut self, mishap: Mishap, replayable: bool, budget: &mut Budget, now: Instant) -> Verdict {
        match mishap {
            Mishap::Unreachable => self.unreachable += 1,
            _ => self.reached += 1,
        }
        let (safe, free) = match &mishap {
            Mishap::Unreachable | Mishap::NotBegun => (true, true),
            Mishap::Said(failure) => (failure.may_retry_elsewhere(), failure.code == FailureCode::Draining),
            Mishap::Lost => (self.idempotent, false),
            Mishap::Silent | Mishap::Upload(_) | Mishap::Nonsense(_) => (false, false),
        };
        let again = safe
            && replayable
            && self.reached < MAX_ATTEMPTS
            && self.unreachable < MAX_UNREACHABLE
            && (free || budget.take(now));
        if again { Verdict::Again(mishap.reason()) } else { Verdict::Fail(mishap.into_failure()) }
    }
}

/// How many retries a thread has left.
#[derive(Debug)]
pub(crate) struct Budget {
    began: Instant,
    current: Window,
    last: Window,
}

#[derive(Clone, Copy, Debug, Default)]
struct Window {
    requests: u64,
    retries: u64,
}

impl Budget {
    pub(crate) fn new(now: Instant) -> Self {
        Self { began: now, current: Window::default(), last: Window::default() }
    }

    /// Counts a request.
    pub(crate) fn request(&mut self, now: Instant) {
        self.turn(now);
        self.current.requests += 1;
    }

    /// Takes a retry, if there is one left.
    fn take(&mut self, now: Instant) -> bool {
        self.turn(now);
        let requests = (self.current.requests + self.last.requests) as f64;
        let retries = (self.current.retries + self.last.retries) as f64;
        let left = retries < BUDGET_FLOOR + BUDGET_SHARE * requests;
        self.current.retries += u64::from(left);
        left
    }

    fn turn(&mut self, now: Instant) {
        let age = now.saturating_duration_since(self.began);
        if age >= BUDGET_WINDOW {
            self.last = if age < 2 * BUDGET_WINDOW { self.current } else { Window::default() };
            self.current = Window::default();
            self.began = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(mishap: Mishap, method: Method, replayable: bool) -> Verdict {
        let now = Instant::now();
        Attempts::new(&method).after(mishap, replayable, &mut Budget::new(now), now)
    }

    fn said(code: FailureCode) -> Mishap {
        Mishap::Said(Failure::new(code, Phase::Admission, ""))
    }

    fn code(verdict: Verdict) -> FailureCode {
        match verdict {
            Verdict::Fail(failure) => failure.code,
            Verdict::Again(reason) => panic!("again: {reason}"),
        }
    }

    #[test]
    fn what_has_not_begun_is_tried_elsewhere_whatever_the_method() {
        assert_eq!(after(Mishap::Unreachable, Method::POST, true), Verdict::Again("unreachable"));
        assert_eq!(after(Mishap::NotBegun, Method::POST, true), Verdict::Again("not_begun"));
        assert_eq!(after(said(FailureCode::Draining), Method::POST, true), Verdict::Again("draining"));
        assert_eq!(after(said(FailureCode::Overloaded), Method::POST, true), Verdict::Again("overloaded"));
    }

    #[test]
    fn what_may_have_run_is_tried_again_only_if_it_is_idempotent() {
        assert_eq!(after(Mishap::Lost, Method::GET, true), Verdict::Again("node_lost"));
        assert_eq!(after(Mishap::Lost, Method::PUT, true), Verdict::Again("node_lost"));
        assert_eq!(code(after(Mishap::Lost, Method::POST, true)), FailureCode::NodeLost);
        assert_eq!(code(after(Mishap::Lost, Method::PATCH, true)), FailureCode::NodeLost);
    }

    #[test]
    fn a_body_that_is_gone_cannot_be_sent_again() {
        assert_eq!(code(after(Mishap::NotBegun, Method::GET, false)), FailureCode::NoNode);
        assert_eq!(code(after(said(FailureCode::Draining), Method::GET, false)), FailureCode::Draining);
    }

    #[test]
    fn the_workers_own_failures_are_the_answer() {
        for code_ in [FailureCode::WorkerException, FailureCode::CpuLimitExceeded, FailureCode::NoResponse] {
            assert_eq!(code(after(said(code_), Method::GET, true)), code_);
        }
        assert_eq!(code(after(Mishap::Silent, Method::GET, true)), FailureCode::WallLimitExceeded);
    }

    #[test]
    fn the_third_attempt_is_the_last() {
        let now = Instant::now();
        let (mut attempts, mut budget) = (Attempts::new(&Method::GET), Budget::new(now));
        assert!(matches!(attempts.after(Mishap::Lost, true, &mut budget, now), Verdict::Again(_)));
        assert!(matches!(attempts.after(Mishap::Unreachable, true, &mut budget, now), Verdict::Again(_)));
        assert!(matches!(attempts.after(Mishap::Lost, true, &mut budget, now), Verdict::Again(_)));
        assert_eq!(code(attempts.after(Mishap::Lost, true, &mut budget, now)), FailureCode::NodeLost);
    }

    #[test]
    fn the_budget_is_a_share_of_recent_requests_and_a_floor() {
        let now = Instant::now();
        let mut budget = Budget::new(now);
        (0..1000).for_each(|_| budget.request(now));
        let taken = |budget: &mut Budget, now| (0..10_000).take_while(|_| budget.take(now)).count();
        assert_eq!(taken(&mut budget, now), 256 + 200);
        assert_eq!(taken(&mut budget, now + BUDGET_WINDOW), 0, "the last window still counts");
        assert_eq!(taken(&mut budget, now + 3 * BUDGET_WINDOW), 256);
    }
}
