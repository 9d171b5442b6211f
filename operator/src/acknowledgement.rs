//! Asks the routers whether they serve a Worker as the catalog announces it, before the Worker is
//! `Ready`.
//!
//! ```text
//!  status names a new revision ─► catalog ─► every replica's routers
//!        ▲                          │ entry
//!        │                          ▼
//!      plan ◄── touched ◄── Acknowledgements ──AwaitWorker──► every ready router
//! ```
//!
//! A router watches one replica, which need not be the leader, so the leader cannot tell from its
//! own watchers what routers know. It asks the routers instead, each of them, because a client may
//! reach any of them. A router answers when it has applied the entry. The first answer makes the
//! Worker `Ready`, once the other routers have answered too or have had [`STRAGGLE`] to do so: a
//! router that does not answer must not hold deployments up. Until it knows the routers' addresses,
//! the leader asks any router behind their Service.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use http::Uri;
use tenon_lifecycle::tls::{Connector, Role, Tls};
use tenon_proto::catalog::Worker;
use tenon_proto::id::WorkerId;
use tenon_proto::router::AwaitWorkerRequest;
use tenon_proto::router::router_client::RouterClient;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, ConnectError, Status};

/// Time after which the status says that no router has acknowledged the entry. The leader continues
/// to ask the routers.
const ACKNOWLEDGE_WITHIN: Duration = Duration::from_secs(10);

/// Time after the first router's acknowledgement for which the Worker waits for the other routers.
const STRAGGLE: Duration = Duration::from_secs(2);

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Timeout of one attempt. It exceeds the router's own timeout by the time to connect.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause after the first attempt. The pause doubles with each further attempt.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Maximum pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Maximum number of concurrent attempts at one router. A router that does not answer uses up only
/// its own.
const CONCURRENCY: usize = 64;

/// The state of the routers' acknowledgement of a catalog entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acknowledgement {
    /// The leader has not asked the routers yet, or has asked them for less than
    /// `ACKNOWLEDGE_WITHIN`.
    Pending,
    Given,
    /// No router acknowledged the entry within `ACKNOWLEDGE_WITHIN`. The string is the reason for
    /// the latest failure.
    Missing(String),
}

/// The questions to routers, and their answers. Clones share them.
#[derive(Clone)]
pub struct Acknowledgements {
    shared: Arc<Shared>,
}

struct Shared {
    /// URL of the routers' Service.
    service: Uri,
    connector: Connector,
    routers_rx: watch::Receiver<Vec<SocketAddr>>,
    routers: Mutex<HashMap<Uri, KnownRouter>>,
    questions: Mutex<HashMap<WorkerId, Question>>,
    touched_tx: mpsc::UnboundedSender<WorkerId>,
}

struct KnownRouter {
    client: RouterClient<Channel>,
    attempts: Arc<Semaphore>,
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
    /// * `service` - URL of the routers' internal listener.
    /// * `tls` - required for `https://`.
    /// * `routers_rx` - addresses of the internal listeners of all ready routers; empty if they are
    ///   not known.
    /// * `touched_tx` - receives a Worker's id whenever the routers' answer about the Worker
    ///   changes.
    pub fn new(
        service: Uri,
        tls: Option<Tls>,
        routers_rx: watch::Receiver<Vec<SocketAddr>>,
        touched_tx: mpsc::UnboundedSender<WorkerId>,
    ) -> Self {
        let shared = Shared {
            service,
            connector: Connector::new(tls, Role::Router, CONNECT_TIMEOUT),
            routers_rx,
            routers: Mutex::default(),
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
        lock(&self.shared.questions)
    }
}

impl Shared {
    async fn ask(&self, id: &WorkerId, entry: Worker) {
        let overdue = sleep_until(Instant::now() + ACKNOWLEDGE_WITHIN);
        let mut overdue = std::pin::pin!(overdue);
        let (mut routers_rx, failure) = (self.routers_rx.clone(), Mutex::new(None));
        let mut asked = self.ask_all(&mut routers_rx, &entry, &failure);
        loop {
            tokio::select! {
                _ = asked.next() => break,
                () = &mut overdue, if !overdue.is_elapsed() => {
                    let failure = lock(&failure).take();
                    let why = failure.as_ref().map_or("no router has answered".to_owned(), reason);
                    self.answer(id, &entry, Acknowledgement::Missing(why));
                }
                // The routers that have been asked may be gone.
                Ok(()) = routers_rx.changed() => {
                    asked = self.ask_all(&mut routers_rx, &entry, &failure);
                }
            }
        }
        let _ = timeout(STRAGGLE, asked.collect::<()>()).await;
        self.answer(id, &entry, Acknowledgement::Given);
    }

    /// Asks all routers that are known now. The stream has an item for each acknowledgement.
    ///
    /// # Arguments
    /// * `failure` - is set to the reason whenever an attempt fails.
    fn ask_all<'a>(
        &'a self,
        routers_rx: &mut watch::Receiver<Vec<SocketAddr>>,
        entry: &'a Worker,
        failure: &'a Mutex<Option<Status>>,
    ) -> FuturesUnordered<impl Future<Output = ()> + use<'a>> {
        let routers = routers_rx.borrow_and_update();
        let scheme = self.service.scheme_str().unwrap_or("http");
        let uri = |router: &SocketAddr| {
            format!("{scheme}://{router}/").parse().expect("an address forms a URL")
        };
        let targets = match routers.is_empty() {
            true => vec![self.service.clone()],
            false => routers.iter().map(uri).collect::<Vec<Uri>>(),
        };
        let mut known = lock(&self.routers);
        // There are more known routers than routers only if some are gone.
        if known.len() > targets.len() {
            known.retain(|router, _| targets.contains(router));
        }
        drop(known);
        targets.into_iter().map(|target| self.ask_one(target, entry, failure)).collect()
    }

    /// Asks one router until it acknowledges the entry.
    async fn ask_one(&self, router: Uri, entry: &Worker, failure: &Mutex<Option<Status>>) {
        let mut pause = FIRST_PAUSE;
        while let Err(status) = self.attempt(&router, entry).await {
            *lock(failure) = Some(status);
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Asks one router once. If the attempt fails, the next one opens a connection, which leads to
    /// another router if the URL is that of the Service.
    async fn attempt(&self, router: &Uri, entry: &Worker) -> Result<(), Status> {
        let attempts = self.with_router(router, |known| known.attempts.clone());
        let _attempt = attempts.acquire().await.expect("the semaphore is never closed");
        // Concurrent questions share the connection.
        let mut client = self.with_router(router, |known| known.client.clone());
        let request = AwaitWorkerRequest { worker: Some(entry.clone()) };
        let answer = timeout(ATTEMPT_TIMEOUT, client.await_worker(request)).await;
        match answer.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer"))) {
            Ok(_) => Ok(()),
            // During an upgrade, a router of an earlier version does not know this method.
            Err(status) if status.code() == Code::Unimplemented => Ok(()),
            Err(status) => {
                self.with_router(router, |known| known.client = self.connect(router));
                Err(status)
            }
        }
    }

    fn with_router<T>(&self, router: &Uri, with: impl FnOnce(&mut KnownRouter) -> T) -> T {
        let mut routers = lock(&self.routers);
        let new = || KnownRouter {
            client: self.connect(router),
            attempts: Arc::new(Semaphore::new(CONCURRENCY)),
        };
        with(routers.entry(router.clone()).or_insert_with(new))
    }

    fn connect(&self, router: &Uri) -> RouterClient<Channel> {
        let endpoint = Endpoint::from(router.clone()).connect_timeout(CONNECT_TIMEOUT);
        RouterClient::new(endpoint.connect_with_connector_lazy(self.connector.clone()))
    }

    /// Sets the outcome of the question about an entry, unless another question has replaced it.
    fn answer(&self, id: &WorkerId, entry: &Worker, outcome: Acknowledgement) {
        let mut all = lock(&self.questions);
        let is_new = |known: &&mut Question| known.entry == *entry && known.outcome != outcome;
        let Some(question) = all.get_mut(id).filter(is_new) else { return };
        question.outcome = outcome;
        // The receiver lives as long as the process.
        let _ = self.touched_tx.send(id.clone());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each change below a mutex is one call, so a panic cannot leave it half made.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tenon_proto::router::AwaitWorkerResponse;
    use tenon_proto::router::router_server::{Router, RouterServer};
    use tonic::transport::Server;
    use tonic::transport::server::TcpIncoming;
    use tonic::{Request, Response};

    use super::*;

    /// A router that acknowledges entries while `serves_rx` is true.
    struct Stub {
        serves_rx: watch::Receiver<bool>,
    }

    #[tonic::async_trait]
    impl Router for Stub {
        async fn await_worker(
            &self,
            _: Request<AwaitWorkerRequest>,
        ) -> Result<Response<AwaitWorkerResponse>, Status> {
            let mut serves_rx = self.serves_rx.clone();
            // A test that has ended drops the sender.
            let _ = serves_rx.wait_for(|serves| *serves).await;
            Ok(Response::new(AwaitWorkerResponse {}))
        }
    }

    fn start_router(serves: bool) -> (SocketAddr, watch::Sender<bool>) {
        let (serves_tx, serves_rx) = watch::channel(serves);
        let incoming = TcpIncoming::bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let address = incoming.local_addr().unwrap();
        let server = Server::builder().add_service(RouterServer::new(Stub { serves_rx }));
        tokio::spawn(server.serve_with_incoming(incoming));
        (address, serves_tx)
    }

    /// The question about one Worker.
    struct Asked {
        acknowledgements: Acknowledgements,
        routers_tx: watch::Sender<Vec<SocketAddr>>,
        touched_rx: mpsc::UnboundedReceiver<WorkerId>,
        began: Instant,
    }

    impl Asked {
        fn of(service: SocketAddr, routers: Vec<SocketAddr>) -> Self {
            let (routers_tx, routers_rx) = watch::channel(routers);
            let (touched_tx, touched_rx) = mpsc::unbounded_channel();
            let service = format!("http://{service}").parse().unwrap();
            let acknowledgements = Acknowledgements::new(service, None, routers_rx, touched_tx);
            let asked = Self { acknowledgements, routers_tx, touched_rx, began: Instant::now() };
            asked.acknowledgements.ask(&id(), &Worker::default());
            asked
        }

        fn state(&self) -> Acknowledgement {
            self.acknowledgements.of(&id(), &Worker::default())
        }

        /// Waits until the answer changes.
        async fn next(&mut self) -> Acknowledgement {
            self.touched_rx.recv().await.unwrap();
            self.state()
        }
    }

    fn id() -> WorkerId {
        WorkerId::new("shop", "cart")
    }

    #[tokio::test]
    async fn an_entry_is_acknowledged_once_every_router_has_applied_it() {
        let (prompt, _prompt_tx) = start_router(true);
        let (slow, slow_tx) = start_router(false);
        let mut asked = Asked::of(prompt, vec![prompt, slow]);
        let answered = timeout(STRAGGLE / 4, asked.next()).await;
        // On a slow machine, the time for the slow router may have passed.
        assert!(answered.is_err() || asked.began.elapsed() >= STRAGGLE, "{answered:?} too early");
        slow_tx.send_replace(true);
        if answered.is_err() {
            assert_eq!(asked.next().await, Acknowledgement::Given);
        }
    }

    #[tokio::test]
    async fn a_router_that_does_not_answer_holds_an_entry_up_for_a_limited_time() {
        let (prompt, _prompt_tx) = start_router(true);
        let (silent, _silent_tx) = start_router(false);
        let mut asked = Asked::of(prompt, vec![silent, prompt]);
        assert_eq!(asked.next().await, Acknowledgement::Given);
        assert!(asked.began.elapsed() >= STRAGGLE);
    }

    #[tokio::test]
    async fn the_service_is_asked_while_no_router_is_known() {
        let (service, _service_tx) = start_router(true);
        assert_eq!(Asked::of(service, Vec::new()).next().await, Acknowledgement::Given);
    }

    #[tokio::test]
    async fn routers_that_become_ready_while_an_entry_waits_are_asked() {
        let (gone, gone_tx) = start_router(false);
        let (new, _new_tx) = start_router(true);
        let mut asked = Asked::of(gone, vec![gone]);
        // A router that is asked has a receiver for the call.
        while gone_tx.receiver_count() < 2 {
            tokio::task::yield_now().await;
        }
        assert_eq!(asked.state(), Acknowledgement::Pending);
        asked.routers_tx.send_replace(vec![new]);
        assert_eq!(asked.next().await, Acknowledgement::Given);
    }
}
