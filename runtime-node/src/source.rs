//! Fetches revisions by digest: from the catalog, on a thread of its own; or, in a shard's process,
//! from the supervisor, which runs that thread.
//!
//! ```text
//!  shard 0 ─┐            ┌─ memory, disk, by digest ────────► answer
//!  shard 1 ─┼─ fetch ──► │
//!  shard n ─┘            └─ one GetRevision, many waiters ──► verify ──► caches, answers
//! ```
//!
//! A revision is returned with the bytecode of its modules once an isolate has supplied that
//! bytecode; revisions and bytecode are kept in memory and, if configured, on disk.
//!
//! Only cold starts fetch revisions, so shards send a message and wait; they share no data with
//! this thread. Cached revisions are still served when the catalog is unavailable, and fetches wait
//! for an operator that is being replaced. Requests that wait for a fetch are in the queue of the
//! start, which is bounded for each Worker, namespace and shard. Each request leaves the queue at
//! its own deadline.
//!
//! - [`operators`]: the catalog's client.
//! - [`disk_revisions`]: the revisions on disk.

mod disk_revisions;
mod operators;

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::future::OptionFuture;
use futures::stream::FuturesUnordered;
use futures::{Stream, StreamExt, TryStreamExt as _};
use tenon_lifecycle::cache::Cache;
use tenon_lifecycle::disk_cache::DiskCache;
use tenon_lifecycle::tls::{Connector, Role, Tls};
use tenon_lifecycle::vital;
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::id::RevisionDigest;
use tenon_proto::node::GetRevisionResponse;
use tenon_proto::node::get_revision_response::Part;
use tenon_proto::revision::{Assembler, ByKind, Revision};
use tokio::sync::{mpsc, oneshot};
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

use crate::child::Supervisor;
use crate::config::CatalogConfig;
use disk_revisions::DiskRevisions;
use operators::Operators;

/// Time limit for connecting to an operator.
const CONNECT: Duration = Duration::from_secs(1);

/// A connection that has been silent for `KEEP_ALIVE` is pinged, and dropped if no answer arrives
/// within `KEEP_ALIVE_TIMEOUT`.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Capacity of the cache of modules and bindings, in bytes. A node runs a few hundred revisions,
/// most of them small.
const REVISIONS_CAPACITY: usize = 64 << 20;

/// Capacity of the bytecode cache in memory, in bytes: bytecode is about as large as source code.
const BYTECODE_CAPACITY: usize = 64 << 20;

/// Capacity of the bytecode cache on disk, in bytes. Bytecode that is damaged or from another
/// version of V8 is ignored; new bytecode is then written after the start.
const DISK_CAPACITY: usize = 1 << 30;

/// A revision, with the bytecode of its modules if there is any.
#[derive(Clone)]
pub struct RevisionWithBytecode {
    pub revision: Arc<Revision>,
    /// An encoded [`Bytecode`](tenon_engine::Bytecode), which has not been validated.
    pub bytecode: Option<Bytes>,
}

type SourceResult = Result<RevisionWithBytecode, Failure>;

/// A handle to the process's source of revisions, for any thread.
#[derive(Clone)]
pub struct Source(Origin);

#[derive(Clone)]
enum Origin {
    Catalog { orders_tx: mpsc::UnboundedSender<Order> },
    Supervisor(Supervisor),
}

enum Order {
    /// Fetches the revision of this Worker.
    Fetch(Box<str>, RevisionDigest, oneshot::Sender<SourceResult>),
    Keep(RevisionDigest, Bytes),
}

impl Source {
    /// Starts the thread, which ends when the last handle is dropped. The first fetch connects to
    /// the catalog.
    ///
    /// # Arguments
    /// * `catalog` - the addresses of the catalog.
    /// * `tls` - used if the catalog's URL is `https`.
    /// * `disk` - the directory for revisions and bytecode, if they are to outlive the process.
    ///
    /// # Errors
    /// Fails if the system cannot create the event loop or the thread, or if the directory is
    /// unusable.
    pub fn spawn(
        catalog: CatalogConfig,
        tls: Option<Tls>,
        disk: Option<PathBuf>,
    ) -> io::Result<Self> {
        let disk_revisions = disk.as_deref().map(DiskRevisions::open).transpose()?;
        let disk = disk.map(|directory| DiskCache::open(directory, DISK_CAPACITY)).transpose()?;
        let (orders_tx, orders_rx) = mpsc::unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let CatalogConfig { ready, starting, wait } = catalog;
        vital::spawn("source".to_owned(), move || {
            runtime.block_on(async {
                let operators = Operators::connect(ready, starting, tls, wait);
                serve(&operators, disk_revisions, disk, orders_rx).await;
            });
        })?;
        Ok(Self(Origin::Catalog { orders_tx }))
    }

    /// Returns a source that fetches from the supervisor, for a shard's process.
    pub(crate) fn via_supervisor(supervisor: Supervisor) -> Self {
        Self(Origin::Supervisor(supervisor))
    }

    /// Returns the revision with this digest, from a cache, the catalog or the supervisor, with its
    /// bytecode if there is any.
    ///
    /// # Arguments
    /// * `worker` - the id of the Worker to which the revision belongs.
    ///
    /// # Errors
    /// Fails with [`FailureCode::RevisionUnavailable`] if the revision cannot be fetched now.
    pub async fn fetch(&self, worker: &str, digest: RevisionDigest) -> SourceResult {
        let orders_tx = match &self.0 {
            Origin::Catalog { orders_tx } => orders_tx,
            Origin::Supervisor(supervisor) => {
                let parts = supervisor
                    .get_revision(worker, &digest)
                    .await
                    .map_err(|status| Failure::from(&status))?;
                return receive(digest, parts).await;
            }
        };
        let (answer_tx, answer_rx) = oneshot::channel();
        let shutting_down = || unavailable("the node is shutting down");
        orders_tx
            .send(Order::Fetch(worker.into(), digest, answer_tx))
            .map_err(|_| shutting_down())?;
        answer_rx.await.unwrap_or_else(|_| Err(shutting_down()))
    }

    /// Fetches the revision with this digest into the cache, for a request that will arrive soon.
    pub(crate) fn prefetch(&self, worker: &str, digest: RevisionDigest) {
        if let Origin::Catalog { orders_tx } = &self.0 {
            let (answer_tx, _unused_rx) = oneshot::channel();
            // If the receiver has been dropped, there are no later starts.
            _ = orders_tx.send(Order::Fetch(worker.into(), digest, answer_tx));
        }
    }

    /// Keeps the bytecode of a revision for later starts.
    pub async fn keep(&self, digest: RevisionDigest, bytecode: Bytes) {
        match &self.0 {
            // If the receiver has been dropped, there are no later starts.
            Origin::Catalog { orders_tx } => _ = orders_tx.send(Order::Keep(digest, bytecode)),
            Origin::Supervisor(supervisor) => supervisor.keep_bytecode(&digest, bytecode).await,
        }
    }
}

/// Creates a channel to the catalog that connects when it is first used, and again when the
/// connection is lost. The channel belongs to the runtime on which this is called.
pub(crate) fn connect(catalog: Endpoint, tls: Option<Tls>) -> Channel {
    let catalog = catalog
        .connect_timeout(CONNECT)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .keep_alive_while_idle(true);
    catalog.connect_with_connector_lazy(Connector::new(tls, Role::Operator, CONNECT))
}

/// Carries out orders until every handle has been dropped.
async fn serve(
    operators: &Operators,
    mut disk_revisions: Option<DiskRevisions>,
    mut disk: Option<DiskCache<RevisionDigest>>,
    mut orders_rx: mpsc::UnboundedReceiver<Order>,
) {
    let mut revisions: Cache<RevisionDigest, Arc<Revision>> = Cache::new(REVISIONS_CAPACITY);
    let mut bytecodes: Cache<RevisionDigest, Bytes> = Cache::new(BYTECODE_CAPACITY);
    let mut waiting: HashMap<RevisionDigest, Vec<oneshot::Sender<SourceResult>>> = HashMap::new();
    let mut fetches = FuturesUnordered::new();
    loop {
        tokio::select! {
            order = orders_rx.recv() => match order {
                None => return,
                Some(Order::Keep(digest, bytecode)) => {
                    bytecodes.insert(digest, bytecode.clone(), bytecode.len());
                    if let Some(disk) = &mut disk {
                        disk.write(digest, bytecode);
                    }
                }
                Some(Order::Fetch(worker, digest, answer_tx)) => {
                    let revision = revisions.get(&digest).cloned();
                    let bytecode = bytecodes.get(&digest).cloned();
                    let file = match (&bytecode, &mut disk) {
                        (None, Some(disk)) => disk.read(digest),
                        _ => None,
                    };
                    if let (Some(revision), None) = (&revision, &file) {
                        let revision = Arc::clone(revision);
                        // If the receiver has been dropped, the request was canceled.
                        let _ = answer_tx.send(Ok(RevisionWithBytecode { revision, bytecode }));
                        continue;
                    }
                    let waiters = waiting.entry(digest).or_default();
                    if waiters.is_empty() {
                        let read = match (&revision, &mut disk_revisions) {
                            (None, Some(on_disk)) => on_disk.read(digest),
                            _ => None,
                        };
                        fetches.push(async move {
                            let revision = obtain(operators, revision, read, &worker, digest);
                            let (revision, file) = tokio::join!(revision, OptionFuture::from(file));
                            (digest, revision, bytecode.or(file.flatten()))
                        });
                    }
                    waiters.push(answer_tx);
                }
            },
            Some((digest, obtained, bytecode)) = fetches.next() => {
                if let Ok((revision, origin)) = &obtained {
                    revisions.insert(digest, Arc::clone(revision), size(revision));
                    if let (Obtained::Fetched, Some(on_disk)) = (origin, &mut disk_revisions) {
                        on_disk.write(digest, revision);
                    }
                }
                if let Some(bytecode) = &bytecode {
                    bytecodes.insert(digest, bytecode.clone(), bytecode.len());
                }
                let answer =
                    obtained.map(|(revision, _)| RevisionWithBytecode { revision, bytecode });
                for answer_tx in waiting.remove(&digest).unwrap_or_default() {
                    let _ = answer_tx.send(answer.clone());
                }
            }
        }
    }
}

/// The place from which a revision came: a cache, or an operator.
enum Obtained {
    Cached,
    Fetched,
}

/// Returns the revision in memory, or else the one on disk, or else fetches it.
async fn obtain(
    operators: &Operators,
    cached: Option<Arc<Revision>>,
    read: Option<impl Future<Output = Option<Revision>>>,
    worker: &str,
    digest: RevisionDigest,
) -> Result<(Arc<Revision>, Obtained), Failure> {
    if let Some(revision) = cached {
        return Ok((revision, Obtained::Cached));
    }
    if let Some(revision) = OptionFuture::from(read).await.flatten() {
        return Ok((Arc::new(revision), Obtained::Cached));
    }
    Ok((operators.fetch(worker, digest).await?, Obtained::Fetched))
}

/// Returns the size of the revision's modules and bindings, in bytes.
fn size(revision: &Revision) -> usize {
    let modules = revision.modules.iter().map(|(name, source)| name.len() + source.len());
    let ByKind { vars, secrets, services: _, assets: _ } = ByKind::of(&revision.bindings);
    let bindings = vars.into_iter().chain(secrets).map(|(name, value)| name.len() + value.len());
    modules.chain(bindings).sum()
}

/// Receives a revision that the supervisor sends from its own source, and verifies the content
/// against the digest.
///
/// # Errors
/// Fails with [`FailureCode::RevisionUnavailable`] if the supervisor cannot get the revision now,
/// or if the response is damaged.
pub(crate) async fn receive(
    digest: RevisionDigest,
    mut parts: impl Stream<Item = Result<GetRevisionResponse, Status>> + Unpin,
) -> SourceResult {
    let (mut assembler, mut bytecode) = (Assembler::default(), BytesMut::new());
    let damaged = |_| unavailable("the supervisor's response is damaged");
    while let Some(message) = parts.try_next().await.map_err(|status| Failure::from(&status))? {
        match message.part {
            Some(Part::Revision(part)) => assembler.push(part).map_err(damaged)?,
            Some(Part::Bytecode(piece)) => bytecode.extend_from_slice(&piece),
            None => {}
        }
    }
    match assembler.finish().map_err(damaged)? {
        (actual, revision) if actual == digest => {
            let bytecode = (!bytecode.is_empty()).then(|| bytecode.freeze());
            Ok(RevisionWithBytecode { revision: Arc::new(revision), bytecode })
        }
        _ => Err(unavailable("the supervisor sent another revision")),
    }
}

fn unavailable(why: &str) -> Failure {
    Failure::new(FailureCode::RevisionUnavailable, Phase::Start, why)
}
