//! Tests the client with origins in this process.

mod bodies;
mod connections;
mod names;
mod origin;
mod proxies;
mod reach;
mod redirects;
mod requests;
mod sockets;
mod trailers;

use std::any::Any;
use std::cell::Cell;
use std::rc::Rc;

use futures::StreamExt as _;
use hickory_resolver::Hosts;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use tenon_proto::egress::Egress;
use tenon_proto::id::WorkerId;
use tokio::task::LocalSet;
use url::Url;

use super::{
    Client, EgressContext, EgressError, InvocationBudget, Policy, RedirectMode, Request,
    RequestBody, Response, ResponseBody, Settings,
};
use crate::metrics::EgressMetrics;

/// Runs a test in a `LocalSet`, as on the thread of a shard.
async fn on_a_shard(test: impl Future<Output = ()>) {
    LocalSet::new().run_until(test).await;
}

/// A budget with a fixed number of subrequests, and a fixed limit on each reservation of memory.
struct FixedBudget {
    /// Number of subrequests that are left.
    subrequests: Cell<u32>,
    /// Maximum size of one reservation, in bytes.
    memory: usize,
}

impl InvocationBudget for FixedBudget {
    fn subrequest(&self) -> Result<(), u32> {
        self.subrequests.set(self.subrequests.get().checked_sub(1).ok_or(100_u32)?);
        Ok(())
    }

    fn hold(&self, bytes: usize) -> Option<Box<dyn Any>> {
        (bytes <= self.memory).then(|| Box::new(()) as Box<dyn Any>)
    }
}

fn context(tenant: &str) -> EgressContext {
    let budget = Rc::new(FixedBudget { subrequests: Cell::new(100), memory: 64 << 20 });
    EgressContext { worker: WorkerId::new(tenant, "worker"), egress: Rc::new(Egress::Open), budget }
}

/// Returns the settings of a node that lets its Workers reach this machine, which is also named
/// `origin.test`.
fn settings() -> Settings {
    let policy = Policy::new(vec!["127.0.0.0/8".parse().unwrap()], vec![]);
    Settings::isolated(policy, Vec::new(), hosts("127.0.0.1 origin.test other.test"))
}

fn hosts(listed: &str) -> Hosts {
    let mut hosts = Hosts::default();
    hosts.read_hosts_conf(listed.as_bytes()).unwrap();
    hosts
}

fn client() -> Client {
    Client::new(&settings(), EgressMetrics::default())
}

fn get(url: Url) -> Request {
    let headers = HeaderMap::new();
    Request {
        method: Method::GET,
        url,
        headers,
        body: RequestBody::Empty,
        redirect: RedirectMode::Follow,
    }
}

fn with(mut request: Request, headers: &[(&str, &str)]) -> Request {
    for (name, value) in headers {
        request
            .headers
            .append(HeaderName::try_from(*name).unwrap(), HeaderValue::from_str(value).unwrap());
    }
    request
}

fn post(url: Url, body: RequestBody) -> Request {
    Request { method: Method::POST, body, ..get(url) }
}

async fn fetch(client: &Client, request: Request) -> Result<Response, EgressError> {
    client.fetch(&context("shop"), request).await
}

async fn body(response: Response) -> Result<String, EgressError> {
    let mut all = Vec::new();
    let mut body = response.body.unwrap_or(ResponseBody::Empty).into_stream();
    while let Some(piece) = body.next().await {
        all.extend_from_slice(&piece?);
    }
    Ok(String::from_utf8(all).unwrap())
}

async fn fetch_text(client: &Client, request: Request) -> String {
    body(fetch(client, request).await.unwrap()).await.unwrap()
}

async fn failure(client: &Client, request: Request) -> EgressError {
    match fetch(client, request).await {
        Ok(response) => panic!("expected a failure, got {}", response.status),
        Err(error) => error,
    }
}

/// Yields to other tasks until the condition holds.
async fn until(condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(10), wait)
        .await
        .expect("the condition did not hold within 10 s");
}
