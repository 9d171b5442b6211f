//! Performs the calls between Workers that begin on a shard.
//!
//! ```text
//!  env.OTHER.fetch ─► depth? ─┬─ serving revision is warm on this shard ─► admit ─► its isolate
//!                             └─ otherwise ─► a router's internal listener ─► the shard it picks
//! ```
//!
//! Only routers know which revision serves a Worker: they are the first to learn of new revisions
//! and of nodes that drain. Instead of asking a router about every call, a shard uses the list of
//! revisions that the router sends with each request: the revisions that serve, at that time, the
//! Workers that the requested Worker may call. A call therefore stays in the process only for the
//! very revision that a router would have picked when the caller's own request arrived, and only if
//! that revision is already warm: a Worker runs where routers send its requests, not on every shard
//! that calls it. A caller that was itself called locally knows no revisions, so its calls go to a
//! router.
//!
//! Either way, the permits and limits of the called Worker apply to the call, and the call fails
//! with the failures that a client would get.

mod router;

use std::cell::OnceCell;
use std::rc::{Rc, Weak};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use futures::future::LocalBoxFuture;
use futures::{FutureExt as _, StreamExt as _, stream};
use tenon_engine::{Body, FetchResponse, ResponseBody, StreamError};
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::id::RevisionDigest;
use tenon_proto::runtime::{InvokeHead, requests_websocket};
use tenon_web::{Call, CallResponse, Services};
use tokio::task::spawn_local;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::shard::{Answer, Shard};
pub use router::{InvalidRouter, Router, RouterUrl};

/// Time after a call's arrival at which the admission queue assumes the call's deadline. The
/// deadline only orders the queue; the caller's own time limit ends the call.
const QUEUE_TIME: Duration = Duration::from_secs(30);

/// Performs the calls of one shard's Workers.
pub struct Calls {
    shard: OnceCell<Weak<Shard>>,
    router: Option<Rc<Router>>,
}

impl Calls {
    /// Creates the client with which a shard's Workers call other Workers.
    ///
    /// # Arguments
    /// * `router` - client of the routers. Without it, a Worker can call only revisions that are
    ///   warm on its own shard.
    pub fn new(router: Option<Router>) -> Rc<Self> {
        Rc::new(Self { shard: OnceCell::new(), router: router.map(Rc::new) })
    }

    /// Sets the shard whose Workers make the calls.
    pub fn set_shard(&self, shard: &Rc<Shard>) {
        self.shard.set(Rc::downgrade(shard)).expect("the shard was set twice");
    }
}

impl Services for Calls {
    fn call(&self, call: Call) -> LocalBoxFuture<'static, Result<CallResponse, Failure>> {
        let shard = self.shard.get().and_then(Weak::upgrade);
        let router = self.router.clone();
        let called = async move {
            head(&call).check_depth()?;
            let call = match (shard, call.digest) {
                (Some(shard), Some(digest)) if !call.assets && shard.is_warm(&digest) => {
                    // The call runs as its own task, like a client's request. The caller's isolate
                    // does not poll its operations while it waits for a turn: if the call ran
                    // within an operation and held the scheduler's token, both would wait forever.
                    match AbortOnDropHandle::new(spawn_local(call_locally(shard, digest, call)))
                        .await
                    {
                        Ok(LocalCall::Done(outcome)) => return outcome,
                        Ok(LocalCall::Refused(call)) => *call,
                        Err(_) => return Err(call_panicked()),
                    }
                }
                _ => call,
            };
            match router {
                Some(router) => router.call(call).await,
                None => Err(no_router(&call)),
            }
        };
        called.boxed_local()
    }
}

/// Returns the head of a call, without its request.
fn head(call: &Call) -> InvokeHead {
    InvokeHead {
        worker: call.callee.to_string(),
        caller: call.caller.to_string(),
        depth: call.request.call_context.depth,
        trace: call.request.call_context.trace.as_deref().unwrap_or_default().to_owned(),
        assets: call.assets,
        digest: call
            .digest
            .filter(|_| call.assets)
            .map_or_else(Bytes::new, |digest| Bytes::copy_from_slice(digest.as_bytes())),
        entry: call.request.entry.clone(),
        ..InvokeHead::default()
    }
}

/// The outcome of a call on this shard.
enum LocalCall {
    Done(Result<CallResponse, Failure>),
    /// This shard has no room, but another one may have. The call is returned unchanged.
    Refused(Box<Call>),
}

async fn call_locally(shard: Rc<Shard>, digest: RevisionDigest, mut call: Call) -> LocalCall {
    let is_tunnel = requests_websocket(&call.request.method, &call.request.headers)
        && matches!(call.request.body, Body::Stream(_));
    let admitted =
        shard.admit(call.callee.as_str(), digest, Instant::now() + QUEUE_TIME, false).await;
    let admitted = match admitted
        .and_then(|admitted| if is_tunnel { admitted.with_tunnel() } else { Ok(admitted) })
    {
        Ok(admitted) => admitted,
        Err(failure) if failure.may_retry_elsewhere() => return LocalCall::Refused(Box::new(call)),
        Err(failure) => return LocalCall::Done(Err(failure)),
    };
    let limit = if is_tunnel { u64::MAX } else { admitted.request_body_bytes() };
    let body = std::mem::replace(&mut call.request.body, Body::Full(Bytes::new()));
    call.request.body = match limit_body(body, limit) {
        Ok(body) => body,
        Err(failure) => return LocalCall::Done(Err(failure)),
    };
    let observation = shard.metrics().begin(digest);
    let outcome = admitted.fetch(call.request).await;
    observation.end(outcome.as_ref().err().map(|failure| failure.code));
    LocalCall::Done(outcome.map(to_call_response))
}

/// Wraps the body so that it fails once it is longer than `limit`, in bytes.
fn limit_body(body: Body, limit: u64) -> Result<Body, Failure> {
    let too_large = move |phase| {
        let limit = limit / (1024 * 1024);
        let message = format!("the request's body exceeds the Worker's limit of {limit} MiB");
        Failure::new(FailureCode::RequestTooLarge, phase, message)
    };
    match body {
        Body::Full(bytes) if bytes.len() as u64 > limit => Err(too_large(Phase::Admission)),
        Body::Full(bytes) => Ok(Body::Full(bytes)),
        // Calls between Workers have no trailers.
        Body::Stream(pieces) | Body::Trailed(pieces, _) => {
            let mut seen = 0;
            let pieces = pieces.map(move |piece| {
                let piece = piece?;
                seen += piece.len() as u64;
                if seen > limit {
                    Err(StreamError::Failed(too_large(Phase::Handler)))
                } else {
                    Ok(piece)
                }
            });
            Ok(Body::Stream(pieces.boxed_local()))
        }
    }
}

/// Converts the response. As for a client's request, the permits are held until the body has been
/// read.
fn to_call_response(Answer { response, permits, .. }: Answer) -> CallResponse {
    let FetchResponse { status, headers, body } = response;
    let body = match body {
        ResponseBody::Full(piece) if piece.is_empty() => None,
        ResponseBody::Full(mut piece) => {
            let whole = async move {
                let _permits = permits;
                Ok(piece.copy_to_bytes(piece.remaining()))
            };
            Some(stream::once(whole).boxed_local())
        }
        ResponseBody::Stream(sending) => {
            let pieces = sending.map(move |piece| {
                let _permits = &permits;
                piece.map_err(|failure| StreamError::Lost(failure.message.into()))
            });
            Some(pieces.boxed_local())
        }
    };
    CallResponse { status, headers, body }
}

fn call_panicked() -> Failure {
    Failure::new(FailureCode::Internal, Phase::Handler, "the platform failed to call the Worker")
}

fn no_router(call: &Call) -> Failure {
    let message = format!(
        "{} does not run on this shard, and the node has no router to ask; set --router on the node",
        call.callee
    );
    Failure::new(FailureCode::NoNode, Phase::Admission, message)
}
