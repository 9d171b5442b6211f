//! Calls of Workers by Workers, as a shard carries them out.
//!
//! ```text
//!  env.OTHER.fetch ─► how deep? ─┬─ the revision that serves is warm on this shard ─► admit ─► its isolate
//!                                └─ otherwise ─► a router's inner door ─► whichever shard that picks
//! ```
//!
//! Who serves a Worker is the routers' to know: they hear of a new revision first and of nodes that leave, and would have to
//! be asked about every call, were it not that a router sends with each request what then serves the Workers that it may
//! call. So a call stays in the process only for the very revision that a router would have picked when the caller's own
//! request came, and only where it needs no start: a Worker is where routers send it, and not on every shard that calls it.
//! A caller that was itself called in this way knows of no revisions and asks a router.
//!
//! Either way the call has the permits and limits of the Worker that is called, and its failures are those that a client
//! would be told.

mod router;

use std::cell::OnceCell;
use std::rc::{Rc, Weak};
use std::time::Duration;

use bytes::Buf as _;
use futures::future::LocalBoxFuture;
use futures::{FutureExt as _, StreamExt as _, stream};
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::id::RevisionDigest;
use tenon_proto::runtime::{InvokeHead, asks_for_websocket};
use tokio::task::spawn_local;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::engine::{Answered, Body, Broken, Call, FetchResponse, ResponseBody, Services};
use crate::shard::{Permits, Shard};
pub use router::{InvalidRouter, Router, RouterUrl};

/// The place in a queue: the caller's own time ends the call as well.
const PATIENCE: Duration = Duration::from_secs(30);

/// Carries the calls of one shard's Workers out.
pub struct Calls {
    shard: OnceCell<Weak<Shard>>,
    router: Option<Rc<Router>>,
}

impl Calls {
    /// # Arguments
    /// * `router` - `None` where there is none: then a Worker can call what is warm on its own shard.
    pub fn new(router: Option<Router>) -> Rc<Self> {
        Rc::new(Self { shard: OnceCell::new(), router: router.map(Rc::new) })
    }

    /// Whose Workers they are.
    pub fn belong_to(&self, shard: &Rc<Shard>) {
        self.shard.set(Rc::downgrade(shard)).expect("calls belong to one shard");
    }
}

impl Services for Calls {
    fn call(&self, call: Call) -> LocalBoxFuture<'static, Result<Answered, Failure>> {
        let shard = self.shard.get().and_then(Weak::upgrade);
        let router = self.router.clone();
        let called = async move {
            head(&call).check_depth()?;
            let call = match (shard, call.digest) {
                (Some(shard), Some(digest)) if shard.is_warm(&digest) => {
                    // A task of its own, as a client's request has. The caller's isolate polls its operations only while it
                    // does not itself wait for a turn, which would never come if one of them had been given it.
                    match AbortOnDropHandle::new(spawn_local(here(shard, digest, call))).await {
                        Ok(Here::Done(outcome)) => return outcome,
                        Ok(Here::Refused(call)) => call,
                        Err(_) => return Err(panicked()),
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

/// What a call says of itself, without its request.
fn head(call: &Call) -> InvokeHead {
    InvokeHead {
        worker: call.callee.to_string(),
        caller: call.caller.to_string(),
        depth: call.request.origin.depth,
        ..InvokeHead::default()
    }
}

enum Here {
    Done(Result<Answered, Failure>),
    /// There is no room here, and may be elsewhere. Nothing of the call has been used.
    Refused(Call),
}

async fn here(shard: Rc<Shard>, digest: RevisionDigest, mut call: Call) -> Here {
    let is_tunnel =
        asks_for_websocket(&call.request.method, &call.request.headers) && matches!(call.request.body, Body::Stream(_));
    let admitted = shard.admit(call.callee.as_str(), digest, Instant::now() + PATIENCE, false).await;
    let admitted = match admitted.and_then(|admitted| if is_tunnel { admitted.with_tunnel() } else { Ok(admitted) }) {
        Ok(admitted) => admitted,
        Err(failure) if failure.may_retry_elsewhere() => return Here::Refused(call),
        Err(failure) => return Here::Done(Err(failure)),
    };
    let limit = if is_tunnel { u64::MAX } else { admitted.request_body_bytes() };
    let body = std::mem::replace(&mut call.request.body, Body::Full(bytes::Bytes::new()));
    call.request.body = match within(body, limit) {
        Ok(body) => body,
        Err(failure) => return Here::Done(Err(failure)),
    };
    let observation = shard.metrics().begin(digest);
    let outcome = admitted.fetch(call.request).await;
    observation.end(outcome.as_ref().err().map(|failure| failure.code));
    Here::Done(outcome.map(|(response, permits)| answered(response, permits)))
}

/// The body, which breaks off once it is longer than the Worker takes.
fn within(body: Body, limit: u64) -> Result<Body, Failure> {
    let too_large = move |phase| {
        let message = format!("The request's body is over the limit of {limit} bytes.");
        Failure::new(FailureCode::RequestTooLarge, phase, message)
    };
    match body {
        Body::Full(bytes) if bytes.len() as u64 > limit => Err(too_large(Phase::Admission)),
        Body::Full(bytes) => Ok(Body::Full(bytes)),
        Body::Stream(pieces) => {
            let mut seen = 0;
            let pieces = pieces.map(move |piece| {
                let piece = piece?;
                seen += piece.len() as u64;
                if seen > limit { Err(Broken::Failed(too_large(Phase::Handler))) } else { Ok(piece) }
            });
            Ok(Body::Stream(pieces.boxed_local()))
        }
    }
}

/// The permits are held until the body has been read, as for a client.
fn answered(response: FetchResponse, permits: Permits) -> Answered {
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
                piece.map_err(|failure| Broken::Lost(failure.message.into()))
            });
            Some(pieces.boxed_local())
        }
    };
    Answered { status, headers, body }
}

fn panicked() -> Failure {
    Failure::new(FailureCode::Internal, Phase::Handler, "the platform failed to call the Worker")
}

fn no_router(call: &Call) -> Failure {
    let message = format!(
        "{} is not on this shard, and the node knows no router that could find it: set the node's --router.",
        call.callee
    );
    Failure::new(FailureCode::NoNode, Phase::Admission, message)
}
