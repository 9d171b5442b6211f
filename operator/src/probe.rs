//! `tenon-operator probe`: an end-to-end check of an installation from a tenant's point of view.
//! The probe deletes what it has created.
//!
//! ```text
//!  create a Worker ─► watch it until ready ─► request its host until it answers ─► delete it
//!                                                                   also on failure ──┘
//! ```
//!
//! The probe needs access to the routers' client port, and a kubeconfig or a Pod's account with the
//! right to list, watch, create and delete Workers in one namespace. The Worker's code returns a
//! random value, from which the probe recognizes a response of the Worker.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use clap::Args as ClapArgs;
use futures::StreamExt as _;
use http::{Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use kube::api::{DeleteParams, PostParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::watch_object;
use kube::{Api, Client};
use serde_json::json;
use tenon_crds::{ConditionStatus, Worker};
use tenon_lifecycle::drain;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// Delay between two requests. A router learns of a Worker a moment after its status is written.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Time limit of one request. If a router hangs, the request is repeated on another connection.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit of the deletion of the Worker, which is attempted even after the overall time limit.
const DELETE_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum size of a response body, in bytes. The body of the Worker's response is far smaller.
const MAX_BODY_BYTES: usize = 16 * 1024;

#[derive(ClapArgs, Clone, Debug)]
pub struct ProbeArgs {
    /// Namespace in which the Worker is deployed.
    #[arg(long, default_value = "default")]
    worker_namespace: String,
    /// RuntimePool that runs the Worker.
    #[arg(long, default_value = "default")]
    pool: String,
    /// URL of the routers' listener for clients.
    #[arg(long, value_name = "http://HOST[:PORT]", default_value = "http://tenon-router")]
    router: Uri,
    /// Maximum time to wait until the Worker responds, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
}

/// The reason why a probe has failed.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    #[error("--router {0} is not an HTTP URL without a path; use http://HOST[:PORT]")]
    Router(Uri),
    #[error("cannot find a cluster: {0}; set KUBECONFIG or run in a Pod")]
    Cluster(#[source] Box<kube::Error>),
    #[error(
        "cannot create a Worker in {namespace}: {source}; check the CRDs and this account's \
         permission to create Workers"
    )]
    Create { namespace: String, source: Box<kube::Error> },
    #[error("Worker {worker} is not ready after {} s: {last_state}", .limit.as_secs())]
    NotReady { worker: String, limit: Duration, last_state: String },
    #[error(
        "Worker {worker} is ready, but {router} did not serve {host} within {} s: {last_state}",
        .limit.as_secs()
    )]
    NoAnswer { worker: String, router: Uri, host: String, limit: Duration, last_state: String },
    #[error("interrupted before the Worker responded")]
    Interrupted,
    #[error(
        "cannot delete Worker {worker}: {last_state}; run kubectl delete worker --namespace \
         {namespace} {worker}"
    )]
    Delete { worker: String, namespace: String, last_state: String },
}

/// Deploys a Worker, sends it requests, deletes it, and prints each step on standard output.
///
/// # Errors
/// Fails if a step fails. The error names the step and the last observed state.
pub async fn run(args: ProbeArgs) -> Result<(), ProbeError> {
    let address =
        RouterAddress::of(&args.router).ok_or_else(|| ProbeError::Router(args.router.clone()))?;
    let client =
        Client::try_default().await.map_err(|error| ProbeError::Cluster(Box::new(error)))?;
    let secret = RandomState::new().build_hasher().finish();
    let limit = Duration::from_secs(args.timeout);
    let probe = Probe {
        workers: Api::namespaced(client, &args.worker_namespace),
        name: format!("tenon-probe-{secret:016x}"),
        body: format!("{secret:016x}"),
        address,
        started: Instant::now(),
        limit,
        args,
    };
    let outcome = tokio::select! {
        outcome = probe.probe() => outcome,
        () = drain::termination() => Err(ProbeError::Interrupted),
    };
    let deleted = probe.delete().await;
    // If both fail, the first error matters more.
    outcome.and(deleted)
}

struct Probe {
    args: ProbeArgs,
    workers: Api<Worker>,
    name: String,
    /// The body of the Worker's response.
    body: String,
    address: RouterAddress,
    started: Instant,
    limit: Duration,
}

impl Probe {
    async fn probe(&self) -> Result<(), ProbeError> {
        let worker = worker(&self.name, &self.args.pool, &self.body);
        let created =
            timeout_at(self.deadline(), self.workers.create(&PostParams::default(), &worker)).await;
        let not_ready = |last_state| ProbeError::NotReady {
            worker: self.name.clone(),
            limit: self.limit,
            last_state,
        };
        created.map_err(|_| not_ready("the API server does not respond".to_owned()))?.map_err(
            |source| ProbeError::Create {
                namespace: self.args.worker_namespace.clone(),
                source: Box::new(source),
            },
        )?;
        println!("deployed: Worker {} in {}", self.name, self.args.worker_namespace);
        let mut last_state = "the status is unknown".to_owned();
        let ready = timeout_at(self.deadline(), self.await_ready(&mut last_state)).await;
        let host = ready.map_err(|_| not_ready(last_state))?;
        println!("ready: after {:.1} s", self.started.elapsed().as_secs_f64());
        let mut last_state = "no request was sent".to_owned();
        let answered = timeout_at(self.deadline(), self.await_answer(&host, &mut last_state)).await;
        answered.map_err(|_| ProbeError::NoAnswer {
            worker: self.name.clone(),
            router: self.args.router.clone(),
            host: host.clone(),
            limit: self.limit,
            last_state,
        })?;
        println!("answered: http://{host}/ after {:.1} s", self.started.elapsed().as_secs_f64());
        Ok(())
    }

    fn deadline(&self) -> Instant {
        self.started + self.limit
    }

    /// Waits until the Worker is ready, and returns its host.
    async fn await_ready(&self, last_state: &mut String) -> String {
        let mut states = pin!(watch_object(self.workers.clone(), &self.name).default_backoff());
        loop {
            match states.next().await {
                Some(Ok(Some(worker))) => match readiness(&worker) {
                    Ok(host) => return host,
                    Err(state) => *last_state = state,
                },
                Some(Ok(None)) => "the Worker was deleted".clone_into(last_state),
                Some(Err(error)) => *last_state = format!("cannot watch the Worker: {error}"),
                // A watch never ends.
                None => std::future::pending().await,
            }
        }
    }

    async fn await_answer(&self, host: &str, last_state: &mut String) {
        loop {
            *last_state = match timeout(REQUEST_TIMEOUT, self.address.get(host)).await {
                Ok(Ok((StatusCode::OK, body))) if body == self.body => return,
                Ok(Ok((status, body))) => format!("the response was {status} with body {body:?}"),
                Ok(Err(error)) => format!("cannot send a request: {error}"),
                Err(_) => format!("no response within {} s", REQUEST_TIMEOUT.as_secs()),
            };
            sleep(RETRY_PAUSE).await;
        }
    }

    async fn delete(&self) -> Result<(), ProbeError> {
        let deleted =
            timeout(DELETE_TIMEOUT, self.workers.delete(&self.name, &DeleteParams::background()))
                .await;
        let last_state = match deleted {
            Ok(Ok(_)) => {
                println!("deleted: Worker {}", self.name);
                return Ok(());
            }
            // The Worker was never created, or has been deleted by someone else.
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => return Ok(()),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the API server does not respond".to_owned(),
        };
        let (worker, namespace) = (self.name.clone(), self.args.worker_namespace.clone());
        Err(ProbeError::Delete { worker, namespace, last_state })
    }
}

fn worker(name: &str, pool: &str, body: &str) -> Worker {
    let code = format!("export default {{ fetch: () => new Response({body:?}) }};\n");
    let object = json!({
        "apiVersion": "tenon.dev/v1alpha1",
        "kind": "Worker",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/managed-by": "tenon-probe"}},
        "spec": {"source": {"modules": {"worker.js": code}}, "pool": pool},
    });
    serde_json::from_value(object).expect("the object is not a valid Worker")
}

/// Returns the host of a ready Worker.
///
/// # Errors
/// Returns a description of the Worker's current state, if the Worker is not ready or its URL has
/// no host.
fn readiness(worker: &Worker) -> Result<String, String> {
    let status = worker.status.clone().unwrap_or_default();
    let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready");
    match ready {
        Some(ready) if ready.status == ConditionStatus::True => {
            let host = status
                .url
                .as_ref()
                .and_then(|url| url.parse::<Uri>().ok()?.host().map(str::to_owned));
            host.ok_or_else(|| {
                let url = status.url.as_deref().unwrap_or_default();
                format!("the URL {url:?} of the Worker has no host")
            })
        }
        Some(ready) => Err(format!("the Worker is not ready: {}: {}", ready.reason, ready.message)),
        None => Err(
            "no operator has reconciled the Worker; check that an operator is running and is the leader"
                .to_owned(),
        ),
    }
}

/// The address of the routers' client port.
struct RouterAddress {
    host: String,
    port: u16,
}

#[derive(Debug, thiserror::Error)]
enum GetError {
    #[error("cannot connect: {0}")]
    Connect(#[from] std::io::Error),
    #[error("{0}")]
    Http(#[from] hyper::Error),
    #[error("invalid host: {0}")]
    Host(#[from] http::Error),
    #[error("the response was cut off: {0}")]
    Body(Box<dyn std::error::Error + Send + Sync>),
}

impl RouterAddress {
    fn of(router: &Uri) -> Option<Self> {
        let is_bare = router.path_and_query().is_none_or(|path| path == "/");
        let host = router.host().filter(|_| is_bare && router.scheme_str() == Some("http"))?;
        // The brackets are part of the URL, not of the address.
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Some(Self { host, port: router.port_u16().unwrap_or(80) })
    }

    /// Sends `GET /` for a Worker's host, and returns the response's status and body.
    async fn get(&self, host: &str) -> Result<(StatusCode, String), GetError> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // The sender reports the connection's errors.
        tokio::spawn(connection);
        let request = Request::get("/").header(header::HOST, host).body(Empty::<Bytes>::new())?;
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_BODY_BYTES)
            .collect()
            .await
            .map_err(GetError::Body)?
            .to_bytes();
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    fn address(router: &str) -> Option<(String, u16)> {
        RouterAddress::of(&router.parse().unwrap()).map(|address| (address.host, address.port))
    }

    #[test]
    fn the_address_of_a_router_is_a_plain_host_and_an_optional_port() {
        assert_eq!(address("http://tenon-router"), Some(("tenon-router".to_owned(), 80)));
        assert_eq!(address("http://[::1]:8080/"), Some(("::1".to_owned(), 8080)));
        for bad in ["https://tenon-router", "http://tenon-router/path", "tenon-router:80", "/"] {
            assert_eq!(address(bad), None, "{bad}");
        }
    }

    fn with_status(status: serde_json::Value) -> Worker {
        let mut worker = worker("probe", "default", "body");
        worker.status = serde_json::from_value(status).unwrap();
        worker
    }

    fn ready(status: &str, reason: &str, message: &str) -> serde_json::Value {
        let since = "2026-01-01T00:00:00Z";
        json!([{
            "type": "Ready", "status": status, "reason": reason, "message": message,
            "lastTransitionTime": since,
        }])
    }

    #[test]
    fn a_ready_worker_answers_to_the_host_of_its_url() {
        let url = "http://probe.default.tenon.localhost/";
        let worker = with_status(json!({"url": url, "conditions": ready("True", "Serving", "")}));
        assert_eq!(readiness(&worker).unwrap(), "probe.default.tenon.localhost");
    }

    #[test]
    fn a_worker_that_is_not_ready_has_a_reason() {
        let none = readiness(&with_status(json!(null))).unwrap_err();
        assert!(none.contains("no operator has reconciled the Worker"), "{none}");
        let conditions = ready("False", "RouteConflict", "it is another's");
        let why = readiness(&with_status(json!({"conditions": conditions}))).unwrap_err();
        assert_eq!(why, "the Worker is not ready: RouteConflict: it is another's");
    }

    #[test]
    fn the_worker_of_a_probe_returns_the_expected_body() {
        let modules = worker("probe", "fast", "00ff").spec.source.modules.unwrap();
        assert!(modules["worker.js"].contains(r#"new Response("00ff")"#), "{modules:?}");
    }

    #[tokio::test]
    async fn the_request_to_the_router_names_the_workers_host() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let served = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = vec![0; 1024];
            let read = stream.read(&mut head).await.unwrap();
            stream
                .write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\nnone")
                .await
                .unwrap();
            String::from_utf8(head[..read].to_vec()).unwrap()
        });
        let answer = RouterAddress { host: "127.0.0.1".to_owned(), port }
            .get("probe.default.example.com")
            .await
            .unwrap();
        assert_eq!(answer, (StatusCode::NOT_FOUND, "none".to_owned()));
        let request = served.await.unwrap();
        assert!(
            request.starts_with("GET / HTTP/1.1\r\nhost: probe.default.example.com\r\n"),
            "{request}"
        );
    }
}
