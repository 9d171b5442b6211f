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

use crate::deployment::{Deployment, Digest, Share};

/// Time for which a superseded revision can still be fetched. This is far longer than a router lags
/// behind, and far longer than the rollback of a bad deployment takes.
pub const GRACE: Duration = Duration::from_secs(600);

#[derive(Default)]
pub struct Revisions {
    /// The revisions among which each Worker's requests are divided.
    serving: HashMap<WorkerId, Vec<RevisionDigest>>,
    held: HashMap<RevisionDigest, Held>,
    /// The superseded revisions with the time at which each ceased to serve, oldest first.
    superseded: VecDeque<(Instant, WorkerId, RevisionDigest)>,
}

/// A revision that serves, or that served recently.
enum Held {
    Resolved(Arc<Revision>),
    /// The revision of this name, which cannot be resolved now.
    Unresolved(String),
}

impl Held {
    fn name(&self) -> &str {
        match self {
            Self::Resolved(revision) => &revision.name,
            Self::Unresolved(name) => name,
        }
    }
}

impl Revisions {
    /// Makes the revisions of a deployment the ones that serve the Worker, and returns those that
    /// did not serve it before. A revision that cannot be resolved now keeps the digest by which it
    /// serves.
    pub fn deploy(&mut self, deployment: &mut Deployment, now: Instant) -> Vec<Arc<Revision>> {
        let worker = &deployment.worker;
        let mut added = Vec::new();
        for Share { revision, digest, .. } in &mut deployment.shares {
            if let Digest::Held(held) = digest
                && let Some(serving) = self.named(worker, &revision.name)
            {
                *held = serving;
            }
            if !self.serving(worker).contains(&digest.get()) {
                added.push(Arc::clone(revision));
            }
            let held = self.held.entry(digest.get());
            match digest {
                Digest::Resolved(_) => drop(held.insert_entry(Held::Resolved(revision.clone()))),
                Digest::Held(_) => {
                    held.or_insert_with(|| Held::Unresolved(revision.name.clone()));
                }
            }
        }
        let digests = deployment.digests().collect();
        self.replace_serving(&deployment.worker, digests, now);
        added
    }

    /// Stops serving the Worker.
    pub fn retire(&mut self, worker: &WorkerId, now: Instant) {
        self.replace_serving(worker, Vec::new(), now);
    }

    fn replace_serving(&mut self, worker: &WorkerId, digests: Vec<RevisionDigest>, now: Instant) {
        let before = self.serving.remove(worker).unwrap_or_default();
        let superseded = before.into_iter().filter(|digest| !digests.contains(digest));
        self.superseded.extend(superseded.map(|digest| (now, worker.clone(), digest)));
        if !digests.is_empty() {
            self.serving.insert(worker.clone(), digests);
        }
    }

    /// Returns the digests of the revisions that serve the Worker.
    pub fn serving(&self, worker: &WorkerId) -> &[RevisionDigest] {
        self.serving.get(worker).map_or(&[], Vec::as_slice)
    }

    /// Returns the digest of the revision of this name, if it serves the Worker.
    pub fn named(&self, worker: &WorkerId, name: &str) -> Option<RevisionDigest> {
        let mut digests = self.serving(worker).iter().copied();
        digests.find(|digest| self.held.get(digest).is_some_and(|held| held.name() == name))
    }

    /// Returns the name of the revision with this digest, if it serves the Worker.
    pub fn name(&self, worker: &WorkerId, digest: &RevisionDigest) -> Option<&str> {
        let serves = self.serving(worker).contains(digest);
        self.held.get(digest).filter(|_| serves).map(Held::name)
    }

    pub fn get(&self, digest: &RevisionDigest) -> Option<Arc<Revision>> {
        match self.held.get(digest)? {
            Held::Resolved(revision) => Some(Arc::clone(revision)),
            Held::Unresolved(_) => None,
        }
    }

    /// Returns whether the revision serves, or did so recently, but could not be resolved.
    pub fn is_unresolved(&self, digest: &RevisionDigest) -> bool {
        matches!(self.held.get(digest), Some(Held::Unresolved(_)))
    }

    /// Drops revisions that were superseded longer than [`GRACE`] ago, unless they serve again.
    pub fn expire(&mut self, now: Instant) {
        while let Some((since, _, _)) = self.superseded.front()
            && now.duration_since(*since) >= GRACE
        {
            let Some((_, worker, digest)) = self.superseded.pop_front() else { return };
            let serves = self.serving(&worker).contains(&digest);
            // The revision may have served again and been superseded again since then. In that
            // case, the later entry decides.
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

    /// Deploys a Worker with one revision, and returns its digest.
    fn serve(revisions: &mut Revisions, revision: Arc<Revision>, now: Instant) -> RevisionDigest {
        let digest = revision.digest();
        revisions.deploy(&mut Deployment::new(revision, "default", Vec::new()), now);
        digest
    }

    #[test]
    fn a_superseded_revision_is_available_for_the_grace_period() {
        let (mut revisions, start) = (Revisions::default(), Instant::now());
        let old = serve(&mut revisions, revision("cart", "1"), start);
        let new = serve(&mut revisions, revision("cart", "2"), start);
        revisions.expire(start + GRACE - Duration::from_secs(1));
        assert!(revisions.get(&old).is_some() && revisions.get(&new).is_some());
        revisions.expire(start + GRACE);
        assert!(revisions.get(&old).is_none() && revisions.get(&new).is_some());
    }

    #[test]
    fn all_revisions_that_share_the_requests_stay() {
        let (mut revisions, start) = (Revisions::default(), Instant::now());
        let old = serve(&mut revisions, revision("cart", "1"), start);
        let mut divided = Deployment::new(revision("cart", "2"), "default", Vec::new());
        divided.shares.push(Share::whole(revision("cart", "1")));
        revisions.deploy(&mut divided, start);
        revisions.expire(start + GRACE);
        let cart = WorkerId::new("shop", "cart");
        assert!(revisions.get(&old).is_some());
        assert_eq!(revisions.named(&cart, "1"), Some(old));
        let new = serve(&mut revisions, revision("cart", "2"), start + GRACE);
        assert_eq!(revisions.serving(&cart), [new]);
        revisions.expire(start + 2 * GRACE);
        assert!(revisions.get(&old).is_none());
    }

    #[test]
    fn a_held_revision_is_unresolved_until_it_serves() {
        let (mut revisions, now) = (Revisions::default(), Instant::now());
        let (cart, id) = (revision("cart", "1"), WorkerId::new("shop", "cart"));
        let digest = cart.digest();
        let mut held = Deployment::new(cart.clone(), "default", Vec::new());
        held.shares[0].digest = Digest::Held(digest);
        revisions.deploy(&mut held.clone(), now);
        assert!(revisions.is_unresolved(&digest) && revisions.get(&digest).is_none());
        assert_eq!(revisions.serving(&id), [digest]);
        assert_eq!(revisions.named(&id, "1"), Some(digest));
        serve(&mut revisions, cart, now);
        assert!(!revisions.is_unresolved(&digest) && revisions.get(&digest).is_some());
        let other = RevisionDigest::new([7; 32]);
        held.shares[0].digest = Digest::Held(other);
        assert!(revisions.deploy(&mut held, now).is_empty());
        assert_eq!(held.shares[0].digest, Digest::Held(digest), "the known digest was replaced");
        assert!(revisions.get(&digest).is_some(), "a known revision was forgotten");
    }

    #[test]
    fn a_revision_that_serves_again_stays() {
        let (mut revisions, start) = (Revisions::default(), Instant::now());
        let digest = serve(&mut revisions, revision("cart", "1"), start);
        serve(&mut revisions, revision("cart", "2"), start);
        serve(&mut revisions, revision("cart", "1"), start);
        revisions.expire(start + GRACE);
        assert!(revisions.get(&digest).is_some());
    }

    #[test]
    fn the_grace_period_restarts_when_a_revision_is_superseded_again() {
        let (mut revisions, start) = (Revisions::default(), Instant::now());
        let digest = serve(&mut revisions, revision("cart", "1"), start);
        serve(&mut revisions, revision("cart", "2"), start);
        serve(&mut revisions, revision("cart", "1"), start);
        revisions.retire(&WorkerId::new("shop", "cart"), start + GRACE / 2);
        revisions.expire(start + GRACE);
        assert!(revisions.get(&digest).is_some());
        revisions.expire(start + GRACE * 3 / 2);
        assert!(revisions.get(&digest).is_none());
    }
}
