//! Profiles a Worker on a copy, in a lane, for `tenon profile`.
//!
//! ```text
//!  order ─► release the Worker's isolates ─► its next request starts the copy ─► record ─► report
//!              │                                                                    │
//!              └─ no request, no start, no memory ─► report why          release the copy
//! ```
//!
//! The supervisor decides which Worker is profiled, and orders every lane to profile it; the lane
//! in which a copy starts first takes the profile. Meanwhile, the supervisor's placement sends the
//! Worker's requests to lanes, and each shard asks the supervisor before every request of the
//! Worker ([`consult`]), even for a warm isolate, which the shard keeps for the time after the
//! profile.
//!
//! The copy is an isolate like any other: the Worker's limits apply, and its in-flight requests
//! finish after it has been released. Only its cost is not reported, because a fresh isolate that
//! is being profiled would count as heavy.
//!
//! - [`compressed`]: holds a profile compressed until the client has read it.
//!
//! [`consult`]: Shard::consult

mod compressed;

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use tenon_engine::Isolate;
use tenon_proto::failure::{Failure, FailureCode};
use tenon_proto::id::{RevisionDigest, WorkerId};
use tenon_proto::node::ProfileKind;
use tenon_proto::node::profile_part::Part;
use tenon_proto::node::report_profile_request::Report;
use tenon_proto::node::{Begun, ProfileComplete, ProfilePart};
use tenon_proto::revision::Revision;
use tokio::sync::oneshot;
use tokio::task::spawn_local;
use tokio::time::Instant;

use super::Shard;
use crate::child::{ProfileOrder, Supervisor};
use crate::memory::{self, Pressure};
use crate::profile::{MAX_SIZE, WAIT};
use compressed::{Compressor, TooLarge};

/// Interval at which the copy and the memory of the process are checked.
const CHECK: Duration = Duration::from_millis(100);

/// Memory that V8 takes for a heap snapshot, if the heap consists of small objects, in multiples of
/// the heap's size.
const SNAPSHOT_FACTOR: u64 = 3;

/// The profile that this process has been ordered to take.
pub(super) struct Profiling {
    id: u64,
    worker: WorkerId,
    kind: ProfileKind,
    copy: Option<Rc<Isolate>>,
    /// Takes the outcome of the first start of the Worker.
    copy_tx: Option<oneshot::Sender<Result<Copied, Failure>>>,
    /// Dropped when the profile is no longer wanted.
    _end_tx: oneshot::Sender<()>,
}

/// A copy that has started.
struct Copied {
    isolate: Rc<Isolate>,
    /// Name of the revision.
    revision: String,
}

/// The reason why there is no profile. Its text is for the client.
#[derive(Debug, thiserror::Error)]
enum ProfileError {
    #[error(
        "no request of {0} reached the node within {wait} s; send it requests while the command runs, or choose the node that gets them",
        wait = WAIT.as_secs()
    )]
    NoRequest(WorkerId),
    #[error("the copy of {0} could not start: {1}; try again once the Worker serves requests")]
    NotStarted(WorkerId, Failure),
    #[error(
        "the copy of {0} exceeded a limit and ended ({1}), and nothing is left to profile; raise the limit, or choose a shorter duration"
    )]
    Ended(WorkerId, FailureCode),
    #[error(
        "the lane ran out of memory for the profile, and abandoned it; raise the memory of the RuntimePool's nodes, or choose a shorter duration"
    )]
    MemoryShort,
    #[error(
        "the snapshot may need {needed_mib} MiB of memory, and the lane has {room_mib} MiB left; raise the memory of the RuntimePool's nodes, or try again when the node is less busy"
    )]
    NoRoom { room_mib: u64, needed_mib: u64 },
    #[error("the profile exceeds {} MiB; choose a shorter duration, or a smaller heap", MAX_SIZE >> 20)]
    TooLarge,
    /// The supervisor has ended the profile, and no client reads this.
    #[error("the profile has ended")]
    Unwanted,
}

impl From<TooLarge> for ProfileError {
    fn from(TooLarge: TooLarge) -> Self {
        Self::TooLarge
    }
}

impl Shard {
    /// Asks the supervisor before each request of this Worker from now on; with `None`, only before
    /// cold starts.
    pub(super) fn consult(&self, worker: Option<WorkerId>) {
        *self.consulted.borrow_mut() = worker;
    }

    /// Returns whether the shard must ask the supervisor before each request of the Worker.
    pub(super) fn consults(&self, worker: &str) -> bool {
        self.consulted.borrow().as_ref().is_some_and(|consulted| consulted.as_str() == worker)
    }

    /// Begins a profile, which replaces any earlier one.
    pub(super) fn begin_profile(self: &Rc<Self>, supervisor: Supervisor, order: ProfileOrder) {
        let ((copy_tx, copy_rx), (end_tx, end_rx)) = (oneshot::channel(), oneshot::channel());
        self.take_profiling(|_| true);
        let profiling = Profiling {
            id: order.id,
            worker: order.worker.clone(),
            kind: order.kind,
            copy: None,
            copy_tx: Some(copy_tx),
            _end_tx: end_tx,
        };
        *self.profiling.borrow_mut() = Some(profiling);
        // An isolate that is starting now becomes the copy.
        let warm = self.pool.borrow().revisions_of(&order.worker);
        warm.into_iter().for_each(|digest| self.release(digest, false));
        spawn_local(Rc::clone(self).profile(supervisor, order, copy_rx, end_rx));
    }

    /// Ends a profile whose result is no longer wanted.
    pub(super) fn end_profile(&self, id: u64) {
        self.take_profiling(|profiling| profiling.id == id);
    }

    /// Hands a newly started isolate to the profile that waits for a copy of its Worker, if there
    /// is one. Returns whether there is.
    pub(super) fn adopt(&self, isolate: &Rc<Isolate>, revision: &Revision) -> bool {
        let Some(copy_tx) = self.end_wait(&revision.worker) else { return false };
        if let Some(profiling) = &mut *self.profiling.borrow_mut() {
            // The profile begins before the copy's first request.
            if profiling.kind == ProfileKind::Cpu {
                isolate.begin_cpu_profile();
            }
            profiling.copy = Some(Rc::clone(isolate));
        }
        let copied = Copied { isolate: Rc::clone(isolate), revision: revision.name.clone() };
        // If the receiver has been dropped, the profile is ending.
        let _ = copy_tx.send(Ok(copied));
        true
    }

    /// Reports a start that failed to the profile that awaits it.
    pub(super) fn report_failed_copy(&self, worker: &WorkerId, failure: &Failure) {
        if let Some(copy_tx) = self.end_wait(worker) {
            let _ = copy_tx.send(Err(failure.clone()));
        }
    }

    /// Returns the sender for the outcome of the Worker's start, if the profile awaits a copy of
    /// the Worker.
    fn end_wait(&self, worker: &WorkerId) -> Option<oneshot::Sender<Result<Copied, Failure>>> {
        let mut profiling = self.profiling.borrow_mut();
        profiling.as_mut().filter(|profiling| profiling.worker == *worker)?.copy_tx.take()
    }

    /// Returns whether this revision runs on the copy that is being profiled.
    pub(super) fn profiles(&self, digest: &RevisionDigest) -> bool {
        let profiling = self.profiling.borrow();
        let copy = profiling.as_ref().and_then(|profiling| profiling.copy.as_ref());
        copy.is_some_and(|copy| copy.digest() == *digest)
    }

    /// Ends the profile that `is_match` selects, and releases its copy.
    fn take_profiling(&self, is_match: impl FnOnce(&Profiling) -> bool) {
        let ended = self.profiling.borrow_mut().take_if(|profiling| is_match(profiling));
        if let Some(copy) = ended.and_then(|profiling| profiling.copy) {
            copy.drop_cpu_profile();
            let is_copy = |isolate: &Rc<Isolate>| Rc::ptr_eq(isolate, &copy);
            if self.pool.borrow().holds(&copy.digest(), |resident| is_copy(&resident.isolate)) {
                self.release(copy.digest(), false);
            }
        }
    }

    /// Records a profile and reports it, until it is no longer wanted.
    async fn profile(
        self: Rc<Self>,
        supervisor: Supervisor,
        order: ProfileOrder,
        copy_rx: oneshot::Receiver<Result<Copied, Failure>>,
        end_rx: oneshot::Receiver<()>,
    ) {
        let id = order.id;
        let recorded = tokio::select! {
            recorded = record(&supervisor, order, copy_rx) => recorded,
            _ = end_rx => return,
        };
        self.end_profile(id);
        let reports = match recorded {
            Ok(pieces) => {
                let pieces = pieces.into_iter().map(|piece| report(Part::Piece(piece)));
                pieces.chain([Report::Complete(ProfileComplete {})]).collect()
            }
            Err(error) => vec![Report::Failed(error.to_string())],
        };
        for report in reports {
            if let Err(status) = supervisor.report_profile(id, report).await {
                tracing::debug!(%status, "the rest of a profile is not wanted");
                return;
            }
        }
    }
}

fn report(part: Part) -> Report {
    Report::Part(ProfilePart { part: Some(part) })
}

/// Waits for the copy, records its profile, and returns the compressed pieces.
async fn record(
    supervisor: &Supervisor,
    order: ProfileOrder,
    copy_rx: oneshot::Receiver<Result<Copied, Failure>>,
) -> Result<Vec<Bytes>, ProfileError> {
    let ProfileOrder { id, worker, kind, duration } = order;
    let Copied { isolate, revision } = match tokio::time::timeout(WAIT, copy_rx).await {
        Ok(Ok(Ok(copied))) => copied,
        Ok(Ok(Err(failure))) => return Err(ProfileError::NotStarted(worker, failure)),
        Ok(Err(_)) => return Err(ProfileError::Unwanted),
        Err(_) => return Err(ProfileError::NoRequest(worker)),
    };
    let end = Instant::now() + duration;
    let begun = report(Part::Begun(Begun { revision }));
    supervisor.report_profile(id, begun).await.map_err(|_| ProfileError::Unwanted)?;
    // An isolate that is stopped by its CPU limit has a profile, which shows what took the time.
    while Instant::now() < end && isolate.condemned().is_none() {
        if memory::on_this_process() == Pressure::Critical {
            return Err(ProfileError::MemoryShort);
        }
        tokio::time::sleep_until(end.min(Instant::now() + CHECK)).await;
    }
    let ended = || {
        let code = isolate.condemned().unwrap_or(FailureCode::MemoryLimitExceeded);
        ProfileError::Ended(worker.clone(), code)
    };
    let mut compressor = Compressor::new();
    if kind == ProfileKind::Heap {
        let needed = (isolate.memory_bytes() as u64).saturating_mul(SNAPSHOT_FACTOR);
        let room = memory::room();
        if room < needed {
            let [room_mib, needed_mib] = [room, needed].map(|bytes| bytes >> 20);
            return Err(ProfileError::NoRoom { room_mib, needed_mib });
        }
        let mut outcome = Ok(());
        let taken = isolate.heap_snapshot(|piece| {
            outcome = compressor.write(piece);
            outcome.is_ok()
        });
        if !taken {
            return Err(ended());
        }
        outcome?;
    } else {
        compressor.write(isolate.end_cpu_profile().ok_or_else(ended)?.as_bytes())?;
    }
    Ok(compressor.finish()?)
}
