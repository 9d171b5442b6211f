//! Where revisions come from: the catalog, by digest, on a thread of its own; or, in a shard's process, the supervisor,
//! which has that thread.
//!
//! ```text
//!  shard 0 ─┐            ┌─ cache, by digest ──────────────► answer
//!  shard 1 ─┼─ fetch ──► │
//!  shard n ─┘            └─ one GetRevision, many waiters ──► verify ──► cache, answers
//! ```
//!
//! With a revision goes the bytecode of its modules, once an isolate of it has been used and handed that in: kept in
//! memory, and on a disk if there is one for it.
//!
//! Only cold starts come here, so shards send a message and wait; nothing is shared with them. What is cached
//! goes on being served when the catalog is gone, and an operator that is replaced is waited for.

mod disk;

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::future::OptionFuture;
use futures::stream::FuturesUnordered;
use futures::{Stream, StreamExt, TryStreamExt as _};
use tenon_lifecycle::tls::{Connector, Role, Tls};
use tenon_lifecycle::vital;
use tenon_proto::catalog::GetRevisionRequest;
use tenon_proto::catalog::catalog_client::CatalogClient;
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::id::RevisionDigest;
use tenon_proto::node::GetRevisionResponse;
use tenon_proto::node::get_revision_response::Part;
use tenon_proto::revision::{Assembler, MalformedRevision, Revision};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use crate::cache::Cache;
use crate::seat::Supervisor;
use disk::Disk;

/// How long one try at the catalog may take, for a revision of many megabytes too.
const ATTEMPT: Duration = Duration::from_secs(5);
const CONNECT: Duration = Duration::from_secs(1);

/// A connection on which nothing has come for so long is asked whether it still lives, and given so long to answer.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Between tries; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_millis(400);

/// Bytes of modules and bindings that are kept. A node runs some hundreds of revisions, of which few are large.
const REVISIONS: usize = 64 << 20;

/// Bytes of bytecode that are kept in memory: about as much as there is source.
const BYTECODE: usize = 64 << 20;

/// A revision, and the bytecode of its modules if there is any.
#[derive(Clone)]
pub struct Sourced {
    pub revision: Arc<Revision>,
    /// Encoded, as an isolate's [`Bytecode`](crate::engine::Bytecode) says. What it holds is looked at where it is run.
    pub bytecode: Option<Bytes>,
}

type Answer = Result<Sourced, Failure>;

/// A handle on the process's source of revisions. Any thread may use it.
#[derive(Clone)]
pub struct Source(Origin);

#[derive(Clone)]
enum Origin {
    Catalog { orders_tx: mpsc::UnboundedSender<Order> },
    Supervisor(Supervisor),
}

enum Order {
    Fetch(RevisionDigest, oneshot::Sender<Answer>),
    Keep(RevisionDigest, Bytes),
}

/// Why a try at the catalog brought no revision.
#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error("the catalog has no such revision")]
    Unknown,
    #[error("the catalog cannot be reached: {0}")]
    Unreachable(Status),
    #[error("the catalog did not answer in time")]
    Silent,
    #[error("the catalog's answer is damaged: {0}")]
    Malformed(#[from] MalformedRevision),
    #[error("the catalog answered with revision {0}")]
    Other(RevisionDigest),
}

impl Source {
    /// Starts the thread, which ends with the last handle. Nothing is connected before the first fetch.
    ///
    /// # Arguments
    /// * `tls` - where the catalog's URL says so.
    /// * `disk` - the directory for bytecode, if it is to outlive the process.
    ///
    /// # Errors
    /// When the thread cannot be made, or the directory cannot be used.
    pub fn spawn(catalog: Endpoint, tls: Option<Tls>, disk: Option<PathBuf>) -> io::Result<Self> {
        let disk = disk.map(Disk::open).transpose()?;
        let (orders_tx, orders_rx) = mpsc::unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        vital::spawn("source".to_owned(), move || {
            runtime.block_on(async { serve(connect(catalog, tls), disk, orders_rx).await });
        })?;
        Ok(Self(Origin::Catalog { orders_tx }))
    }

    /// The supervisor, for a shard's process.
    pub(crate) fn of_supervisor(supervisor: Supervisor) -> Self {
        Self(Origin::Supervisor(supervisor))
    }

    /// The revision of that digest, from the cache or the catalog, and what there is of bytecode.
    ///
    /// # Errors
    /// [`FailureCode::RevisionUnavailable`] when it cannot be had now.
    pub async fn fetch(&self, digest: RevisionDigest) -> Answer {
        let orders_tx = match &self.0 {
            Origin::Catalog { orders_tx } => orders_tx,
            Origin::Supervisor(supervisor) => {
                let parts = supervisor.get_revision(&digest).await.map_err(|status| Failure::from(&status))?;
                return receive(digest, parts).await;
            }
        };
        let (answer_tx, answer_rx) = oneshot::channel();
        let gone = || unavailable("the node is shutting down");
        orders_tx.send(Order::Fetch(digest, answer_tx)).map_err(|_| gone())?;
        answer_rx.await.unwrap_or_else(|_| Err(gone()))
    }

    /// Has the revision of that digest be here when it is asked for, which will be soon.
    pub(crate) fn prefetch(&self, digest: RevisionDigest) {
        if let Origin::Catalog { orders_tx } = &self.0 {
            let (answer_tx, _nobody_waits) = oneshot::channel();
            // Without the thread there are no starts to come.
            _ = orders_tx.send(Order::Fetch(digest, answer_tx));
        }
    }

    /// Keeps the bytecode of a revision for starts to come.
    pub async fn keep(&self, digest: RevisionDigest, bytecode: Bytes) {
        match &self.0 {
            // Without the thread there are no starts to come.
            Origin::Catalog { orders_tx } => _ = orders_tx.send(Order::Keep(digest, bytecode)),
            Origin::Supervisor(supervisor) => supervisor.keep_bytecode(&digest, bytecode).await,
        }
    }
}

/// A connection to the catalog for as long as the process runs, made when it is needed and again when it is lost. Belongs to
/// the runtime that this is called on.
pub(crate) fn connect(catalog: Endpoint, tls: Option<Tls>) -> Channel {
    let catalog = catalog
        .connect_timeout(CONNECT)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .keep_alive_while_idle(true);
    catalog.connect_with_connector_lazy(Connector::new(tls, Role::Operator, CONNECT))
}

/// Runs until every handle is dropped.
async fn serve(catalog: Channel, mut disk: Option<Disk>, mut orders_rx: mpsc::UnboundedReceiver<Order>) {
    let client = CatalogClient::new(catalog);
    let mut revisions: Cache<Arc<Revision>> = Cache::new(REVISIONS);
    let mut bytecodes: Cache<Bytes> = Cache::new(BYTECODE);
    let mut waiting: HashMap<RevisionDigest, Vec<oneshot::Sender<Answer>>> = HashMap::new();
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
                Some(Order::Fetch(digest, answer_tx)) => {
                    let (revision, bytecode) = (revisions.get(&digest).cloned(), bytecodes.get(&digest).cloned());
                    let file = match (&bytecode, &mut disk) {
                        (None, Some(disk)) => disk.read(digest),
                        _ => None,
                    };
                    if let (Some(revision), None) = (&revision, &file) {
                        // The one who asked may have gone.
                        let _ = answer_tx.send(Ok(Sourced { revision: Arc::clone(revision), bytecode }));
                        continue;
                    }
                    let waiters = waiting.entry(digest).or_default();
                    if waiters.is_empty() {
                        let client = client.clone();
                        fetches.push(async move {
                            let revision = async {
                                match revision {
                                    Some(revision) => Ok(revision),
                                    None => fetch(client, digest).await,
                                }
                            };
                            let (revision, file) = tokio::join!(revision, OptionFuture::from(file));
                            (digest, revision, bytecode.or(file.flatten()))
                        });
                    }
                    waiters.push(answer_tx);
                }
            },
            Some((digest, revision, bytecode)) = fetches.next() => {
                if let Ok(revision) = &revision {
                    revisions.insert(digest, Arc::clone(revision), size(revision));
                }
                if let Some(bytecode) = &bytecode {
                    bytecodes.insert(digest, bytecode.clone(), bytecode.len());
                }
                let answer = revision.map(|revision| Sourced { revision, bytecode });
                for answer_tx in waiting.remove(&digest).unwrap_or_default() {
                    let _ = answer_tx.send(answer.clone());
                }
            }
        }
    }
}

/// Of its modules and bindings, in bytes.
fn size(revision: &Revision) -> usize {
    let modules = revision.modules.iter().map(|(name, source)| name.len() + source.len());
    let bindings = revision.vars.iter().chain(&revision.secrets).map(|(name, value)| name.len() + value.len());
    modules.chain(bindings).sum()
}

/// Tries until the revision is there or the patience with what went wrong is at its end.
async fn fetch(client: CatalogClient<Channel>, digest: RevisionDigest) -> Result<Arc<Revision>, Failure> {
    let began = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        let attempt = tokio::time::timeout(ATTEMPT, get_revision(client.clone(), digest)).await;
        let error = match attempt.unwrap_or(Err(FetchError::Silent)) {
            Ok(revision) => return Ok(Arc::new(revision)),
            Err(error) => error,
        };
        if began.elapsed() + pause > error.patience() {
            tracing::warn!(revision = %digest, %error, "cannot fetch a revision");
            return Err(error.into());
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// What the supervisor sends of its own source, which has verified it against its digest; so does the assembler here.
///
/// # Errors
/// [`FailureCode::RevisionUnavailable`] when the supervisor cannot have it now.
pub(crate) async fn receive(
    digest: RevisionDigest,
    mut parts: impl Stream<Item = Result<GetRevisionResponse, Status>> + Unpin,
) -> Answer {
    let (mut assembler, mut bytecode) = (Assembler::default(), BytesMut::new());
    let damaged = |_| unavailable("the supervisor's answer is damaged");
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
            Ok(Sourced { revision: Arc::new(revision), bytecode })
        }
        _ => Err(unavailable("the supervisor answered with another revision")),
    }
}

async fn get_revision(mut client: CatalogClient<Channel>, digest: RevisionDigest) -> Result<Revision, FetchError> {
    let request = GetRevisionRequest { digest: digest.as_bytes().to_vec() };
    let mut messages = client.get_revision(request).await?.into_inner();
    let mut assembler = Assembler::default();
    while let Some(message) = messages.message().await? {
        assembler.push(message)?;
    }
    // Its content has been held against the digest that it came with.
    match assembler.finish()? {
        (actual, revision) if actual == digest => Ok(revision),
        (actual, _) => Err(FetchError::Other(actual)),
    }
}

impl FetchError {
    /// How long after the first try another one is worth while.
    fn patience(&self) -> Duration {
        match self {
            // A router may have heard of it from another replica of the operator than the one we ask.
            Self::Unknown => Duration::from_millis(500),
            // Long enough for another replica to take over a connection, short enough for a caller who waits.
            Self::Unreachable(_) => Duration::from_secs(2),
            Self::Silent | Self::Malformed(_) | Self::Other(_) => Duration::ZERO,
        }
    }
}

impl From<Status> for FetchError {
    fn from(status: Status) -> Self {
        match status.code() {
            Code::NotFound => Self::Unknown,
            _ => Self::Unreachable(status),
        }
    }
}

/// For the caller: what is wrong with the catalog's insides is for the log.
impl From<FetchError> for Failure {
    fn from(error: FetchError) -> Self {
        unavailable(match error {
            FetchError::Unknown => "the catalog has no such revision",
            FetchError::Unreachable(_) | FetchError::Silent => "the catalog cannot be reached",
            FetchError::Malformed(_) | FetchError::Other(_) => "the catalog's answer is damaged",
        })
    }
}

fn unavailable(why: &str) -> Failure {
    Failure::new(FailureCode::RevisionUnavailable, Phase::Start, why)
}
