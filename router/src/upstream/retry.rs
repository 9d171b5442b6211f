//! Decides whether a failed attempt may be repeated elsewhere.
//!
//! | failure | may the request have run? | reaction |
//! | --- | --- | --- |
//! | no connection; never sent; the node refused the stream | no | repeat, outside the budget |
//! | the node reports that it drains | no | repeat, outside the budget |
//! | the node reports that it is overloaded, or lacks the code | no | repeat, within the budget |
//! | the shard already has its share of this thread's requests | no | repeat, within the budget |
//! | the process was lost on the way | yes | repeat (*), in a lane, preferably of its node |
//! | after that, its whole node was lost | yes | repeat (*), in a lane of another node |
//! | the shard is silent ([`silence`](super::silence)) | yes | repeat (*), in another node's lane |
//! | after that, the lane was lost | yes | repeat (*), in a lane of the same node |
//! | anything else, including a revision in quarantine | yes | return it to the caller |
//!
//! (*) Once, within the budget, and only if the method is idempotent.
//!
//! Redirects between the processes of a node ("moved") are not retries:
//! [`placement`](super::placement) bounds them. A request that may have ended its shard is repeated
//! in a lane, so that the same request ends no second shard. A lane of the same node comes first,
//! because the supervisor of that node knows which revision was running, and refuses this revision.
//! Requests for other Workers, which were lost with the same process and are repeated in the same
//! lane, therefore do not meet the revision again. Requests that leave a silent shard go to a node
//! that does not know the revision yet. If a lane is lost on that node, the revision may have come
//! with these requests, so they are repeated on the same node, which then knows the revision. A
//! request is repeated only while its body can be sent once more. The budget keeps retries from
//! doubling the load of overloaded nodes; repeats that cost no node any work do not use the budget.
//!
//! This module is pure.

mod budget;

use std::time::Instant;

use http::Method;
use tenon_proto::failure::{Failure, FailureCode, Phase};

use crate::upstream::health::ConnectFailure;

pub(crate) use budget::Budget;

/// The maximum number of attempts that reach a node, per request.
const MAX_ATTEMPTS: u32 = 3;

/// The number of processes that a request may lose and still be repeated: if the request ended
/// them, it cannot end a third.
const MAX_LOST: u32 = 1;

/// The number of nodes that a request may lose and still be repeated: no request ends all processes
/// of a node.
const MAX_NODES_LOST: u32 = 1;

/// The maximum number of attempts that reach no node. Such attempts cost little, but must end.
const MAX_UNREACHABLE: u32 = 16;

/// The reason why an attempt has no reply.
#[derive(Debug)]
pub(crate) enum AttemptError {
    /// There is no connection to the shard.
    Unreachable(ConnectFailure),
    /// The shard has its maximum of this thread's requests.
    Full,
    /// The request was not sent, or the node has reported that it did not process the request.
    NotBegun,
    /// The node returned a failure.
    Failed(Failure),
    /// The connection or the stream broke, and the progress of the request is unknown.
    Lost,
    /// The request was lost twice on one node, and no other process of the node answers.
    NodeLost,
    /// The shard is silent, and the request has left it.
    Unresponsive {
        /// Whether the request had been sent.
        sent: bool,
    },
    /// No reply arrived by the deadline.
    Silent,
    /// The request's own body failed.
    Upload(Failure),
    /// The node's response violates the protocol.
    ProtocolViolation(String),
}

impl AttemptError {
    /// Returns the label for metrics.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "unreachable",
            Self::Full => FailureCode::Overloaded.as_str(),
            Self::NotBegun => "not_begun",
            Self::Failed(failure) => failure.code.as_str(),
            Self::Lost | Self::NodeLost => "node_lost",
            Self::Unresponsive { .. } => "unresponsive",
            Self::Silent => "silent",
            Self::Upload(_) => "upload",
            Self::ProtocolViolation(_) => "protocol_violation",
        }
    }

    /// Returns the failure for the caller, if the request is not repeated.
    pub(crate) fn into_failure(self) -> Failure {
        let failure = |code, phase, message: &str| Failure::new(code, phase, message);
        match self {
            Self::Unreachable(_) | Self::NotBegun | Self::Unresponsive { sent: false } => failure(
                FailureCode::NoNode,
                Phase::Admission,
                "no node that can run the Worker is reachable",
            ),
            Self::Full => {
                let message =
                    "the Worker's shard has its maximum of requests from this router; retry later";
                failure(FailureCode::Overloaded, Phase::Admission, message)
            }
            // "moved" is internal to routers and nodes.
            Self::Failed(Failure { code: FailureCode::Moved, .. }) => failure(
                FailureCode::NoNode,
                Phase::Admission,
                "no process of the node runs the Worker",
            ),
            Self::Failed(failure) | Self::Upload(failure) => failure,
            Self::Lost | Self::NodeLost | Self::Unresponsive { sent: true } => failure(
                FailureCode::NodeLost,
                Phase::Handler,
                "the node was lost while it ran the invocation",
            ),
            Self::Silent => failure(
                FailureCode::WallLimitExceeded,
                Phase::Handler,
                "the Worker did not respond within its wall limit",
            ),
            Self::ProtocolViolation(what) => {
                tracing::error!(%what, "a node's response violates the protocol");
                failure(
                    FailureCode::Internal,
                    Phase::Handler,
                    "the node's response violates the protocol",
                )
            }
        }
    }

    /// Returns whether the request may have ended its shard, or may be blocking it.
    pub(crate) fn may_be_caused_by_request(&self) -> bool {
        matches!(self, Self::Lost | Self::NodeLost | Self::Unresponsive { sent: true })
    }

    /// Returns whether the node reports that another of its processes runs the Worker.
    pub(crate) fn is_moved(&self) -> bool {
        matches!(
            self,
            Self::Failed(Failure { code: FailureCode::Moved, phase: Phase::Admission, .. })
        )
    }
}

/// Whether a request that may have run already can be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idempotency {
    /// The request is idempotent.
    Idempotent,
    NonIdempotent,
}

impl Idempotency {
    pub(crate) fn of(method: &Method) -> Self {
        // RFC 9110, section 9.2.2. Unknown methods may have any effect.
        if method.is_idempotent() { Self::Idempotent } else { Self::NonIdempotent }
    }
}

/// The attempts of one request so far.
#[derive(Debug)]
pub(crate) struct Attempts {
    idempotency: Idempotency,
    /// The number of failed attempts that `unreachable` does not count.
    reached: u32,
    /// The number of attempts whose shard could not be connected to, or was silent before the
    /// request was sent.
    unreachable: u32,
    /// The number of [`AttemptError::Lost`].
    lost: u32,
    /// The number of [`AttemptError::NodeLost`].
    nodes_lost: u32,
    /// Whether the request has left a silent shard.
    has_left: bool,
}

impl Attempts {
    pub(crate) fn new(idempotency: Idempotency) -> Self {
        Self { idempotency, reached: 0, unreachable: 0, lost: 0, nodes_lost: 0, has_left: false }
    }

    /// Returns whether the request may be repeated after this loss only if the whole node is lost.
    pub(crate) fn depends_on_node(&self, error: &AttemptError) -> bool {
        matches!(error, AttemptError::Lost)
            && self.idempotency == Idempotency::Idempotent
            && self.lost == MAX_LOST
    }

    /// Returns whether the request may be repeated after this error, according to the request's
    /// method and the number of previous losses.
    pub(crate) fn may_be_repeated(&self, after: &AttemptError) -> bool {
        match after {
            AttemptError::Lost => {
                self.idempotency == Idempotency::Idempotent && self.lost < MAX_LOST
            }
            AttemptError::Unresponsive { sent: true } => {
                self.idempotency == Idempotency::Idempotent
                    && self.lost < MAX_LOST
                    && !self.has_left
            }
            _ => true,
        }
    }

    /// Returns whether the request may be repeated after this error, and counts the attempt.
    ///
    /// # Arguments
    /// * `replayable` - whether the request's body can be sent once more.
    pub(crate) fn may_go_on(
        &mut self,
        after: &AttemptError,
        replayable: bool,
        budget: &mut Budget,
        now: Instant,
    ) -> bool {
        match after {
            AttemptError::Unreachable(_) | AttemptError::Unresponsive { sent: false } => {
                self.unreachable += 1
            }
            _ => self.reached += 1,
        }
        let (safe, free) = match after {
            AttemptError::Unreachable(_)
            | AttemptError::NotBegun
            | AttemptError::Unresponsive { sent: false } => (true, true),
            AttemptError::Full => (true, false),
            // No process of the node runs the Worker.
            moved if moved.is_moved() => (true, true),
            AttemptError::Failed(failure) => {
                (failure.may_retry_elsewhere(), failure.code == FailureCode::Draining)
            }
            AttemptError::Lost | AttemptError::Unresponsive { sent: true } => {
                let again = self.may_be_repeated(after);
                match after {
                    AttemptError::Lost => self.lost += 1,
                    _ => self.has_left = true,
                }
                (again, false)
            }
            AttemptError::NodeLost => {
                self.nodes_lost += 1;
                (
                    self.idempotency == Idempotency::Idempotent
                        && self.nodes_lost <= MAX_NODES_LOST,
                    false,
                )
            }
            AttemptError::Silent | AttemptError::Upload(_) | AttemptError::ProtocolViolation(_) => {
                (false, false)
            }
        };
        safe && replayable
            && self.reached < MAX_ATTEMPTS
            && self.unreachable < MAX_UNREACHABLE
            && (free || budget.take(now))
    }
}

#[cfg(test)]
mod tests;
