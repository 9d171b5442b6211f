//! Sends a response's body while the invocation continues.
//!
//! A body from outside the isolate keeps the invocation alive until all of the body has been sent,
//! within the wall-clock limit, which restarts with each piece. A body that the isolate's own
//! JavaScript writes does not keep the invocation alive, because that JavaScript does. If the
//! client disconnects before the end, the Worker is notified.

use std::fmt;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::stream::{Abortable, Stream};
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::runtime::Header;

use super::byte_stream::{ByteStream, StreamError, Trailers};
use super::heap::Charge;
use super::ids::{InvocationId, OperationId};

/// An observer of the progress of responses' bodies.
pub(crate) trait SendProgress {
    /// Handles the sending of a piece.
    fn piece_sent(&self, id: InvocationId);

    /// Handles a disconnection of the client before the end of the body.
    fn client_disconnected(self: Rc<Self>, id: InvocationId);

    /// Handles the end of the body, which may be incomplete.
    ///
    /// # Arguments
    /// * `operation` - the operation that kept the invocation alive, if the body came from outside.
    fn sending_ended(&self, id: InvocationId, operation: Option<OperationId>);
}

/// A response's body that is being sent; see the [module documentation](self).
pub struct Sending {
    stream: Abortable<ByteStream>,
    trailers: Option<Trailers>,
    invocation: InvocationId,
    /// The operation that keeps the invocation alive, if the body comes from outside.
    operation: Option<OperationId>,
    progress: Weak<dyn SendProgress>,
    is_over: bool,
    /// The charge for the response's head, which is sent before the body.
    _head: Charge,
}

impl Sending {
    /// Begins to send a body.
    ///
    /// # Arguments
    /// * `operation` - the operation that keeps the invocation alive, if the body comes from
    ///   outside.
    pub(crate) fn new(
        stream: Abortable<ByteStream>,
        invocation: InvocationId,
        operation: Option<OperationId>,
        progress: Weak<dyn SendProgress>,
        head: Charge,
    ) -> Self {
        let (trailers, is_over) = (None, false);
        Self { stream, trailers, invocation, operation, progress, is_over, _head: head }
    }

    /// Sets the trailers that follow the body.
    #[must_use]
    pub fn with_trailers(mut self, trailers: Trailers) -> Self {
        self.trailers = Some(trailers);
        self
    }

    /// Returns the trailers of a body that has ended.
    pub fn take_trailers(&mut self) -> Vec<Header> {
        self.trailers.take().map(|trailers| trailers()).unwrap_or_default()
    }

    fn end(&mut self) {
        self.is_over = true;
        if let Some(progress) = self.progress.upgrade() {
            progress.sending_ended(self.invocation, self.operation);
        }
    }
}

impl Stream for Sending {
    type Item = Result<Bytes, Failure>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let next = ready!(Pin::new(&mut self.stream).poll_next(cx));
        let broke_off = || {
            Failure::new(FailureCode::WorkerException, Phase::Response, "the response broke off")
        };
        let next = match next {
            Some(Ok(bytes)) => {
                if let Some(progress) = self.progress.upgrade() {
                    progress.piece_sent(self.invocation);
                }
                return Poll::Ready(Some(Ok(bytes)));
            }
            Some(Err(StreamError::Failed(failure))) => {
                Some(Err(Failure { phase: Phase::Response, ..failure }))
            }
            Some(Err(StreamError::Lost(_))) => Some(Err(broke_off())),
            // The invocation has ended.
            None if self.stream.is_aborted() => Some(Err(broke_off())),
            None => None,
        };
        self.end();
        Poll::Ready(next)
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if !self.is_over
            && let Some(progress) = self.progress.upgrade()
        {
            Rc::clone(&progress).client_disconnected(self.invocation);
            progress.sending_ended(self.invocation, self.operation);
        }
    }
}

impl fmt::Debug for Sending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a stream")
    }
}
