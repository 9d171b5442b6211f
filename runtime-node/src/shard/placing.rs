//! Asks the supervisor whether a revision may run on this shard, and acts on the reply.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

use futures::FutureExt as _;
use futures::future::{LocalBoxFuture, Shared};
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::id::RevisionDigest;
use tokio::task::spawn_local;

use super::admitted::AdmissionRequest;
use super::{Shard, start_panicked};
use crate::child::{Delivery, PlacementReply, Supervisor};
use crate::upkeep;

/// The supervisor's reply, shared by all requests that wait for it. The first request to resume
/// takes the code.
pub(super) type Placing =
    Shared<LocalBoxFuture<'static, Result<Rc<Cell<Option<Delivery>>>, Failure>>>;

impl Shard {
    /// Asks the supervisor whether the revision may run on this shard and, if the pool has room,
    /// requests the revision's code. Concurrent requests for one revision with the same `stay`
    /// share one reply; the first of these requests to resume takes the code.
    ///
    /// # Errors
    /// Fails with [`FailureCode::Moved`] if the revision runs elsewhere on this node, and with
    /// [`FailureCode::WorkerQuarantined`] if it is quarantined. Otherwise fails as
    /// [`Supervisor::place`] does.
    pub(super) async fn place(
        self: &Rc<Self>,
        supervisor: &Supervisor,
        request: &AdmissionRequest,
    ) -> Result<Option<Delivery>, Failure> {
        self.ensure_not_refused(&request.digest)?;
        let key = (request.digest, request.stay);
        let begin = || {
            let (shard, supervisor, worker) =
                (Rc::clone(self), supervisor.clone(), request.worker.clone());
            let send = self.has_room(request);
            // The call runs as its own task, so that the entry is removed even if every waiting
            // request is canceled.
            let placing = spawn_local(async move {
                let (digest, stay) = key;
                let reply = supervisor.place(&worker, &digest, stay, send).await;
                shard.placing.borrow_mut().remove(&key);
                reply
                    .and_then(|reply| shard.accept_reply(digest, reply))
                    .map(|delivery| Rc::new(Cell::new(delivery)))
            });
            placing
                .map(|ended| ended.unwrap_or_else(|_| Err(start_panicked())))
                .boxed_local()
                .shared()
        };
        let placing = self.placing.borrow_mut().entry(key).or_insert_with(begin).clone();
        placing.await.map(|delivery| delivery.take())
    }

    /// Asks the supervisor whether a revision that is warm on this shard may continue to run. This
    /// is called for a request that may have ended another process.
    ///
    /// # Errors
    /// Fails as [`Self::place`] does.
    pub(super) async fn place_running(
        &self,
        supervisor: &Supervisor,
        request: &AdmissionRequest,
    ) -> Result<(), Failure> {
        self.ensure_not_refused(&request.digest)?;
        let reply = supervisor.place(&request.worker, &request.digest, true, false).await?;
        self.accept_reply(request.digest, reply).map(drop)
    }

    fn ensure_not_refused(&self, digest: &RevisionDigest) -> Result<(), Failure> {
        if self.quarantines.borrow_mut().has(digest, Instant::now()) {
            Err(quarantine_failure())
        } else {
            Ok(())
        }
    }

    /// Returns whether neither the pool nor memory pressure would refuse a start of the requested
    /// revision.
    fn has_room(&self, request: &AdmissionRequest) -> bool {
        let (namespace, share) = (request.tenant.namespace(), request.tenant.share());
        let pool = self.pool.borrow();
        upkeep::admits_start(self.pressure(), pool.can_evict())
            && pool.has_room(&request.digest, namespace, share, Instant::now())
    }

    /// Converts the supervisor's reply, and remembers a quarantine. Returns the revision's code if
    /// the code was requested, or a failure if the supervisor refused the revision.
    fn accept_reply(
        &self,
        digest: RevisionDigest,
        reply: PlacementReply,
    ) -> Result<Option<Delivery>, Failure> {
        match reply {
            PlacementReply::Here(delivery) => Ok(delivery),
            PlacementReply::Elsewhere => {
                let why = "another process of the node runs the Worker";
                Err(Failure::new(FailureCode::Moved, Phase::Admission, why))
            }
            PlacementReply::Quarantined(remaining) => {
                let now = Instant::now();
                self.quarantines.borrow_mut().add(digest, now + remaining, now);
                Err(quarantine_failure())
            }
        }
    }
}

fn quarantine_failure() -> Failure {
    let why = "the Worker's code ended a process; the revision is in quarantine";
    Failure::new(FailureCode::WorkerQuarantined, Phase::Admission, why)
}
