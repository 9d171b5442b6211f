//! The input of the plan of a Worker.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use k8s_openapi::api::core::v1::Secret;
use tenon_crds::{OciSource, PoolLimits, Worker, WorkerRevision};
use tenon_proto::catalog::{self, Route};
use tenon_proto::id::{RevisionDigest, WorkerId};
use tenon_proto::revision::Revision;

use crate::acknowledgement::Acknowledgement;
use crate::claims::Holder;
use crate::namespaces::Access;
use crate::revision::MissingSecret;

/// A Worker that is a candidate for the catalog, with all objects on which its plan depends. It
/// is unrelated to the candidates of the ring, which are shards.
#[derive(Clone)]
pub struct Candidate {
    pub id: WorkerId,
    pub worker: Arc<Worker>,
    pub source: SourceState,
    /// The existing Secrets that its spec names, by name.
    pub secrets: BTreeMap<String, Arc<Secret>>,
    pub revisions: Vec<Arc<WorkerRevision>>,
    /// Limits of the pool that its spec names; `None` if there is no such pool.
    pub pool: Option<PoolLimits>,
    /// Whether Workers of its namespace may choose that pool.
    pub access: Access,
    /// The routes that its spec requests, each with its holder.
    pub routes: Vec<(Route, Holder)>,
    /// The hosts of the previews that its spec requests, each with its holder.
    pub previews: Vec<(Route, Holder)>,
    /// For each revision that may serve besides the latest one, a Secret that it needs and that is
    /// missing, by the name of the revision. Revisions with all of their Secrets have no entry.
    pub missing_secrets: BTreeMap<String, MissingSecret>,
    /// Its revisions in the catalog whose bindings are resolved, with their digests.
    pub serving: Vec<(Arc<Revision>, RevisionDigest)>,
    /// Its entry in the catalog, if there is one.
    pub published: Option<Published>,
}

/// An entry of the catalog, as routers receive it, and whether they have acknowledged it.
#[derive(Clone)]
pub struct Published {
    pub entry: catalog::Worker,
    pub acknowledged: Acknowledgement,
}

/// A Worker's source, as far as the index contains it.
#[derive(Clone, Debug, PartialEq)]
pub enum SourceState {
    Modules(BTreeMap<String, Bytes>),
    MissingConfigMap(String),
    Artifact {
        oci: OciSource,
        /// The Secret that `oci` names, if it exists.
        pull_secret: Option<Arc<Secret>>,
    },
}

impl SourceState {
    /// Returns the modules as their author wrote them. Returns `None` if they are in an artifact,
    /// or in a ConfigMap that does not exist.
    pub fn modules(&self) -> Option<&BTreeMap<String, Bytes>> {
        match self {
            Self::Modules(modules) => Some(modules),
            Self::MissingConfigMap(_) | Self::Artifact { .. } => None,
        }
    }
}
