//! A Worker as it is deployed: its revisions, with their shares of the requests. This module is
//! pure.

use std::sync::Arc;

use tenon_proto::catalog::{RateLimits, Route, SessionAffinity, Variant, Worker};
use tenon_proto::id::{RevisionDigest, WorkerId};
use tenon_proto::revision::Revision;

const MIB: u64 = 1024 * 1024;

/// A Worker as it is deployed.
#[derive(Clone, Debug, PartialEq)]
pub struct Deployment {
    pub worker: WorkerId,
    /// RuntimePool whose nodes run the revisions.
    pub pool: String,
    /// Routes of the requests that are divided among the revisions.
    pub routes: Vec<Route>,
    /// The part of a request that selects its revision. If `None`, requests are divided at random.
    pub session_affinity: Option<SessionAffinity>,
    /// Limits on the rates of clients' requests. If `None`, requests are not limited.
    pub rate_limits: Option<RateLimits>,
    /// Whether all requests go to one shard, even if the Worker needs more shards.
    pub strict_affinity: bool,
    /// Identifies the measurement of the revisions' requests. 0 if they are not measured.
    pub measurement: u64,
    /// The revisions with their shares, at least one. The first revision serves the requests that
    /// remain after the shares of the others.
    pub shares: Vec<Share>,
}

/// A revision, and its share of the Worker's requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// The revision, without the values of its secrets if `digest` is held.
    pub revision: Arc<Revision>,
    pub digest: Digest,
    /// Percentage of the requests.
    pub percent: u32,
    /// Routes of requests that only this revision serves.
    pub routes: Vec<Route>,
}

/// The digest by which nodes know a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digest {
    /// The digest of the revision.
    Resolved(RevisionDigest),
    /// The digest of the revision with its secrets, which cannot be resolved now. Nodes that have
    /// the revision continue to serve it; for others, it is unavailable.
    Held(RevisionDigest),
}

impl Digest {
    /// Returns the digest itself.
    pub fn get(&self) -> RevisionDigest {
        match self {
            Self::Resolved(digest) | Self::Held(digest) => *digest,
        }
    }
}

impl Share {
    /// Returns the share of a revision that serves all requests.
    pub fn whole(revision: Arc<Revision>) -> Self {
        let digest = Digest::Resolved(revision.digest());
        Self { revision, digest, percent: 100, routes: Vec::new() }
    }

    fn variant(&self) -> Variant {
        let Self { revision, digest, percent, routes } = self;
        Variant {
            digest: digest.get().as_bytes().to_vec(),
            wall_ms: revision.limits.wall_ms,
            request_body_bytes: u64::from(revision.limits.request_body_mib) * MIB,
            services: revision.services().map(|(_, worker)| worker.to_string()).collect(),
            assets: revision.assets.clone(),
            percent: *percent,
            routes: routes.clone(),
        }
    }
}

impl Deployment {
    /// Returns the deployment of a Worker with one revision.
    pub fn new(revision: Arc<Revision>, pool: impl Into<String>, routes: Vec<Route>) -> Self {
        Self {
            worker: revision.worker.clone(),
            pool: pool.into(),
            routes,
            session_affinity: None,
            rate_limits: None,
            strict_affinity: false,
            measurement: 0,
            shares: vec![Share::whole(revision)],
        }
    }

    /// Returns the digests of the revisions, in the order of the shares.
    pub fn digests(&self) -> impl Iterator<Item = RevisionDigest> {
        self.shares.iter().map(|share| share.digest.get())
    }

    /// Returns the entry for routers, or `None` if there is no revision.
    pub fn entry(&self) -> Option<Worker> {
        let (first, others) = self.shares.split_first()?;
        let own = first.variant();
        // An entry has no routes for its first revision alone, so such routes become those of a
        // variant without a share.
        let previews = (!own.routes.is_empty()).then(|| Variant { percent: 0, ..own.clone() });
        Some(Worker {
            id: self.worker.to_string(),
            pool: self.pool.clone(),
            digest: own.digest,
            routes: self.routes.clone(),
            wall_ms: own.wall_ms,
            request_body_bytes: own.request_body_bytes,
            services: own.services,
            assets: own.assets,
            variants: others.iter().map(Share::variant).chain(previews).collect(),
            session_affinity: self.session_affinity.clone(),
            rate_limits: self.rate_limits,
            strict_affinity: self.strict_affinity,
            measurement: self.measurement,
        })
    }
}
