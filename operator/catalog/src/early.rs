//! Revisions that nodes request before the catalog is complete. An operator that has just started
//! lists the whole cluster first, which takes longer than a client waits for a cold start.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use futures::future::BoxFuture;
use tenon_proto::id::{RevisionDigest, WorkerId};
use tenon_proto::revision::Revision;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
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

/// Maximum number of concurrent searches. Each makes a few small requests to the API server, which
/// lists the cluster for this operator meanwhile, and may pull an artifact.
const CONCURRENCY: usize = 16;

/// Maximum number of concurrent searches for Workers of one namespace, so that a namespace whose
/// artifacts are slow does not delay the others.
const PER_NAMESPACE: usize = 4;

/// Time limit of a search, which is less than the time limit of a node's attempt to get a revision.
const LIMIT: Duration = Duration::from_secs(4);

/// The permits of searches.
pub(super) struct Searches {
    all: Semaphore,
    /// The permits of each namespace that has a search.
    by_namespace: Mutex<HashMap<String, Weak<Semaphore>>>,
}

impl Searches {
    pub(super) fn new() -> Self {
        Self { all: Semaphore::new(CONCURRENCY), by_namespace: Mutex::default() }
    }

    /// Waits for the permits of a search, which must hold them until it ends. Returns `None` only
    /// if a semaphore is closed, which never happens.
    async fn permit(&self, namespace: &str) -> Option<(OwnedSemaphorePermit, SemaphorePermit<'_>)> {
        // A search that waits for its namespace's permit takes none of the others' permits.
        let of_namespace = self.of_namespace(namespace).acquire_owned().await.ok()?;
        Some((of_namespace, self.all.acquire().await.ok()?))
    }

    fn of_namespace(&self, namespace: &str) -> Arc<Semaphore> {
        let mut by_namespace = self.by_namespace.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(semaphore) = by_namespace.get(namespace).and_then(Weak::upgrade) {
            return semaphore;
        }
        by_namespace.retain(|_, semaphore| semaphore.strong_count() > 0);
        let semaphore = Arc::new(Semaphore::new(PER_NAMESPACE));
        by_namespace.insert(namespace.to_owned(), Arc::downgrade(&semaphore));
        semaphore
    }
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
            let _permit = self.shared.searches.permit(worker.namespace()).await?;
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
