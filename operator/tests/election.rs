//! Tests when a replica stands for election, against an API server in the test's own process.

use std::convert::Infallible;
use std::future::pending;
use std::pin::Pin;
use std::task::{Context, Poll};

use clap::Parser;
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use prometheus::Registry;
use serde_json::json;
use tenon_lifecycle::drain;
use tenon_lifecycle::log::LogArgs;
use tenon_lifecycle::readiness::Readiness;
use tenon_operator::Operator;
use tenon_operator::config::OperatorArgs;
use tokio::sync::watch;
use tower_service::Service;

#[derive(Parser)]
struct Args {
    #[command(flatten)]
    operator: OperatorArgs,
    #[command(flatten)]
    log: LogArgs,
}

/// An API server without objects. Lists of Secrets wait until they are released, watches report
/// nothing, and there is no Lease.
#[derive(Clone)]
struct ApiServer {
    requests_tx: watch::Sender<Vec<String>>,
    released_rx: watch::Receiver<bool>,
}

impl Service<Request<Body>> for ApiServer {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let request = format!("{} {}", request.method(), request.uri());
        self.requests_tx.send_modify(|requests| requests.push(request.clone()));
        let mut released_rx = self.released_rx.clone();
        Box::pin(async move {
            if request.contains("watch=true") {
                pending::<()>().await;
            }
            if request.contains("/secrets") {
                released_rx.wait_for(|released| *released).await.expect("the test has ended");
            }
            let (status, body) = if request.contains("/leases/") {
                (
                    404,
                    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                             "message": "", "reason": "NotFound", "code": 404}),
                )
            } else {
                (200, json!({"metadata": {"resourceVersion": "1"}, "items": []}))
            };
            let body = Body::from(body.to_string().into_bytes());
            Ok(Response::builder().status(status).body(body).expect("the response is not valid"))
        })
    }
}

fn any_contains(requests: &[String], part: &str) -> bool {
    requests.iter().any(|request| request.contains(part))
}

#[tokio::test]
async fn a_replica_stands_for_election_once_every_kind_has_been_listed() {
    let (requests_tx, mut requests_rx) = watch::channel(Vec::new());
    let (released_tx, released_rx) = watch::channel(false);
    let client = Client::new(ApiServer { requests_tx, released_rx }, "default");
    let Args { operator, log } =
        Args::parse_from(["operator", "--identity=a", "--catalog-listen=127.0.0.1:0"]);
    let (registry, readiness) = (Registry::new(), Readiness::new());
    let (signal, drain) = drain::channel();
    let config = operator.check(&log).unwrap();
    let operator = Operator::spawn(config, client, drain, &registry, &readiness).await.unwrap();

    let others = ["workers", "workerrevisions", "runtimepools", "configmaps", "endpointslices"];
    let watched = |requests: &Vec<String>| {
        let watched = |kind| any_contains(requests, &format!("/{kind}?&watch=true"));
        others.into_iter().all(watched)
    };
    assert!(!any_contains(&requests_rx.wait_for(watched).await.unwrap(), "/leases"));
    assert_eq!(readiness.waiting(), ["catalog"]);

    released_tx.send_replace(true);
    let asks_for_lease = |requests: &Vec<String>| any_contains(requests, "/leases/tenon-operator");
    requests_rx.wait_for(asks_for_lease).await.unwrap();
    assert_eq!(readiness.waiting(), [""; 0]);
    let ((), joined) = tokio::join!(signal.drain(), operator.join());
    joined.unwrap();
}
