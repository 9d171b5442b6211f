//! Tests of the writes of figures, against an API server in the test's own process.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use prometheus::Registry;
use serde_json::Value;
use tenon_proto::figures::Figures;
use tower_service::Service;

use super::*;
use crate::index::{Change, Index, Watched};

/// An API server that records each request, and answers with these statuses in turn, and with 200
/// after the last of them.
#[derive(Clone)]
struct ApiServer {
    statuses: Arc<Mutex<VecDeque<u16>>>,
    requests_tx: mpsc::UnboundedSender<(String, Value)>,
}

impl Service<Request<Body>> for ApiServer {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let server = self.clone();
        Box::pin(async move {
            let line = format!("{} {}", request.method(), request.uri());
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let body: Value = serde_json::from_slice(&body).unwrap();
            server.requests_tx.send((line, body)).unwrap();
            let status = server.statuses.lock().unwrap().pop_front().unwrap_or(200);
            let answer = match status {
                200 => serde_json::to_value(worker("9", 0)).unwrap(),
                code => json!({
                    "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "",
                    "reason": "Conflict", "code": code,
                }),
            };
            let body = Body::from(answer.to_string().into_bytes());
            Ok(Response::builder().status(status).body(body).unwrap())
        })
    }
}

/// Returns a Worker whose rollout is in the step that began at second 30. Its status has figures of
/// the step with this number of requests.
fn worker(version: &str, requests: i64) -> Worker {
    let since = "1970-01-01T00:00:30Z";
    let revisions = json!([{"revision": "cart-2", "requests": requests, "failed": 0}]);
    serde_json::from_value(json!({
        "apiVersion": "tenon.dev/v1alpha1", "kind": "Worker",
        "metadata": {"name": "cart", "namespace": "shop", "uid": "u-1", "resourceVersion": version},
        "spec": {"source": {"modules": {"a.js": ""}}},
        "status": {
            "rollout": {
                "revision": "cart-2", "stable": "cart-1", "phase": "Progressing", "step": 0,
                "percent": 10, "stepStartedAt": since, "message": "",
            },
            "rolloutFigures": {"since": since, "revisions": revisions},
        },
    }))
    .unwrap()
}

fn report(requests: u64) -> Vec<TrafficReport> {
    vec![TrafficReport {
        worker: WorkerId::new("shop", "cart"),
        measurement: 30,
        revision: "cart-2".to_owned(),
        figures: Figures { requests, ..Figures::default() },
    }]
}

/// A writer with its API server and its index.
struct Running {
    index: SharedIndex,
    reports_tx: mpsc::Sender<Vec<TrafficReport>>,
    stale_tx: mpsc::UnboundedSender<WorkerId>,
    requests_rx: mpsc::UnboundedReceiver<(String, Value)>,
}

fn run(statuses: impl IntoIterator<Item = u16>) -> Running {
    let (requests_tx, requests_rx) = mpsc::unbounded_channel();
    let statuses = Arc::new(Mutex::new(statuses.into_iter().collect()));
    let client = Client::new(ApiServer { statuses, requests_tx }, "default");
    let index = SharedIndex::new(Index::new("localhost"));
    let metrics = Arc::new(Metrics::register(&Registry::new()).unwrap());
    let (reports_tx, reports_rx) = mpsc::channel(8);
    let (stale_tx, stale_rx) = mpsc::unbounded_channel();
    let writer = FiguresWriter::new(client, index.clone(), metrics);
    tokio::spawn(writer.run(reports_rx, stale_rx));
    Running { index, reports_tx, stale_tx, requests_rx }
}

impl Running {
    fn set(&self, worker: Worker) {
        let change = Change::Worker(Watched::Applied(Arc::new(worker)));
        self.index.with(|index| drop(index.apply(change)));
    }

    /// Returns the next write: the version on which it is based, and the written status.
    async fn written(&mut self) -> (String, Value) {
        let (line, body) = self.requests_rx.recv().await.unwrap();
        assert!(
            line.starts_with("PATCH /apis/tenon.dev/v1alpha1/namespaces/shop/workers/cart/status?"),
            "{line}"
        );
        assert!(line.contains("fieldManager=tenon-operator-figures"), "{line}");
        let version = body["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        (version, body["status"].clone())
    }
}

fn requests(status: &Value) -> i64 {
    status["rolloutFigures"]["revisions"][1]["requests"].as_i64().unwrap()
}

#[tokio::test(start_paused = true)]
async fn figures_that_meet_a_conflict_are_added_to_those_of_the_later_version() {
    let mut running = run([409]);
    running.set(worker("1", 10));
    running.reports_tx.send(report(3)).await.unwrap();
    let (version, status) = running.written().await;
    assert_eq!((&*version, requests(&status)), ("1", 13));
    // Another replica has written first.
    running.set(worker("2", 20));
    running.reports_tx.send(report(4)).await.unwrap();
    let (version, status) = running.written().await;
    assert_eq!((&*version, requests(&status)), ("2", 27));
}

#[tokio::test(start_paused = true)]
async fn the_figures_of_a_worker_are_written_at_most_every_two_seconds() {
    let mut running = run([]);
    running.set(worker("1", 0));
    running.reports_tx.send(report(1)).await.unwrap();
    running.written().await;
    running.set(worker("2", 1));
    let began = tokio::time::Instant::now();
    for _ in 0..5 {
        running.reports_tx.send(report(1)).await.unwrap();
    }
    let (_, status) = running.written().await;
    assert!(began.elapsed() >= PAUSE && requests(&status) == 6, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_writes_of_all_workers_are_limited() {
    let mut running = run([]);
    for number in 0..200 {
        let mut other = worker("1", 0);
        other.metadata.namespace = Some(format!("tenant-{number}"));
        running.set(other);
        let mut reports = report(1);
        reports[0].worker = WorkerId::new(&format!("tenant-{number}"), "cart");
        running.reports_tx.send(reports).await.unwrap();
    }
    let began = tokio::time::Instant::now();
    for _ in 0..200 {
        running.requests_rx.recv().await.unwrap();
    }
    assert!((12..14).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn figures_without_a_rollout_are_removed() {
    let mut running = run([]);
    let mut without = worker("1", 10);
    without.status.as_mut().unwrap().rollout = None;
    running.set(without);
    running.stale_tx.send(WorkerId::new("shop", "cart")).unwrap();
    assert_eq!(running.written().await, ("1".to_owned(), json!({})));
}
