//! Serves the front of the shard's own thread. The request and the reply are passed as Rust values,
//! without encoding them; admission, deadlines and limits are those of every request.

use std::panic::AssertUnwindSafe;
use std::rc::{Rc, Weak};

use bytes::{Buf as _, Bytes};
use futures::future::LocalBoxFuture;
use futures::{FutureExt as _, StreamExt as _, stream};
use tenon_engine::{Body, Piece};
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::runtime::{Trailers, invoke_response::Part};
use tenon_router::{InlineReply, InlineRequest, InlineShard, ReplyParts};

use super::messages::limited;
use super::remainder::{Next, Remainder};
use super::reply::for_router;
use super::run;
use crate::shard::{Answer, Shard};

/// The server for the front of a shard's thread. It does not keep the shard alive.
pub(crate) struct InlineServer(Weak<Shard>);

impl InlineServer {
    pub(crate) fn of(shard: &Rc<Shard>) -> Self {
        Self(Rc::downgrade(shard))
    }
}

impl InlineShard for InlineServer {
    fn invoke(
        &self,
        request: InlineRequest,
    ) -> LocalBoxFuture<'static, Result<InlineReply, Failure>> {
        let shard = self.0.upgrade();
        let served = async move {
            let shard = shard.ok_or_else(ended)?;
            // A panic would otherwise end the client's connection, with all of its requests.
            let invoked = AssertUnwindSafe(invoke(&shard, request)).catch_unwind().await;
            let invoked = invoked.unwrap_or_else(|_| Err(panicked()));
            invoked.map_err(|failure| for_router(&failure))
        };
        served.boxed_local()
    }
}

async fn invoke(shard: &Rc<Shard>, request: InlineRequest) -> Result<InlineReply, Failure> {
    let InlineRequest { head, rest, timeout } = request;
    let takes_trailers = head.takes_trailers;
    let body = |first, limit| match rest {
        Some(rest) => limited(first, rest, limit),
        None => Body::Full(first),
    };
    let (Answer { response, permits, is_hot }, cold) =
        run(shard, Some(timeout), head, body).await?;
    let (mut head, first, mut rest) = Remainder::of(response, is_hot, cold, takes_trailers);
    head.body = to_bytes(first);
    let rest = head.more_body.then(|| -> ReplyParts {
        let parts = stream::poll_fn(move |cx| {
            let _permits = &permits;
            let part = rest.poll_next(cx).map_ok(to_part);
            part.map_err(|failure| for_router(&failure))
        });
        parts.boxed_local()
    });
    Ok(InlineReply { head, rest })
}

fn to_part(next: Next) -> Part {
    match next {
        Next::Piece(piece) => Part::Body(to_bytes(piece)),
        Next::Trailers(fields) => Part::Trailers(Trailers { fields }),
    }
}

fn to_bytes(mut piece: Piece) -> Bytes {
    piece.copy_to_bytes(piece.remaining())
}

/// Returns the failure for a request that arrives after the shard has ended and before its process
/// ends.
fn ended() -> Failure {
    Failure::new(FailureCode::Draining, Phase::Admission, "the shard has ended; retry later")
}

fn panicked() -> Failure {
    Failure::new(FailureCode::Internal, Phase::Handler, "the platform failed to run the invocation")
}
