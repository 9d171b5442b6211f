//! The service that answers the requests of a connection.

use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Buf;
use http::HeaderMap;

use crate::incoming::Incoming;

/// A service that answers requests.
pub trait Service {
    type Reply: Outgoing;
    type Future: Future<Output = Response<Self::Reply>>;

    /// Begins to answer a request.
    ///
    /// # Arguments
    /// * `timeout` - the timeout that the router has sent.
    fn call(&self, timeout: Duration, body: Incoming) -> Self::Future;
}

impl<F, A, R> Service for F
where
    F: Fn(Duration, Incoming) -> A,
    A: Future<Output = Response<R>>,
    R: Outgoing,
{
    type Reply = R;
    type Future = A;

    fn call(&self, timeout: Duration, body: Incoming) -> A {
        self(timeout, body)
    }
}

/// The response to a request.
pub enum Response<R> {
    Reply(R),
    /// A failure before the first message, as headers that contain gRPC's status.
    Failure(HeaderMap),
}

/// The messages of a response, and its end.
pub trait Outgoing: Unpin {
    type Data: Buf;

    /// Returns the next part. The method is not called again after the end.
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Part<Self::Data>>;
}

/// A part of a response.
pub enum Part<D> {
    Data(D),
    /// The end, with status OK.
    Success,
    /// The end, with another status.
    Failure(HeaderMap),
}
