//! Revisions that nodes request before the catalog is complete. An operator that has just started
//! lists the whole cluster first. This may take longer than a client waits for a cold start.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tenon_lifecycle::permits::NamespacePermits;
use tenon_proto::id::{RevisionDigest, WorkerId};
use tenon_proto::revision::Revision;
use tokio::time::timeout;

use super::Catalog;
use super::access::{CallerPool, Denial};

/// A function that finds the revision with a digest among those that serve a Worker now. It returns
/// `None` if there is none, or if the search fails; the log then says why.
pub type EarlySource =
    Arc<dyn Fn(WorkerId, RevisionDigest) -> BoxFuture<'static, Option<Early>> + Send + Sync>;

/// A revision that was found without the catalog.
#[derive(Clone, Debug)]
pub struct Early {
    /// The revision, with its modules.
    pub revision: Arc<Revision>,
    /// The pool into which its Worker is accepted.
    pub pool: String,
}

/// Maximum number of concurrent searches. Each may pull an artifact, and makes a few small requests
/// to the API server, which is also busy with the lists for this operator.
const CONCURRENCY: usize = 16;

/// Maximum number of concurrent searches for Workers of one namespace, so that a namespace whose
/// artifacts are slow does not delay the others.
const PER_NAMESPACE: usize = 4;

/// Time limit of a search, including the wait for a permit. It is less than the time limit of a
/// node's attempt to get a revision.
const LIMIT: Duration = Duration::from_secs(4);

/// Returns the permits of searches.
pub(super) fn permits() -> NamespacePermits {
    NamespacePermits::new(CONCURRENCY, PER_NAMESPACE)
}

impl Catalog {
    /// Sets the source that finds revisions until the catalog is complete. Later calls have no
    /// effect.
    pub fn set_early_source(&self, source: EarlySource) {
        let _ = self.shared.early.set(source);
    }

    /// Finds a revision before the catalog is complete. Returns `None` if the caller has to ask
    /// again.
    ///
    /// # Errors
    /// Fails if only nodes of another pool run the revision.
    pub(super) async fn early(
        &self,
        worker: &str,
        digest: RevisionDigest,
        caller: &CallerPool,
    ) -> Result<Option<Arc<Revision>>, Denial> {
        let (Some(source), Ok(worker)) = (self.shared.early.get(), worker.parse::<WorkerId>())
        else {
            return Ok(None);
        };
        let searched = timeout(LIMIT, async {
            let _permit = self.shared.search_permits.acquire(worker.namespace()).await;
            source(worker, digest).await
        });
        match searched.await.ok().flatten() {
            Some(Early { revision, pool }) if caller.covers(&pool) => Ok(Some(revision)),
            Some(Early { pool, .. }) => {
                Err(Denial::OtherPool { caller: caller.clone(), pools: vec![pool] })
            }
            None => Ok(None),
        }
    }
}
