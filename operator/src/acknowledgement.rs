//! Asks the routers whether they serve a Worker as the catalog announces it, before the Worker is
//! `Ready`.
//!
//! ```text
//!  status names a new revision ─► catalog ─► every replica's routers
//!        ▲                          │ entry
//!        │                          ▼
//!      plan ◄── touched ◄── Acknowledgements ──AwaitWorker──► any router
//! ```
//!
//! A router watches one replica, which need not be the leader, so the leader cannot tell from its
//! own watchers what routers know. It asks through the routers' Service instead. This costs one
//! small request for each deployment, which the router answers when it has applied the entry.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::Uri;
use tenon_lifecycle::tls::{Connector, Role, Tls};
use tenon_proto::catalog::Worker;
use tenon_proto::id::WorkerId;
use tenon_proto::router::AwaitWorkerRequest;
use tenon_proto::router::router_client::RouterClient;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, ConnectError, Status};

/// Time after which the status says that no router has acknowledged the entry. The leader continues
/// to ask the routers.
const ACKNOWLEDGE_WITHIN: Duration = Duration::from_secs(10);

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Timeout of one attempt. It exceeds the router's own timeout by the time to connect.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause after the first attempt. The pause doubles with each further attempt.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Maximum pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Maximum number of concurrent attempts.
const CONCURRENCY: usize = 64;

/// The state of the routers' acknowledgement of a catalog entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acknowledgement {
    /// The leader has not asked the routers yet, or has asked them for less than `ACKNOWLEDGE_WITHIN`.
    Pending,
    Given,
    /// No router has acknowledged the entry within `ACKNOWLEDGE_WITHIN`, for this reason.
    Missing(String),
}

/// The questions to routers, and their answers. Clones share them.
#[derive(Clone)]
pub struct Acknowledgements {
    shared: Arc<Shared>,
}

struct Shared {
    endpoint: Endpoint,
    connector: Connector,
    router: Mutex<RouterClient<Channel>>,
    attempts: Semaphore,
    questions: Mutex<HashMap<WorkerId, Question>>,
    touched_tx: mpsc::UnboundedSender<WorkerId>,
}

/// The question about one Worker.
struct Question {
    entry: Worker,
    outcome: Acknowledgement,
    task: AbortHandle,
}

impl Drop for Question {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Acknowledgements {
    /// Creates the client, which connects to a router with the first question.
    ///
    /// # Arguments
    /// * `router` - URL of the routers' internal listener.
    /// * `tls` - required for `https://`.
    /// * `touched_tx` - receives a Worker's id whenever the routers' answer about the Worker
    ///   changes.
    pub fn new(router: Uri, tls: Option<Tls>, touched_tx: mpsc::UnboundedSender<WorkerId>) -> Self {
        let endpoint = Endpoint::from(router).connect_timeout(CONNECT_TIMEOUT);
        let connector = Connector::new(tls, Role::Router, CONNECT_TIMEOUT);
        let router = RouterClient::new(endpoint.connect_with_connector_lazy(connector.clone()));
        let shared = Shared {
            endpoint,
            connector,
            router: Mutex::new(router),
            attempts: Semaphore::new(CONCURRENCY),
            questions: Mutex::default(),
            touched_tx,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Returns the state of the acknowledgement of an entry.
    pub fn of(&self, id: &WorkerId, entry: &Worker) -> Acknowledgement {
        match self.questions().get(id) {
            Some(question) if question.entry == *entry => question.outcome.clone(),
            _ => Acknowledgement::Pending,
        }
    }

    /// Asks about an entry, unless the same question exists. Cancels a question about an earlier
    /// entry of the Worker.
    pub fn ask(&self, id: &WorkerId, entry: &Worker) {
        let mut all = self.questions();
        if all.get(id).is_some_and(|question| question.entry == *entry) {
            return;
        }
        let (shared, about, wanted) = (self.shared.clone(), id.clone(), entry.clone());
        let task = tokio::spawn(async move { shared.ask(&about, wanted).await }).abort_handle();
        let outcome = Acknowledgement::Pending;
        all.insert(id.clone(), Question { entry: entry.clone(), outcome, task });
    }

    /// Cancels the question about a Worker.
    pub fn forget(&self, id: &WorkerId) {
        self.questions().remove(id);
    }

    /// Cancels all questions.
    pub fn forget_all(&self) {
        self.questions().clear();
    }

    fn questions(&self) -> MutexGuard<'_, HashMap<WorkerId, Question>> {
        // Each change of the map is one call, so a panic cannot leave it half changed.
        self.shared.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    async fn ask(&self, id: &WorkerId, entry: Worker) {
        let (began, mut pause) = (Instant::now(), FIRST_PAUSE);
        let mut attempt = self.attempt(&entry, false).await;
        while let Err(status) = attempt {
            if began.elapsed() >= ACKNOWLEDGE_WITHIN {
                self.answer(id, Acknowledgement::Missing(reason(&status)));
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
            attempt = self.attempt(&entry, true).await;
        }
        self.answer(id, Acknowledgement::Given);
    }

    /// Asks one router.
    ///
    /// # Arguments
    /// * `reconnect` - whether to open a connection, which may lead to another router.
    async fn attempt(&self, entry: &Worker, reconnect: bool) -> Result<(), Status> {
        let _attempt = self.attempts.acquire().await.expect("the semaphore is never closed");
        let mut router = if reconnect { self.connect() } else { self.router().clone() };
        let request = AwaitWorkerRequest { worker: Some(entry.clone()) };
        let answer = timeout(ATTEMPT_TIMEOUT, router.await_worker(request)).await;
        match answer.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer"))) {
            Ok(_) => {}
            // During an upgrade, a router of an earlier version does not know this method.
            Err(status) if status.code() == Code::Unimplemented => {}
            Err(status) => return Err(status),
        }
        if reconnect {
            *self.router() = router;
        }
        Ok(())
    }

    fn connect(&self) -> RouterClient<Channel> {
        RouterClient::new(self.endpoint.connect_with_connector_lazy(self.connector.clone()))
    }

    fn router(&self) -> MutexGuard<'_, RouterClient<Channel>> {
        self.router.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, id: &WorkerId, outcome: Acknowledgement) {
        let mut all = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(question) = all.get_mut(id).filter(|known| known.outcome != outcome) else {
            return;
        };
        question.outcome = outcome;
        // The receiver lives as long as the process.
        let _ = self.touched_tx.send(id.clone());
    }
}

/// Returns the reason for a failed attempt, without details that differ between attempts.
fn reason(status: &Status) -> String {
    let sources = std::iter::successors(std::error::Error::source(status), |error| error.source());
    if sources.into_iter().any(|error| error.is::<ConnectError>()) {
        return "no router can be reached".to_owned();
    }
    match status.code() {
        Code::DeadlineExceeded => {
            "a router can be reached but has not applied the entry of the catalog".to_owned()
        }
        code => format!("a router answered: {}", code.description()),
    }
}
