//! Fetches revisions from the operators, and waits while none of them answers.
//!
//! ```text
//!  fetch ─► operator ── cannot answer ─► pause ─► another connection ─► operator …
//!             └─ revision ─► verify               to the next address
//! ```
//!
//! The address of the catalog leads to any operator that is ready. A connection to an operator that
//! cannot answer is replaced, and the next one may lead to another operator. Operators that have
//! not listed the cluster yet answer at an address of their own, because they find a revision
//! without their index; nodes alternate between that address and the first.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use tenon_lifecycle::tls::Tls;
use tenon_proto::catalog::GetRevisionRequest;
use tenon_proto::catalog::catalog_client::CatalogClient;
use tenon_proto::failure::Failure;
use tenon_proto::id::RevisionDigest;
use tenon_proto::revision::{Assembler, MalformedRevision, Revision};
use tokio::time::Instant;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use super::{connect, unavailable};

/// Time limit of one request to the catalog, which may return many megabytes.
const ATTEMPT: Duration = Duration::from_secs(5);

/// First and longest pause between attempts; the pause doubles after each attempt.
const FIRST_PAUSE: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_millis(400);

/// Minimum age of a connection that is replaced, so that many fetches that fail at the same time do
/// not open many connections.
const MIN_AGE: Duration = Duration::from_millis(200);

/// Time after the first attempt within which a fetch is retried if an operator that answers may not
/// know the latest change yet.
const LAG: Duration = Duration::from_millis(500);

/// The connection to an operator, for one thread.
pub(super) struct Operators {
    addresses: Vec<Endpoint>,
    tls: Option<Tls>,
    /// Maximum time for which a fetch waits for an operator that answers.
    wait: Duration,
    current: RefCell<Connection>,
}

struct Connection {
    client: CatalogClient<Channel>,
    /// Number of connections before this one.
    number: usize,
    since: Instant,
}

/// The reason why a request to the catalog returned no revision.
#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error("the catalog has no such revision")]
    Unknown,
    #[error("the catalog cannot resolve the revision: {0}")]
    Unresolved(Status),
    #[error("the catalog refuses the revision to the pool of this node: {0}")]
    Denied(Status),
    #[error("the catalog cannot be reached: {0}")]
    Unreachable(Status),
    #[error("the catalog did not answer before the timeout")]
    Silent,
    #[error("the catalog's response is damaged: {0}")]
    Malformed(#[from] MalformedRevision),
    #[error("the catalog sent revision {0} instead")]
    Other(RevisionDigest),
}

impl Operators {
    /// Creates the connection, which opens when it is first used. The connection belongs to the
    /// runtime on which this is called.
    ///
    /// # Arguments
    /// * `catalog` - the address of the operators that are ready.
    /// * `starting` - the address of all operators, if there is one.
    /// * `wait` - the maximum time for which a fetch waits for an operator that answers.
    pub(super) fn connect(
        catalog: Endpoint,
        starting: Option<Endpoint>,
        tls: Option<Tls>,
        wait: Duration,
    ) -> Self {
        let client = CatalogClient::new(connect(catalog.clone(), tls.clone()));
        let current = RefCell::new(Connection { client, number: 0, since: Instant::now() });
        Self { addresses: [catalog].into_iter().chain(starting).collect(), tls, wait, current }
    }

    /// Fetches a revision, and retries for as long as the error's retry time allows.
    ///
    /// # Arguments
    /// * `worker` - the Worker to which the revision belongs. An operator without an index needs it
    ///   to find the revision.
    pub(super) async fn fetch(
        &self,
        worker: &str,
        digest: RevisionDigest,
    ) -> Result<Arc<Revision>, Failure> {
        let began = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            let (client, number) = self.current();
            let request = GetRevisionRequest {
                digest: digest.as_bytes().to_vec(),
                worker: worker.to_owned(),
            };
            let attempt = tokio::time::timeout(ATTEMPT, get_revision(client, request, digest));
            let error = match attempt.await.unwrap_or(Err(FetchError::Silent)) {
                Ok(revision) => return Ok(Arc::new(revision)),
                Err(error) => error,
            };
            if began.elapsed() + pause > error.retry_time(self.wait) {
                tracing::warn!(worker, revision = %digest, %error, "cannot fetch a revision");
                return Err(error.into());
            }
            if error.may_succeed_elsewhere() {
                self.replace(number);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn current(&self) -> (CatalogClient<Channel>, usize) {
        let current = self.current.borrow();
        (current.client.clone(), current.number)
    }

    /// Replaces the connection with this number, unless another fetch has done so or the connection
    /// is younger than [`MIN_AGE`].
    fn replace(&self, number: usize) {
        let mut current = self.current.borrow_mut();
        if current.number == number && current.since.elapsed() >= MIN_AGE {
            let number = number + 1;
            let address = self.addresses[number % self.addresses.len()].clone();
            let client = CatalogClient::new(connect(address, self.tls.clone()));
            *current = Connection { client, number, since: Instant::now() };
        }
    }
}

async fn get_revision(
    mut client: CatalogClient<Channel>,
    request: GetRevisionRequest,
    digest: RevisionDigest,
) -> Result<Revision, FetchError> {
    let mut messages = client.get_revision(request).await?.into_inner();
    let mut assembler = Assembler::default();
    while let Some(message) = messages.message().await? {
        assembler.push(message)?;
    }
    // The assembler has verified the content against the digest that came with it.
    match assembler.finish()? {
        (actual, revision) if actual == digest => Ok(revision),
        (actual, _) => Err(FetchError::Other(actual)),
    }
}

impl FetchError {
    /// Returns the time after the beginning of the first attempt within which a fetch is retried.
    ///
    /// # Arguments
    /// * `wait` - the maximum time for which a fetch waits for an operator that answers.
    fn retry_time(&self, wait: Duration) -> Duration {
        match self {
            // A router may have learned of the revision from another replica of the operator.
            Self::Unknown => LAG.min(wait),
            // The Worker may have moved to this pool, and this replica may not know the move yet.
            Self::Denied(_) => LAG.min(wait),
            Self::Unreachable(_) | Self::Silent => wait,
            Self::Unresolved(_) | Self::Malformed(_) | Self::Other(_) => Duration::ZERO,
        }
    }

    /// Returns whether this operator did not answer, so the next attempt asks another one.
    fn may_succeed_elsewhere(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Silent)
    }
}

impl From<Status> for FetchError {
    fn from(status: Status) -> Self {
        match status.code() {
            Code::NotFound => Self::Unknown,
            Code::FailedPrecondition => Self::Unresolved(status),
            Code::PermissionDenied => Self::Denied(status),
            _ => Self::Unreachable(status),
        }
    }
}

/// Callers get a summary; details of the catalog's failure are in the log.
impl From<FetchError> for Failure {
    fn from(error: FetchError) -> Self {
        unavailable(match error {
            FetchError::Unknown => "the catalog has no such revision",
            FetchError::Unresolved(_) => "a Secret that the Worker binds does not exist",
            FetchError::Denied(_) => "no Worker of the node's pool needs the revision",
            FetchError::Unreachable(_) | FetchError::Silent => "the catalog cannot be reached",
            FetchError::Malformed(_) | FetchError::Other(_) => "the catalog's response is damaged",
        })
    }
}
