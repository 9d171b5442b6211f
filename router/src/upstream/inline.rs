//! Requests for the shard of this thread. The shard gets the request as a value and answers with a
//! value: nothing is encoded, and no other thread or process is woken.
//!
//! ```text
//!  exchange ─► InlineRequest: head, rest of the body ─► InlineShard
//!           ◄─ InlineReply: head, rest of the body ◄──────┘
//! ```
//!
//! The crate of the node implements [`InlineShard`], so that the router does not depend on the
//! engine. The shard applies the same admission, limits and deadlines as to a request on a
//! connection. When the client disconnects, the future of the call is dropped, which cancels the
//! invocation.
//!
//! Everything here belongs to one thread.

use std::net::TcpStream;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::LocalBoxFuture;
use futures::stream::{self, LocalBoxStream};
use tenon_proto::failure::Failure;
use tenon_proto::id::ShardId;
use tenon_proto::runtime::{InvokeHead, ResponseHead, invoke_request, invoke_response};
use tenon_table::Shard;

use crate::upstream::bulkhead::BulkheadPermit;
use crate::upstream::exchange::{Reply, Rest};
use crate::upstream::heads::Heads;
use crate::upstream::retry::AttemptError;
use crate::upstream::upload::Upload;

/// The parts of a request after its head: pieces of the body, and then its trailers, if it has any.
/// They are produced only when they are read.
pub type RequestParts = LocalBoxStream<'static, Result<invoke_request::Part, Failure>>;

/// The parts of a reply after its head, as in [`RequestParts`].
pub type ReplyParts = LocalBoxStream<'static, Result<invoke_response::Part, Failure>>;

/// A shard that runs on the thread of its caller.
pub trait InlineShard {
    /// Runs a request, and returns the reply once its head is known. Dropping the future, or the
    /// rest of the reply, cancels the invocation.
    ///
    /// # Errors
    /// Fails with the failure that the same request would get on a connection to the shard.
    fn invoke(
        &self,
        request: InlineRequest,
    ) -> LocalBoxFuture<'static, Result<InlineReply, Failure>>;
}

/// A request for the shard of this thread.
pub struct InlineRequest {
    pub head: InvokeHead,
    /// The rest of the body, if `head.more_body` is set.
    pub rest: Option<RequestParts>,
    /// The time that the request may take.
    pub timeout: Duration,
}

/// The reply of the shard of this thread.
pub struct InlineReply {
    pub head: ResponseHead,
    /// The rest of the body, if `head.more_body` is set.
    pub rest: Option<ReplyParts>,
}

/// The threads of the other shards of a node, to which a thread can hand connections of clients.
pub trait Siblings {
    /// Gives a connection to the thread of a shard.
    ///
    /// # Errors
    /// Returns the connection if that thread cannot take it now.
    fn give(&self, shard: ShardId, connection: TcpStream) -> Result<(), TcpStream>;

    /// Returns the next connection that another thread has given to this one.
    fn poll_given(&self, cx: &mut Context<'_>) -> Poll<TcpStream>;
}

/// The shard of a router's thread, and its name in the catalog.
#[derive(Clone)]
pub struct Colocated {
    pub node: Arc<str>,
    pub id: ShardId,
    pub shard: Rc<dyn InlineShard>,
    /// The threads of the node's other shards, if connections can be handed to them.
    pub siblings: Option<Rc<dyn Siblings>>,
}

impl Colocated {
    /// Returns whether this is the named shard.
    pub(super) fn is(&self, shard: &Shard) -> bool {
        self.id == shard.id && self.node == shard.node
    }
}

/// Runs a request on the shard of this thread.
///
/// # Errors
/// Fails with the failure that the shard returns.
pub(super) async fn invoke(
    shard: &dyn InlineShard,
    heads: &Heads<'_>,
    upload: Option<&Rc<Upload>>,
    timeout: Duration,
    permit: BulkheadPermit,
) -> Result<Reply, AttemptError> {
    let rest = upload.map(|upload| {
        let mut streaming = upload.begin();
        stream::poll_fn(move |cx| streaming.poll_part(cx)).boxed_local()
    });
    let request = InlineRequest { head: heads.value(), rest, timeout };
    let InlineReply { head, rest } = shard.invoke(request).await.map_err(AttemptError::Failed)?;
    Ok(Reply { head, rest: Rest::inline(rest, permit) })
}
