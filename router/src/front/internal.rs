//! The internal listener: `Runtime.Invoke` for processes of the platform. A call names a Worker,
//! and its revision only if the Worker asks for its own static files.
//!
//! ```text
//! node ── a Worker calls another ──┐
//! operator ── a schedule is due ───┴─► head ─► look up by name ─► admit ─► forward ─► relay
//! ```
//!
//! Operators also ask here whether this router has applied a Worker's entry: `applied`. A Worker
//! that asks for its own static files is answered by the router itself: `assets`.
//!
//! Once the Worker is known, a call is treated like a client's request: [`forward`](mod@forward).
//! Any caller that is admitted here can call any Worker. With TLS, nodes and operators with a
//! certificate are admitted; without TLS, any process that can reach the port is admitted. The
//! caller's node enforces that a Worker calls only Workers that its object binds.

mod applied;
mod assets;
mod messages;
mod relay;

use std::convert::Infallible;
use std::net::IpAddr;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Method, Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::id::WorkerId;
use tenon_proto::invoke;
use tenon_proto::router::AWAIT_WORKER_PATH;
use tenon_proto::runtime::{self, INVOKE_PATH, InvokeHead, Service};
use tenon_table::Worker;
use tonic::Status;

use crate::front::assets::Answer;
use crate::front::internal::messages::Messages;
use crate::front::internal::relay::{Held, Relay};
use crate::front::response;
use crate::front::session;
use crate::front::span::{self, Lineage};
use crate::meters::Outcome;
use crate::thread::{Accounts, Permit, RouterThread};
use crate::trace::{LoggedRequest, Trace};
use crate::upstream::exchange::Reply;
use crate::upstream::forward::{self, Call, Idempotency};
use crate::upstream::heads::Head;
use crate::upstream::retry::AttemptError;
use crate::upstream::upload::{Source, Upload, broken, too_large};

/// Serves one call.
pub(crate) async fn serve(
    thread: Rc<RouterThread>,
    peer: IpAddr,
    accounts: Rc<Accounts>,
    request: Request<Incoming>,
) -> Result<Response<Relay>, Infallible> {
    let content_type = request.headers().get(CONTENT_TYPE);
    if !content_type.is_some_and(|value| runtime::is_grpc(value.as_bytes())) {
        let mut response = Response::new(Relay::default());
        *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return Ok(response);
    }
    if request.uri().path() == AWAIT_WORKER_PATH {
        return Ok(applied::serve(&thread, request.into_body()).await);
    }
    if request.uri().path() != INVOKE_PATH {
        return Ok(
            Status::unimplemented(format!("unknown method {}", request.uri().path())).into_http()
        );
    }
    let mut messages = Messages::new(request.into_body());
    Ok(match messages.head().await {
        Ok(head) => answer(&thread, peer, &accounts, head, messages).await,
        Err(failure) => relay::failure(&failure),
    })
}

async fn answer(
    thread: &Rc<RouterThread>,
    peer: IpAddr,
    accounts: &Accounts,
    mut head: InvokeHead,
    messages: Messages,
) -> Response<Relay> {
    let started = Instant::now();
    if head.request_id.is_empty() {
        head.request_id = thread.request_id();
    }
    let mut trace = Trace::new(false, thread.settings.access_log);
    let lineage = Lineage::of_call(&head);
    trace.span = span::begin(thread, &lineage, started, || logged(&head, peer));
    trace.records_failures = trace.span.is_none() && thread.records_failures();
    let result = invoke(thread, accounts, &mut head, messages, &mut trace).await;
    let outcome = match &result {
        Ok(reply) => Outcome::Answered(reply.status()),
        Err(failure) => Outcome::Failed(failure.code),
    };
    let elapsed = started.elapsed();
    thread.meters.observe(outcome, elapsed);
    if trace.records_failure(outcome)
        && let Ok(worker) = head.worker.parse()
    {
        trace.record_failed_worker(&worker);
    }
    let request = logged(&head, peer);
    if trace.is_logged {
        trace.log(&request, outcome, elapsed);
    }
    let span = span::answered(thread, &mut trace, &lineage, &request, outcome, elapsed);
    let mut response = match result {
        Ok(CallReply::Worker(reply, held)) => relay::reply(reply, held),
        Ok(CallReply::Assets(answer, permit)) => relay::file(answer, permit),
        Err(failure) => relay::failure(&failure),
    };
    response.body_mut().hold_span(span);
    response
}

async fn invoke(
    thread: &Rc<RouterThread>,
    accounts: &Accounts,
    head: &mut InvokeHead,
    messages: Messages,
    trace: &mut Trace,
) -> Result<CallReply, Failure> {
    head.check_depth()?;
    let view = thread.view();
    let id: Option<WorkerId> = head.worker.parse().ok();
    let worker = id.and_then(|id| view.worker(&id)).ok_or_else(|| no_worker(&head.worker))?;
    trace.record_worker(&worker.id);
    if let Some(context) = trace.context() {
        span::set(&context, head);
    }

    let permit = thread.admit(accounts)?;
    if head.assets {
        let revision = worker.with_digest(&head.digest).unwrap_or(worker);
        return Ok(CallReply::Assets(assets::answer_call(thread, revision, head).await?, permit));
    }
    let session = |affinity: &_| session::of_call(&head.headers, affinity);
    let worker = worker.draw(session, || thread.random() as u64);
    if head.body.len() as u64 > worker.body_limit {
        return Err(too_large(worker.body_limit));
    }
    let slot = if head.requests_tunnel() { Some(thread.admit_tunnel(accounts)?) } else { None };
    let limit = if slot.is_some() { u64::MAX } else { worker.body_limit };
    let upload = head
        .more_body
        .then(|| Rc::new(Upload::new(Box::new(messages), limit, head.body.len() as u64, None)));

    let idempotency = idempotency(head);
    let to_message = |service: &Worker| Service {
        worker: service.id.to_string(),
        digest: service.digest.as_bytes().to_vec().into(),
    };
    head.services =
        view.services_of(worker).map(|service| thread.draw(service)).map(to_message).collect();
    head.digest = worker.digest.as_bytes().to_vec().into();
    let call = Call { peer: accounts.peer, head: &*head, upload: upload.as_ref(), idempotency };
    let reply = forward::forward(&thread.upstream, &view, worker, call, trace).await?;
    let held = match (response::switches_protocols(&reply), slot) {
        (true, Some(slot)) => Held::tunnel(slot),
        (true, None) => {
            return Err(AttemptError::ProtocolViolation(
                "a WebSocket that the call did not request".into(),
            )
            .into_failure());
        }
        (false, _) => Held::request(permit),
    };
    Ok(CallReply::Worker(reply, held))
}

/// The result of a call.
enum CallReply {
    Worker(Reply, Held),
    /// The reply comes from the Worker's static files.
    Assets(Answer, Permit),
}

impl CallReply {
    fn status(&self) -> StatusCode {
        match self {
            // Nodes answer with valid HTTP statuses.
            Self::Worker(reply, _) => status(reply),
            Self::Assets(answer, _) => answer.status,
        }
    }
}

impl Head for InvokeHead {
    fn framed(&self) -> Bytes {
        invoke::encode_head(self)
    }

    fn value(&self) -> InvokeHead {
        self.clone()
    }
}

impl Source for Messages {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        self.poll_body(cx).map(|piece| piece.map_err(|_| broken()).transpose())
    }
}

/// Returns whether a call may run twice. A scheduled event may not.
fn idempotency(head: &InvokeHead) -> Idempotency {
    match &head.scheduled {
        Some(_) => Idempotency::NonIdempotent,
        None => Method::from_bytes(head.method.as_bytes())
            .map_or(Idempotency::NonIdempotent, |method| Idempotency::of(&method)),
    }
}

fn status(reply: &Reply) -> StatusCode {
    let status =
        u16::try_from(reply.head.status).ok().and_then(|status| StatusCode::from_u16(status).ok());
    status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

fn no_worker(id: &str) -> Failure {
    let message = format!("the Worker {id} does not exist, or has no ready revision");
    Failure::new(FailureCode::WorkerNotFound, Phase::Admission, message)
}

/// Returns a call as the access log and its span show it.
fn logged(head: &InvokeHead, peer: IpAddr) -> LoggedRequest<'_> {
    let (scheme, after_scheme) = head.url.split_once("://").unwrap_or_default();
    let rpc = head.entry.as_ref().and_then(|entry| entry.rpc.as_ref());
    let (host, path) = after_scheme.split_at(after_scheme.find('/').unwrap_or(after_scheme.len()));
    LoggedRequest {
        request_id: &head.request_id,
        peer,
        caller: Some(head.caller.as_str()).filter(|caller| !caller.is_empty()),
        method: match rpc {
            _ if head.scheduled.is_some() => "SCHEDULED",
            Some(_) => "RPC",
            None => &head.method,
        },
        scheme,
        host: Some(host).filter(|host| !host.is_empty()),
        path: match rpc {
            Some(rpc) => &rpc.method,
            None => path.split(['?', '#']).next().unwrap_or_default(),
        },
        protocol: Version::HTTP_2,
    }
}
