//! Forwards an invocation that has been matched and admitted. The invocation comes from a client,
//! or through the internal listener from a node or the operator.
//!
//! ```text
//!  pick ─► attempt ─► reply
//!   ▲ ▲       │
//!   │ └ moved ┤        the node runs the Worker on another of its processes
//!   └─ retry ◄┘        another process may succeed
//! ```

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tenon_clients::quota::Peer;
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_table::{Table, Worker};

use crate::trace::Trace;
use crate::upstream::Upstream;
use crate::upstream::exchange::{self, Reply};
use crate::upstream::heads::{Head, Heads};
use crate::upstream::health::ConnectFailure;
use crate::upstream::pick::{Picker, Preference, Target};
use crate::upstream::placement::{Move, Moves};
pub(crate) use crate::upstream::retry::Idempotency;
use crate::upstream::retry::{AttemptError, Attempts};
use crate::upstream::silence;
use crate::upstream::upload::Upload;

/// The time for which the router waits beyond the Worker's wall limit, which the node enforces.
/// This time covers a cold start.
const SLACK: Duration = Duration::from_secs(2);

/// The time without a reply after which the router watches the shard for silence. This time is
/// shorter than the time that the detection of silence takes.
const WATCH_AFTER: Duration = Duration::from_secs(1);

/// The request for a Worker, and the address that sends it.
pub(crate) struct Call<'a> {
    /// The client address whose share of a shard the request takes.
    pub(crate) peer: Peer,
    pub(crate) head: &'a dyn Head,
    pub(crate) upload: Option<&'a Rc<Upload>>,
    pub(crate) idempotency: Idempotency,
}

/// Forwards a call to a shard, with retries, and returns its reply.
///
/// # Errors
/// Fails if no node accepts the request, or if the node that accepted the request fails.
pub(crate) async fn forward(
    upstream: &Upstream,
    view: &Table,
    worker: &Worker,
    call: Call<'_>,
    trace: &mut Trace,
) -> Result<Reply, Failure> {
    let measured = upstream.figures.begin(worker);
    let result = forward_with_retries(upstream, view, worker, call, trace).await;
    if let Some(measured) = measured {
        let status = result.as_ref().map(|reply| reply.head.status);
        measured.end(status.map_err(|failure| failure.code));
    }
    result
}

async fn forward_with_retries(
    upstream: &Upstream,
    view: &Table,
    worker: &Worker,
    call: Call<'_>,
    trace: &mut Trace,
) -> Result<Reply, Failure> {
    let Call { peer, head, upload, idempotency } = call;
    let began = tokio::time::Instant::now();
    upstream.budget.borrow_mut().count_request(began.into_std());
    let pool = view.pool(&worker.pool).ok_or_else(no_node)?;
    let timeout = worker.wall + SLACK;
    let heads = Heads::new(head);
    let mut forwarding = Forwarding {
        upstream,
        view,
        worker,
        peer,
        upload,
        timeout,
        deadline: began + timeout,
        heads: &heads,
        picker: Picker::new(upstream, pool, worker, view.nodes_version()),
        attempts: Attempts::new(idempotency),
        moves: Moves::default(),
        stays: false,
    };
    let mut target = forwarding.picker.next(Preference::Placement).ok_or_else(no_node)?;
    loop {
        trace.record_attempt(target.link.shard());
        let next = match forwarding.attempt(&target).await {
            Ok(reply) => {
                trace.record_answer(target.link.shard(), &reply.head);
                if let Some(upload) = upload {
                    upload.settle();
                }
                forwarding.record_heat(&target, reply.head.is_hot);
                return Ok(reply);
            }
            Err(Ended::Left(next)) => next,
            Err(Ended::Failed(error)) => {
                trace.record_failed_shard(target.link.shard());
                let error = forwarding.examine(&target, error).await;
                match forwarding.next_after(&target, &error) {
                    Some(next) => next,
                    None => return Err(error.into_failure()),
                }
            }
        };
        target = next;
    }
}

/// The state of one request on its way to a shard.
struct Forwarding<'a> {
    upstream: &'a Upstream,
    view: &'a Table,
    worker: &'a Worker,
    peer: Peer,
    upload: Option<&'a Rc<Upload>>,
    timeout: Duration,
    deadline: tokio::time::Instant,
    heads: &'a Heads<'a>,
    picker: Picker<'a>,
    attempts: Attempts,
    moves: Moves,
    /// Whether a lane that receives the request must run it.
    stays: bool,
}

/// The way in which an attempt ended without a reply.
enum Ended {
    Failed(AttemptError),
    /// The request has left a silent shard for this target.
    Left(Target),
}

impl Forwarding<'_> {
    async fn attempt(&mut self, target: &Target) -> Result<Reply, Ended> {
        let sent = Cell::new(false);
        let stays = target.stays || self.stays && target.is_lane();
        let mut exchange = pin!(exchange::invoke(
            &target.link,
            self.peer,
            self.heads,
            stays,
            self.upload,
            self.timeout,
            &sent
        ));
        // Nearly every response arrives before `watch_from`.
        let watch_from = self.deadline.min(tokio::time::Instant::now() + WATCH_AFTER);
        if let Ok(ended) = tokio::time::timeout_at(watch_from, exchange.as_mut()).await {
            return ended.map_err(Ended::Failed);
        }
        let mut may_leave = true;
        loop {
            tokio::select! {
                biased;
                ended = exchange.as_mut() => return ended.map_err(Ended::Failed),
                () = tokio::time::sleep_until(self.deadline) => {
                    return Err(Ended::Failed(self.deadline_error(sent.get())));
                }
                () = silence::until_lost(&self.upstream.links, self.view, target),
                    if may_leave => {}
            }
            if let Some(next) = self.leave(target, sent.get()) {
                return Err(Ended::Left(next));
            }
            may_leave = false;
        }
    }

    /// Records whether the Worker needs more shards than it has.
    fn record_heat(&self, target: &Target, is_hot: bool) {
        let mut spread = self.upstream.spread.borrow_mut();
        // Nearly always, no Worker is hot.
        if (is_hot || !spread.is_empty()) && !self.worker.is_strict {
            let slots = self.picker.slots();
            spread.record(self.worker.key, target.rank, is_hot, slots, Instant::now());
        }
    }

    /// Returns the error for a deadline that has passed without a reply.
    fn deadline_error(&self, sent: bool) -> AttemptError {
        // A failed body also breaks the stream, and is then the cause of the error.
        let body = self.upload.and_then(|upload| upload.failure()).map(AttemptError::Upload);
        body.unwrap_or(if sent {
            AttemptError::Silent
        } else {
            AttemptError::Unreachable(ConnectFailure::Silent)
        })
    }

    /// Returns the next target after a silent shard, if the request may be repeated and there is
    /// another target.
    fn leave(&mut self, from: &Target, sent: bool) -> Option<Target> {
        let lost_another =
            sent && from.is_lane() && self.depends_on_node(from, &AttemptError::Lost);
        let error =
            if lost_another { AttemptError::NodeLost } else { AttemptError::Unresponsive { sent } };
        if !self.attempts.may_be_repeated(&error) {
            return None;
        }
        self.picker.record_failure(from, &error);
        let next = self.picker.next_sound(self.preference(&error))?;
        self.may_go_on(&error).then(|| self.retry_on(&error, next))
    }

    /// Converts a request's second loss on one node into the loss of that node, unless another
    /// process of the node answers. If none answers, the node itself is lost, because the processes
    /// of a node that is not lost do not all end at the same time.
    async fn examine(&self, target: &Target, error: AttemptError) -> AttemptError {
        let node_answers =
            async || silence::node_answers(&self.upstream.links, self.view, &target.link).await;
        if self.depends_on_node(target, &error) && !node_answers().await {
            AttemptError::NodeLost
        } else {
            error
        }
    }

    /// Returns whether the request may be repeated after this error only if the whole node is lost.
    fn depends_on_node(&self, target: &Target, error: &AttemptError) -> bool {
        self.attempts.depends_on_node(error) && self.picker.has_lost_another(target)
    }

    /// Returns the next target after an error, if there is one.
    fn next_after(&mut self, target: &Target, error: &AttemptError) -> Option<Target> {
        if error.is_moved()
            && self.is_replayable()
            && let Some(to) = self.moves.follow(target.is_lane())
        {
            return self.follow(target, to);
        }
        self.picker.record_failure(target, error);
        if !self.may_go_on(error) {
            return None;
        }
        let preference = self.preference(error);
        let next = match error {
            // The other processes of that node are not tried.
            AttemptError::NodeLost => self.picker.next_sound(preference),
            _ => self.picker.next(preference),
        };
        next.map(|next| self.retry_on(error, next))
    }

    /// Remembers where the Worker runs according to the node, and returns a target there. A
    /// redirect is neither an attempt nor a retry, because nothing has begun.
    fn follow(&mut self, target: &Target, to: Move) -> Option<Target> {
        let (mut placements, now) = (self.upstream.placements.borrow_mut(), Instant::now());
        match target.is_lane() {
            true => placements.moved_to_shard(&self.worker.digest, now),
            false => placements.moved_to_lane(&self.worker.digest, now),
        }
        drop(placements);
        self.upstream.metrics.count_move(to);
        self.stays |= to == Move::Stay;
        self.picker.redirected(target, to)
    }

    /// Returns whether the request may be repeated after this error, and counts the attempt.
    fn may_go_on(&mut self, after: &AttemptError) -> bool {
        let replayable = self.is_replayable();
        let budget = &mut self.upstream.budget.borrow_mut();
        tokio::time::Instant::now() < self.deadline
            && self.attempts.may_go_on(after, replayable, budget, Instant::now())
    }

    /// Records a retry, and returns its target.
    fn retry_on(&mut self, after: &AttemptError, next: Target) -> Target {
        self.upstream.metrics.count_retry(after.reason());
        self.stays |= after.may_be_caused_by_request();
        next
    }

    /// Returns the preferred kind of the next target. A request that may have ended a shard goes to
    /// a lane, so that it does not end a second shard.
    fn preference(&self, after: &AttemptError) -> Preference {
        if self.stays || after.may_be_caused_by_request() {
            Preference::Lane
        } else {
            Preference::Placement
        }
    }

    fn is_replayable(&self) -> bool {
        self.upload.is_none_or(|upload| upload.is_replayable())
    }
}

fn no_node() -> Failure {
    Failure::new(
        FailureCode::NoNode,
        Phase::Admission,
        "no node that can run the Worker is reachable",
    )
}
