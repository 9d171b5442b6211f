//! What a connection asks of those who answer its requests.

use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Buf;
use http::HeaderMap;

use crate::incoming::Incoming;

/// Serves requests.
pub trait Service {
    type Reply: Outgoing;
    type Future: Future<Output = Answer<Self::Reply>>;

    /// # Arguments
    /// * `timeout`: the timeout that the router has set.
    fn call(&self, timeout: Duration, body: Incoming) -> Self::Future;
}

impl<F, A, R> Service for F
where
    F: Fn(Duration, Incoming) -> A,
    A: Future<Output = Answer<R>>,
    R: Outgoing,
{
    type Reply = R;
    type Future = A;

    fn call(&self, timeout: Duration, body: Incoming) -> A {
        self(timeout, body)
    }
}

/// The answer to a request.
pub enum Answer<R> {
    Reply(R),
    /// A failure at the start: gRPC's status, as headers.
    Failure(HeaderMap),
}

/// The messages of an answer, and its end.
pub trait Outgoing: Unpin {
    type Data: Buf;

    /// Returns the next part. Is not called again after the end.
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Part<Self::Data>>;
}

/// A part of an answer.
pub enum Part<D> {
    Data(D),
    /// The end, with status OK.
    Success,
    /// The end, with another status.
    Failure(HeaderMap),
}
