//! The revisions that nodes may fetch: those that serve, and for a while those that served before.
//!
//! A router whose table is slightly outdated still sends requests for the previous revision, and a
//! node that has not run it yet must be able to fetch it.
//!
//! This module is pure: the time is an argument.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tenon_proto::id::{RevisionDigest, WorkerId};
use tenon_proto::revision::Revision;

/// Time for which a superseded revision can still be fetched. Far longer than any router lags
/// behind, and than it takes to roll back a bad deployment.
pub const GRACE: Duration = Duration::from_secs(600);

#[derive(Default)]
pub struct Revisions {
    serving: HashMap<WorkerId, RevisionDigest>,
    /// `None` stands for a revision that cannot be resolved now.
    held: HashMap<RevisionDigest, Option<Arc<Revision>>>,
    /// The superseded revisions with the time at which each ceased to serve, oldest first.
    superseded: VecDeque<(Instant, WorkerId, RevisionDigest)>,
}

impl Revisions {
    /// Makes `revision` the one that serves its Worker, and returns its digest.
    pub fn serve(&mut self, revision: Arc<Revision>, now: Instant) -> RevisionDigest {
        if let Some(digest) = self.serving.get(&revision.worker)
            && self.get(digest).is_some_and(|held| Arc::ptr_eq(&held, &revision))
        {
            return *digest;
        }
        let (worker, digest) = (revision.worker.clone(), revision.digest());
        self.held.insert(digest, Some(revision));
        self.succeed(worker, digest, now);
        digest
    }

    /// Makes the revision of this digest the one that serves the Worker, although it cannot be
    /// resolved now.
    pub fn hold(&mut self, worker: WorkerId, digest: RevisionDigest, now: Instant) {
        self.held.entry(digest).or_insert(None);
        self.succeed(worker, digest, now);
    }

    fn succeed(&mut self, worker: WorkerId, digest: RevisionDigest, now: Instant) {
        match self.serving.insert(worker.clone(), digest) {
            Some(before) if before != digest => self.superseded.push_back((now, worker, before)),
            _ => {}
        }
    }

    /// Stops serving the Worker.
    pub fn retire(&mut self, worker: &WorkerId, now: Instant) {
        if let Some(digest) = self.serving.remove(worker) {
            self.superseded.push_back((now, worker.clone(), digest));
        }
    }

    /// Returns the digest of the revision that serves the Worker.
    pub fn serving(&self, worker: &WorkerId) -> Option<&RevisionDigest> {
        self.serving.get(worker)
    }

    pub fn get(&self, digest: &RevisionDigest) -> Option<Arc<Revision>> {
        self.held.get(digest)?.clone()
    }

    /// Returns whether the revision serves, or did so recently, but could not be resolved.
    pub fn is_unresolved(&self, digest: &RevisionDigest) -> bool {
        matches!(self.held.get(digest), Some(None))
    }

    /// Drops revisions that were superseded longer than [`GRACE`] ago, unless they serve again.
    pub fn expire(&mut self, now: Instant) {
        while let Some((since, _, _)) = self.superseded.front()
            && now.duration_since(*since) >= GRACE
        {
            let Some((_, worker, digest)) = self.superseded.pop_front() else { return };
            let serves = self.serving.get(&worker) == Some(&digest);
            // It may have served again and been superseded again since; then the later entry
            // decides.
            if !serves && !self.superseded.iter().any(|(_, _, later)| *later == digest) {
                self.held.remove(&digest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::revision;

    #[test]
    fn a_superseded_revision_is_available_for_the_grace_period() {
        let (mut revisions, start) = (Revisions::default(), Instant::now());
        let old = revisions.serve(revision("cart", "1"), start);
        let new = revisions.serve(revision("cart", "2"), start);
        revisions.expire(start + GRACE - Duration::from_secs(1));
        assert!(revisions.get(&old).is_some() && revisions.get(&new).is_some());
        revisions.expire(start + GRACE);
        assert!(revisions.get(&old).is_none() && revisions.get(&new).is_some());
    }

    #[test]
    fn a_held_revision_is_unresolved_until_it_serves() {
        let (mut revisions, now) = (Revisions::default(), Instant::now());
        let (cart, id) = (revision("cart", "1"), WorkerId::new("shop", "cart"));
        let digest = cart.digest();
        revisions.hold(id.clone(), digest, now);
        assert!(revisions.is_unresolved(&digest) && revisions.get(&digest).is_none());
        assert_eq!(revisions.serving(&id), Some(&digest));
        revisions.serve(cart, now);
        assert!(!revisions.is_unresolved(&digest) && revisions.get(&digest).is_some());
        revisions.hold(id, digest, now);
        assert!(revisions.get(&digest).is_some(), "what is known is kept");
    }

    #[test]
    fn a_revision_that_serves_again_stays() {
        let (mut revisions, start) = (Revisions::default(), Instant::now());
        let digest = revisions.serve(revision("cart", "1"), start);
        revisions.serve(revision("cart", "2"), start);
        revisions.serve(revision("cart", "1"), start);
        revisions.expire(start + GRACE);
        assert!(revisions.get(&digest).is_some());
    }

    #[test]
    fn the_grace_period_restarts_when_a_revision_is_superseded_again() {
        let (mut revisions, start) = (Revisions::default(), Instant::now());
        let digest = revisions.serve(revision("cart", "1"), start);
        revisions.serve(revision("cart", "2"), start);
        revisions.serve(revision("cart", "1"), start);
        revisions.retire(&WorkerId::new("shop", "cart"), start + GRACE / 2);
        revisions.expire(start + GRACE);
        assert!(revisions.get(&digest).is_some());
        revisions.expire(start + GRACE * 3 / 2);
        assert!(revisions.get(&digest).is_none());
    }
}
