//! Finds revisions before this operator has listed the cluster.
//!
//! ```text
//!  GetRevision: worker, digest
//!    ─► Worker ─► WorkerRevisions that its status names ─► Secrets that these bind
//!          └────► RuntimePool that its status names          │
//!                                                            ▼
//!                an index of these objects only ─► serving ─► the share with this digest
//! ```
//!
//! An index of these few objects has the same revisions as an index of all objects: only the routes
//! of a Worker depend on other Workers, and routes are not part of a revision. The objects are read
//! by lists with the name as a selector, which the API server answers as fast as a `get`, and which
//! need no rights beyond those of the watches.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::{try_join, try_join_all};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tenon_catalog::{Digest, Early, EarlySource};
use tenon_crds::{RuntimePool, Worker, WorkerRevision};
use tenon_proto::id::{RevisionDigest, WorkerId};
use tenon_proto::revision::Revision;

use crate::artifacts::{ArtifactError, Artifacts};
use crate::index::{Change, Index, Platform, ServingState, Watched};

/// The reason why a search failed.
#[derive(Debug, thiserror::Error)]
enum SearchError {
    #[error("cannot read from the API server: {0}")]
    Read(#[from] kube::Error),
    #[error(transparent)]
    Artifact(#[from] Arc<ArtifactError>),
}

/// Reads the objects of one Worker.
#[derive(Clone)]
struct Search {
    client: Client,
    platform: Platform,
    artifacts: Artifacts,
}

/// Returns the source of revisions for a catalog that is not complete.
pub fn source(client: Client, platform: Platform, artifacts: Artifacts) -> EarlySource {
    let search = Search { client, platform, artifacts };
    Arc::new(move |worker, digest| {
        let search = search.clone();
        async move {
            let found = search.find(&worker, digest).await;
            let found = found.inspect_err(|error| {
                tracing::warn!(%worker, revision = %digest, %error, "cannot find a revision");
            });
            found.ok().flatten()
        }
        .boxed()
    })
}

impl Search {
    async fn find(
        &self,
        id: &WorkerId,
        digest: RevisionDigest,
    ) -> Result<Option<Early>, SearchError> {
        // A caller chooses the id. Names that no object can have must not reach a selector or a
        // path.
        if !is_name(id.namespace()) || !is_name(id.name()) {
            return Ok(None);
        }
        let Some(index) = self.index(id).await? else { return Ok(None) };
        let Some(Early { revision, pool }) = serving(&index, id, &digest) else { return Ok(None) };
        let revision = match revision.artifact.zip(index.artifact(&revision)) {
            Some((artifact, source)) => {
                let modules = self.artifacts.modules(&source, artifact, &revision.entrypoint);
                let modules = (*modules.await?).clone();
                Arc::new(Revision { modules, ..(*revision).clone() })
            }
            None => revision,
        };
        Ok(Some(Early { revision, pool }))
    }

    /// Returns an index of the objects on which the revisions of a Worker depend, or `None` if the
    /// Worker does not exist or has not been accepted.
    async fn index(&self, id: &WorkerId) -> Result<Option<Index>, SearchError> {
        let Some(worker) = self.read::<Worker>(id.namespace(), id.name()).await? else {
            return Ok(None);
        };
        let status = worker.status.clone().unwrap_or_default();
        let Some(accepted) = &status.accepted else { return Ok(None) };
        // The schema bounds the number of targets.
        let targets = status.targets();
        let names: BTreeSet<_> = targets.iter().map(|target| target.revision.as_str()).collect();
        let revisions = try_join_all(
            names.into_iter().map(|name| self.read::<WorkerRevision>(id.namespace(), name)),
        );
        let (pool, revisions) = try_join(self.read_pool(&accepted.pool), revisions).await?;
        let revisions: Vec<_> = revisions.into_iter().flatten().collect();
        let secrets = revisions.iter().flat_map(secrets).collect::<BTreeSet<_>>();
        let secrets = secrets.into_iter().map(|name| self.read::<Secret>(id.namespace(), name));
        let secrets = try_join_all(secrets).await?;
        let mut index = Index::of(self.platform.clone());
        let changes = [Change::Worker(applied(worker))]
            .into_iter()
            .chain(pool.map(|pool| Change::Pool(applied(pool))))
            .chain(secrets.into_iter().flatten().map(|secret| Change::Secret(applied(secret))))
            .chain(revisions.into_iter().map(|revision| Change::Revision(applied(revision))));
        changes.for_each(|change| drop(index.apply(change)));
        Ok(Some(index))
    }

    async fn read<K>(&self, namespace: &str, name: &str) -> Result<Option<K>, kube::Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + Debug,
    {
        named(&Api::namespaced(self.client.clone(), namespace), name).await
    }

    async fn read_pool(&self, name: &str) -> Result<Option<RuntimePool>, kube::Error> {
        named(&Api::all(self.client.clone()), name).await
    }
}

/// Returns whether a name has 1 to 253 characters, each of which may be in a DNS subdomain, and is
/// neither `.` nor `..`.
fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.')
    };
    (1..=253).contains(&name.len()) && name != ".." && name != "." && name.bytes().all(is_allowed)
}

/// Reads the object of this name, if it exists.
async fn named<K>(api: &Api<K>, name: &str) -> Result<Option<K>, kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    let params = ListParams::default().fields(&format!("metadata.name={name}")).limit(1);
    Ok(api.list(&params).await?.items.pop())
}

/// Returns the names of the Secrets on which a revision depends.
fn secrets(revision: &WorkerRevision) -> impl Iterator<Item = &str> {
    let bound = revision.spec.secrets.iter().map(|secret| secret.secret_key_ref.name.as_str());
    let artifact = revision.spec.artifact.iter();
    let pulled = artifact.flat_map(|artifact| &artifact.pull_secret_ref);
    bound.chain(pulled.map(|reference| reference.name.as_str()))
}

fn applied<K>(object: K) -> Watched<K> {
    Watched::Applied(Arc::new(object))
}

/// Returns the revision of this digest, if it serves the Worker.
fn serving(index: &Index, id: &WorkerId, digest: &RevisionDigest) -> Option<Early> {
    let ServingState::Serving(deployment) = index.serving(id) else { return None };
    let mut shares = deployment.shares.into_iter();
    let share = shares.find(|share| share.digest == Digest::Resolved(*digest))?;
    Some(Early { revision: share.revision, pool: deployment.pool })
}

#[cfg(test)]
mod tests;
