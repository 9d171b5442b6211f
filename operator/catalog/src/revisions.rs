//! The revisions that nodes may fetch: those that serve, and for a while those that served before.
//!
//! A router whose table is slightly outdated still sends requests for the previous revision, and a
//! node that has not run it yet must be able to fetch it. Only nodes of a pool that runs a
//! revision, or did so recently, may fetch it.
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
    serving: HashMap<WorkerId, Serving>,
    held: HashMap<RevisionDigest, Held>,
    /// The revisions that ceased to serve in a pool, each with the time at which it did, oldest
    /// first.
    superseded: VecDeque<(Instant, RevisionDigest, Arc<str>)>,
}

/// The revisions among which a Worker's requests are divided, and the pool that runs them.
#[derive(Default)]
struct Serving {
    digests: Vec<RevisionDigest>,
    pool: Arc<str>,
}

/// A revision that serves, or that served recently. Its digest includes the Worker's id.
struct Held {
    worker: WorkerId,
    content: Content,
    /// The pools in which the revision served before, each with the time at which it last ceased
    /// to serve there.
    former: Vec<(Arc<str>, Instant)>,
}

enum Content {
    Resolved(Arc<Revision>),
    /// The revision of this name, which cannot be resolved now.
    Unresolved(String),
}

impl Held {
    fn name(&self) -> &str {
        match &self.content {
            Content::Resolved(revision) => &revision.name,
            Content::Unresolved(name) => name,
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
            let held = self.held.entry(digest.get()).or_insert_with(|| Held {
                worker: worker.clone(),
                content: Content::Unresolved(revision.name.clone()),
                former: Vec::new(),
            });
            if let Digest::Resolved(_) = digest {
                // A held digest comes from a status, and may be that of another Worker's revision.
                if held.worker != *worker {
                    (held.worker, held.former) = (worker.clone(), Vec::new());
                }
                held.content = Content::Resolved(Arc::clone(revision));
            }
        }
        let digests = deployment.digests().collect();
        let serving = Serving { digests, pool: deployment.pool.as_str().into() };
        self.replace_serving(&deployment.worker, serving, now);
        added
    }

    /// Stops serving the Worker.
    pub fn retire(&mut self, worker: &WorkerId, now: Instant) {
        self.replace_serving(worker, Serving::default(), now);
    }

    fn replace_serving(&mut self, worker: &WorkerId, serving: Serving, now: Instant) {
        let before = self.serving.remove(worker).unwrap_or_default();
        let has_moved = before.pool != serving.pool;
        for digest in before.digests {
            if has_moved || !serving.digests.contains(&digest) {
                self.supersede(worker, digest, &before.pool, now);
            }
        }
        if !serving.digests.is_empty() {
            self.serving.insert(worker.clone(), serving);
        }
    }

    fn supersede(
        &mut self,
        worker: &WorkerId,
        digest: RevisionDigest,
        pool: &Arc<str>,
        now: Instant,
    ) {
        let held = self.held.get_mut(&digest).filter(|held| held.worker == *worker);
        let Some(held) = held else { return };
        held.former.retain(|(former, _)| former != pool);
        held.former.push((Arc::clone(pool), now));
        self.superseded.push_back((now, digest, Arc::clone(pool)));
    }

    /// Returns the digests of the revisions that serve the Worker.
    pub fn serving(&self, worker: &WorkerId) -> &[RevisionDigest] {
        self.serving.get(worker).map_or(&[], |serving| &serving.digests)
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
        match &self.held.get(digest)?.content {
            Content::Resolved(revision) => Some(Arc::clone(revision)),
            Content::Unresolved(_) => None,
        }
    }

    /// Returns the pools whose nodes may run the revision: the pool in which it serves, and those
    /// in which it did so recently.
    pub fn pools(&self, digest: &RevisionDigest) -> impl Iterator<Item = &str> {
        let held = self.held.get(digest);
        let serving = held.and_then(|held| self.serving.get(&held.worker));
        let serving = serving.filter(|serving| serving.digests.contains(digest));
        let former = held.into_iter().flat_map(|held| &held.former);
        serving.map(|serving| &*serving.pool).into_iter().chain(former.map(|(pool, _)| &**pool))
    }

    /// Returns whether the revision serves, or did so recently, but could not be resolved.
    pub fn is_unresolved(&self, digest: &RevisionDigest) -> bool {
        let held = self.held.get(digest);
        held.is_some_and(|held| matches!(held.content, Content::Unresolved(_)))
    }

    /// Forgets the pools in which a revision ceased to serve at least [`GRACE`] ago, and drops the
    /// revisions that then have no pool.
    pub fn expire(&mut self, now: Instant) {
        while let Some((since, _, _)) = self.superseded.front()
            && now.duration_since(*since) >= GRACE
        {
            let Some((since, digest, pool)) = self.superseded.pop_front() else { return };
            let Some(held) = self.held.get_mut(&digest) else { continue };
            // The revision may have served in the pool again and been superseded again since then.
            // In that case, the later entry decides.
            held.former.retain(|(former, last)| *former != pool || *last > since);
            let serving = self.serving.get(&held.worker);
            let serves = serving.is_some_and(|serving| serving.digests.contains(&digest));
            if !serves && held.former.is_empty() {
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

    #[test]
    fn a_revision_belongs_to_the_pool_of_its_worker_and_for_a_while_to_the_one_before() {
        let (mut revisions, start) = (Revisions::default(), Instant::now());
        let cart = revision("cart", "1");
        let digest = serve(&mut revisions, cart.clone(), start);
        let pools =
            |revisions: &Revisions| revisions.pools(&digest).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(pools(&revisions), ["default"]);
        revisions.deploy(&mut Deployment::new(cart.clone(), "gpu", Vec::new()), start);
        assert_eq!(pools(&revisions), ["gpu", "default"]);
        // The Worker moves back and forth, and the time in the pool "gpu" begins again.
        serve(&mut revisions, cart.clone(), start + GRACE / 2);
        revisions.expire(start + GRACE);
        assert_eq!(pools(&revisions), ["default", "gpu"]);
        revisions.retire(&WorkerId::new("shop", "cart"), start + GRACE);
        revisions.expire(start + GRACE * 3 / 2);
        assert_eq!(pools(&revisions), ["default"]);
        revisions.expire(start + GRACE * 2);
        assert!(pools(&revisions).is_empty() && revisions.held.is_empty());
        assert!(revisions.pools(&RevisionDigest::new([7; 32])).next().is_none());
    }

    #[test]
    fn a_digest_in_the_status_of_another_worker_gives_its_pool_nothing() {
        for is_first in [true, false] {
            let (mut revisions, now) = (Revisions::default(), Instant::now());
            let victim = revision("cart", "1");
            let mut thief = Deployment::new(revision("thief", "1"), "evil", Vec::new());
            thief.shares[0].digest = Digest::Held(victim.digest());
            if is_first {
                revisions.deploy(&mut thief.clone(), now);
            }
            let digest = serve(&mut revisions, victim, now);
            if !is_first {
                revisions.deploy(&mut thief, now);
            }
            revisions.retire(&WorkerId::new("shop", "thief"), now);
            assert_eq!(revisions.pools(&digest).collect::<Vec<_>>(), ["default"]);
            revisions.expire(now + GRACE);
            assert!(revisions.get(&digest).is_some());
        }
    }
}
