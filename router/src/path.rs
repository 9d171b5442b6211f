//! The path of a request, in the order in which it happens:
//!
//! ```text
//!  match ─► admit ─► pick ─► forward ─► answer
//!                     ▲         │
//!                     └─ retry ◄┘
//! ```
//!
//! All of it on the thread that read the request. Nothing on it takes a lock or wakes another thread.

use std::convert::Infallible;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Version, header};
use hyper::body::Incoming;
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::id::WorkerId;

use crate::answer::{self, AnswerBody};
use crate::exchange;
use crate::lane::Lane;
use crate::metrics::Outcome;
use crate::pick::Picker;
use crate::retry::Attempts;
use crate::table::{Shard, Worker};
use crate::target::Target;
use crate::upload::{self, Admitted};
use crate::wire::HeadWriter;
use crate::{error, headers};

/// How much later than the node, which enforces the Worker's wall limit, we give up. Covers a cold start.
const SLACK: Duration = Duration::from_secs(2);

const DEBUG: HeaderName = HeaderName::from_static("tenon-debug");
const WORKER: HeaderName = HeaderName::from_static("tenon-worker");
const NODE: HeaderName = HeaderName::from_static("tenon-node");
const SHARD: HeaderName = HeaderName::from_static("tenon-shard");
const REQUEST_ID: HeaderName = HeaderName::from_static("tenon-request-id");

/// Serves one request of one client.
pub(crate) async fn serve(
    lane: Rc<Lane>,
    peer: IpAddr,
    request: Request<Incoming>,
) -> Result<Response<AnswerBody>, Infallible> {
    let started = Instant::now();
    let (parts, body) = request.into_parts();
    let request_id = headers::sane_request_id(&parts.headers).map_or_else(|| lane.request_id(), str::to_owned);
    let mut trace = Trace::new(&lane, &parts.headers);

    let (mut response, outcome) = match forward(&lane, &parts, body, peer, &request_id, &mut trace).await {
        Ok(response) => {
            let outcome = Outcome::Answered(response.status());
            (response, outcome)
        }
        Err(failure) => {
            let response = error::response(&failure, &parts.headers, &request_id);
            let bodiless = parts.method == Method::HEAD;
            let body = |body: Bytes| AnswerBody::Full((!bodiless).then_some(body));
            (response.map(body), Outcome::Failed(failure.code))
        }
    };

    if lane.leaving.get() && parts.version < Version::HTTP_2 {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    if trace.for_caller {
        trace.write(response.headers_mut(), &request_id);
    }
    let took = started.elapsed();
    lane.meters.observe(outcome, took);
    if lane.settings.access_log {
        trace.log(&parts, &response, outcome, took, peer, &request_id);
    }
    Ok(response)
}

async fn forward(
    lane: &Rc<Lane>,
    parts: &Parts,
    body: Incoming,
    peer: IpAddr,
    request_id: &str,
    trace: &mut Trace,
) -> Result<Response<AnswerBody>, Failure> {
    // Match.
    let target = Target::of(parts)?;
    let view = lane.view();
    let worker: &Worker = view.route(target.host(), target.path()).ok_or_else(no_worker)?;
    trace.worker(&worker.id);

    // Admit.
    let permit = lane.permit().ok_or_else(overloaded)?;
    let began = Instant::now();
    lane.budget.borrow_mut().request(began);
    let body = upload::admit(body, worker.body_limit).await?;

    // Pick, forward, and again while that helps.
    let (inline, upload) = match &body {
        Admitted::Inline(bytes) => (bytes.as_ref(), None),
        Admitted::Streaming(upload) => (&[][..], Some(upload)),
    };
    let url = ["http://", target.authority(), target.path_and_query()];
    let mut head =
        HeadWriter::new(worker.id.as_str(), worker.digest.as_bytes(), request_id, parts.method.as_str(), url);
    headers::write(&mut head, &parts.headers, target.authority(), peer, request_id);
    let head = head.finish(inline, upload.is_some());

    let pool = view.pool(&worker.pool).ok_or_else(no_node)?;
    let mut picker = Picker::new(lane, pool, worker.key, view.nodes_version());
    let mut attempts = Attempts::new(&parts.method);
    let patience = worker.wall + SLACK;
    let deadline = tokio::time::Instant::now() + patience;
    let mut link = picker.next().ok_or_else(no_node)?;
    let reply = loop {
        trace.shard(link.shard());
        let mishap = match exchange::invoke(&link, &head, upload, patience, deadline).await {
            Ok(reply) => break reply,
            Err(mishap) => mishap,
        };
        picker.failed(&link, &mishap);
        let replayable = upload.is_none_or(|upload| upload.is_replayable());
        let again = attempts.may_go_on(&mishap, replayable, &mut lane.budget.borrow_mut(), Instant::now());
        let Some(next) = (if again { picker.next() } else { None }) else { return Err(mishap.into_failure()) };
        lane.metrics.retry(mishap.reason());
        link = next;
    };

    // Answer.
    if let Some(upload) = upload {
        upload.settle();
    }
    answer::response(&parts.method, reply, permit)
}

fn no_worker() -> Failure {
    Failure::new(FailureCode::WorkerNotFound, Phase::Admission, "No Worker has a route for this host and path.")
}

fn no_node() -> Failure {
    Failure::new(FailureCode::NoNode, Phase::Admission, "No node that could run the Worker can be reached.")
}

fn overloaded() -> Failure {
    Failure::new(FailureCode::Overloaded, Phase::Admission, "The router has no room for this request now.")
}

/// Where a request went, for whoever wants to know.
struct Trace {
    for_caller: bool,
    for_log: bool,
    worker: Option<WorkerId>,
    shard: Option<Arc<Shard>>,
    attempts: u32,
}

impl Trace {
    fn new(lane: &Lane, headers: &HeaderMap) -> Self {
        let asked = || headers.get(DEBUG).is_some_and(|value| value == "1");
        let for_caller = lane.settings.debug_headers || asked();
        Self { for_caller, for_log: lane.settings.access_log, worker: None, shard: None, attempts: 0 }
    }

    /// The counts of these are shared by all threads, so only who wants them touches them.
    fn is_wanted(&self) -> bool {
        self.for_caller || self.for_log
    }

    fn worker(&mut self, worker: &WorkerId) {
        self.worker = self.is_wanted().then(|| worker.clone());
    }

    fn shard(&mut self, shard: &Arc<Shard>) {
        self.attempts += 1;
        self.shard = self.is_wanted().then(|| shard.clone());
    }

    fn write(&self, headers: &mut HeaderMap, request_id: &str) {
        let mut put = |name, value: &str| {
            // Names come from Kubernetes and are fit for headers.
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        };
        put(REQUEST_ID, request_id);
        if let Some(worker) = &self.worker {
            put(WORKER, worker.as_str());
        }
        if let Some(shard) = &self.shard {
            put(NODE, &shard.node);
            put(SHARD, &shard.id.to_string());
        }
    }

    fn log<B>(
        &self,
        parts: &Parts,
        response: &Response<B>,
        outcome: Outcome,
        took: Duration,
        peer: IpAddr,
        request_id: &str,
    ) {
        let host = parts.uri.authority().map(|authority| authority.as_str());
        let host = host.or_else(|| parts.headers.get(header::HOST)?.to_str().ok());
        tracing::info!(
            target: "tenon::access",
            request_id,
            peer = %peer,
            method = parts.method.as_str(),
            host,
            path = parts.uri.path(),
            protocol = ?parts.version,
            status = response.status().as_u16(),
            code = if let Outcome::Failed(code) = outcome { Some(code.as_str()) } else { None },
            duration_us = took.as_micros() as u64,
            worker = self.worker.as_ref().map(WorkerId::as_str),
            node = self.shard.as_ref().map(|shard| &*shard.node),
            shard = self.shard.as_ref().map(|shard| shard.id.0),
            attempts = self.attempts,
        );
    }
}
