//! Calls to other Workers, and the interface to the code that performs them.
//!
//! A Worker names a binding, and the binding names a Worker of the same namespace. No code can name
//! any other Worker. Whether this shard runs the called Worker is irrelevant to the engine.

use futures::future::LocalBoxFuture;
use tenon_engine::FetchRequest;
use tenon_engine::byte_stream::ByteStream;
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::id::{RevisionDigest, WorkerId};
use tenon_proto::runtime::Header;

/// A call from one Worker to another, or to its own static files.
pub struct Call {
    pub caller: WorkerId,
    pub callee: WorkerId,
    /// The revision that serves the callee, if it is known. For static files, this is the caller's
    /// revision.
    pub digest: Option<RevisionDigest>,
    /// Set if the request is for the callee's static files, and not for its code.
    pub assets: bool,
    /// The request, which carries the context of the call.
    pub request: FetchRequest,
}

/// The response of the called Worker.
pub struct CallResponse {
    pub status: u16,
    pub headers: Vec<Header>,
    /// `None` if the body is empty.
    pub body: Option<ByteStream>,
}

/// Performs calls to other Workers.
pub trait Services {
    /// Calls another Worker. Dropping the future, or the body of the response, cancels the call.
    ///
    /// # Errors
    /// Returns the failure that a client of the other Worker would get.
    fn call(&self, call: Call) -> LocalBoxFuture<'static, Result<CallResponse, Failure>>;
}

/// An implementation for an engine that cannot call other Workers.
pub(crate) struct NoServices;

impl Services for NoServices {
    fn call(&self, _: Call) -> LocalBoxFuture<'static, Result<CallResponse, Failure>> {
        let message = "this engine cannot call other Workers";
        Box::pin(async move { Err(Failure::new(FailureCode::NoNode, Phase::Admission, message)) })
    }
}
