//! Where revisions come from: the catalog, by digest, on a thread of its own.
//!
//! ```text
//!  shard 0 ─┐            ┌─ cache, by digest ──────────────► answer
//!  shard 1 ─┼─ fetch ──► │
//!  shard n ─┘            └─ one GetRevision, many waiters ──► verify ──► cache, answers
//! ```
//!
//! Only cold starts come here, so shards send a message and wait; nothing is shared with them. What is cached
//! goes on being served when the catalog is gone.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tenon_proto::catalog::GetRevisionRequest;
use tenon_proto::catalog::catalog_client::CatalogClient;
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::id::RevisionDigest;
use tenon_proto::revision::{Assembler, Revision};
use tokio::sync::{mpsc, oneshot};
use tonic::Code;
use tonic::transport::{Channel, Endpoint};

/// Module bytes that the cache keeps. A node runs some hundreds of revisions, of which few are large.
const CACHE_BYTES: usize = 64 * 1024 * 1024;

/// How long a node waits for the catalog, connection included.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);

type Answer = Result<Arc<Revision>, Failure>;

/// A handle on the process's source of revisions. Any thread may use it.
#[derive(Clone)]
pub struct Source {
    wants_tx: mpsc::UnboundedSender<Want>,
}

struct Want {
    digest: RevisionDigest,
    answer_tx: oneshot::Sender<Answer>,
}

impl Source {
    /// Starts the thread. Nothing is connected before the first fetch.
    ///
    /// # Errors
    /// When the thread cannot be made.
    pub fn spawn(catalog: Endpoint) -> io::Result<Self> {
        let (wants_tx, wants_rx) = mpsc::unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new().name("source".to_owned()).spawn(move || {
            runtime.block_on(serve(catalog, wants_rx));
        })?;
        Ok(Self { wants_tx })
    }

    /// The revision of that digest, from the cache or the catalog.
    ///
    /// # Errors
    /// [`FailureCode::RevisionUnavailable`] when it cannot be had now.
    pub async fn fetch(&self, digest: RevisionDigest) -> Answer {
        let (answer_tx, answer_rx) = oneshot::channel();
        let gone = || unavailable("the node is shutting down");
        self.wants_tx.send(Want { digest, answer_tx }).map_err(|_| gone())?;
        answer_rx.await.unwrap_or_else(|_| Err(gone()))
    }
}

/// Runs until every handle is dropped.
async fn serve(catalog: Endpoint, mut wants_rx: mpsc::UnboundedReceiver<Want>) {
    let client = CatalogClient::new(catalog.connect_timeout(FETCH_TIMEOUT).connect_lazy());
    let mut cache = Cache::default();
    let mut waiting: HashMap<RevisionDigest, Vec<oneshot::Sender<Answer>>> = HashMap::new();
    let mut fetches = FuturesUnordered::new();
    loop {
        tokio::select! {
            want = wants_rx.recv() => {
                let Some(Want { digest, answer_tx }) = want else { return };
                if let Some(revision) = cache.get(&digest) {
                    // The one who asked may have gone.
                    let _ = answer_tx.send(Ok(revision));
                    continue;
                }
                let waiters = waiting.entry(digest).or_default();
                if waiters.is_empty() {
                    let client = client.clone();
                    fetches.push(async move { (digest, fetch(client, digest).await) });
                }
                waiters.push(answer_tx);
            }
            Some((digest, answer)) = fetches.next() => {
                if let Ok(revision) = &answer {
                    cache.insert(digest, revision.clone());
                }
                for answer_tx in waiting.remove(&digest).unwrap_or_default() {
                    let _ = answer_tx.send(answer.clone());
                }
            }
        }
    }
}

async fn fetch(client: CatalogClient<Channel>, digest: RevisionDigest) -> Answer {
    let fetched = tokio::time::timeout(FETCH_TIMEOUT, get_revision(client, digest)).await;
    let answer = fetched.unwrap_or_else(|_| Err(unavailable("the catalog did not answer in time")));
    if let Err(failure) = &answer {
        tracing::warn!(revision = %digest, error = %failure.message, "cannot fetch a revision");
    }
    answer
}

async fn get_revision(mut client: CatalogClient<Channel>, digest: RevisionDigest) -> Answer {
    let request = GetRevisionRequest { digest: digest.as_bytes().to_vec() };
    let failed = |status: tonic::Status| match status.code() {
        Code::NotFound => unavailable("the catalog has no such revision any more"),
        _ => unavailable("the catalog cannot be reached"),
    };
    let mut messages = client.get_revision(request).await.map_err(failed)?.into_inner();
    let mut assembler = Assembler::default();
    let malformed = |error| Failure::new(FailureCode::RevisionUnavailable, Phase::Start, format!("{error}"));
    while let Some(message) = messages.message().await.map_err(failed)? {
        assembler.push(message).map_err(malformed)?;
    }
    let (actual, revision) = assembler.finish().map_err(malformed)?;
    if actual != digest {
        return Err(unavailable("the catalog answered with another revision"));
    }
    Ok(Arc::new(revision))
}

fn unavailable(why: &str) -> Failure {
    Failure::new(FailureCode::RevisionUnavailable, Phase::Start, why)
}

/// The revisions that came last, up to [`CACHE_BYTES`].
#[derive(Default)]
struct Cache {
    revisions: HashMap<RevisionDigest, Arc<Revision>>,
    order: VecDeque<RevisionDigest>,
    bytes: usize,
}

impl Cache {
    fn get(&self, digest: &RevisionDigest) -> Option<Arc<Revision>> {
        self.revisions.get(digest).cloned()
    }

    fn insert(&mut self, digest: RevisionDigest, revision: Arc<Revision>) {
        self.bytes += size(&revision);
        self.revisions.insert(digest, revision);
        self.order.push_back(digest);
        while self.bytes > CACHE_BYTES && self.order.len() > 1 {
            let oldest = self.order.pop_front().expect("there is more than one");
            let removed = self.revisions.remove(&oldest).expect("what is in order is in revisions");
            self.bytes -= size(&removed);
        }
    }
}

fn size(revision: &Revision) -> usize {
    revision.modules.values().map(|module| module.len()).sum()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bytes::Bytes;
    use tenon_proto::id::WorkerId;
    use tenon_proto::revision::Limits;

    use super::*;

    fn revision(bytes: usize) -> Arc<Revision> {
        Arc::new(Revision {
            worker: WorkerId::new("shop", "cart"),
            name: "cart-1".to_owned(),
            entrypoint: "worker.js".to_owned(),
            modules: BTreeMap::from([("worker.js".to_owned(), Bytes::from(vec![b' '; bytes]))]),
            vars: BTreeMap::new(),
            secrets: BTreeMap::new(),
            limits: Limits::default(),
        })
    }

    #[test]
    fn the_oldest_leave_a_cache_that_is_full() {
        let mut cache = Cache::default();
        let digest = |n| RevisionDigest::new([n; 32]);
        for n in 0..3 {
            cache.insert(digest(n), revision(CACHE_BYTES / 2));
        }
        assert!(cache.get(&digest(0)).is_none());
        assert!(cache.get(&digest(1)).is_some() && cache.get(&digest(2)).is_some());
        assert_eq!(cache.bytes, CACHE_BYTES / 2 * 2);
    }

    #[test]
    fn one_that_is_larger_than_the_cache_is_kept_alone() {
        let mut cache = Cache::default();
        cache.insert(RevisionDigest::new([0; 32]), revision(CACHE_BYTES + 1));
        assert!(cache.get(&RevisionDigest::new([0; 32])).is_some());
    }
}
