//! The body of a response that arrives from the node while it is sent.
//!
//! A body belongs to one thread.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use tenon_clients::Client;
use tenon_clients::quota::Hold;
use tenon_proto::runtime::Trailers;
use tenon_proto::runtime::invoke_response::Part;

use crate::front::trailers;
use crate::thread::Permit;
use crate::upstream::exchange::{Rest, SLOW_CLIENT};
use crate::upstream::retry::AttemptError;

/// A body that has not completely arrived from the node. Dropping this value ends the node's
/// stream.
pub(crate) struct Streaming {
    first: Option<Bytes>,
    rest: Rest,
    /// The trailers, which follow the last piece, if there are any.
    trailers: Option<Box<HeaderMap>>,
    client: Arc<Client>,
    /// The memory for data that waits for the client.
    memory: Option<Hold>,
    /// The request counts as in flight until its last byte has been sent.
    _permit: Permit,
}

impl Streaming {
    /// Creates the body of a reply whose first piece has arrived with its head.
    pub(super) fn new(
        first: Option<Bytes>,
        rest: Rest,
        client: &Arc<Client>,
        permit: Permit,
    ) -> Self {
        let client = client.clone();
        Self { first, rest, trailers: None, client, memory: None, _permit: permit }
    }

    /// Returns the next piece, or `None` at the end. From the first piece until no piece is
    /// available, the client counts as behind: up to two windows of data from the node wait here,
    /// and are charged to the client.
    ///
    /// # Errors
    /// Fails if the node does not complete the body, or if there is no memory for data that waits.
    pub(crate) fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, TruncatedBody>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        let part = loop {
            match self.rest.poll_next(cx) {
                // The end follows.
                Poll::Ready(Ok(Some(Part::Trailers(Trailers { fields })))) => {
                    let trailers = trailers::of_response(fields);
                    self.trailers = (!trailers.is_empty()).then(|| Box::new(trailers));
                }
                Poll::Ready(part) => break part,
                Poll::Pending => {
                    self.memory = None;
                    return Poll::Pending;
                }
            }
        };
        Poll::Ready(match part {
            Ok(Some(Part::Body(piece))) => {
                if self.memory.is_none() {
                    self.memory = self.client.memory(SLOW_CLIENT);
                }
                let has_memory = self.memory.is_some();
                Some(if has_memory { Ok(piece) } else { Err(TruncatedBody::OutOfMemory) })
            }
            Ok(None) => None,
            Ok(Some(Part::Head(_) | Part::Trailers(_))) => {
                let error = AttemptError::ProtocolViolation("a second head".into());
                Some(Err(TruncatedBody::Node(error)))
            }
            Err(error) => Some(Err(TruncatedBody::Node(error))),
        })
    }

    /// Returns the trailers of a body that has ended, if it has any.
    pub(super) fn take_trailers(&mut self) -> Option<HeaderMap> {
        self.trailers.take().map(|trailers| *trailers)
    }
}

/// The reason why a body ended before it was complete. On this error the client's stream or
/// connection is broken off, so that a partial body is not taken for a complete one.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TruncatedBody {
    #[error("the node did not complete its response ({})", .0.reason())]
    Node(AttemptError),
    #[error("cannot read the static file: {0}")]
    File(io::Error),
    #[error("cannot compress the response: {0}")]
    Compression(io::Error),
    #[error("no memory is left for a client that reads slowly")]
    OutOfMemory,
}

impl TruncatedBody {
    /// Returns the reason as a word.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Node(error) => error.reason(),
            Self::File(_) | Self::Compression(_) => "internal",
            Self::OutOfMemory => "overloaded",
        }
    }

    pub(super) fn file(error: io::Error) -> Self {
        tracing::error!(%error, "cannot read a static file");
        Self::File(error)
    }
}
