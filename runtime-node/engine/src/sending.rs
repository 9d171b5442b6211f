//! A response's body that is being sent while its invocation continues.
//!
//! A body from outside the isolate keeps the invocation alive until all of it has been sent, within
//! its wall-clock limit, which restarts with each piece. A body that the isolate's own JavaScript
//! writes does not, because that JavaScript keeps it. If the client disconnects before the end, the
//! Worker is notified.

use std::fmt;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::stream::{Abortable, Stream};
use tenon_proto::failure::{Failure, FailureCode, Phase};

use super::byte_stream::{ByteStream, StreamError};
use super::heap::Charge;
use super::ids::{InvocationId, OperationId};

/// Learns of the progress of a response's body.
pub(crate) trait Progress {
    /// A piece has been sent.
    fn has_moved(&self, id: InvocationId);

    /// The client has disconnected before the end of the body.
    fn was_cancelled(self: Rc<Self>, id: InvocationId);

    /// No more of the body is sent.
    ///
    /// # Arguments
    /// * `operation` - the operation that kept the invocation, if the body came from outside.
    fn has_ended(&self, id: InvocationId, operation: Option<OperationId>);
}

/// A response body in progress; see the [module documentation](self).
pub struct Sending {
    stream: Abortable<ByteStream>,
    invocation: InvocationId,
    /// The operation that keeps the invocation, if the body comes from outside.
    operation: Option<OperationId>,
    progress: Weak<dyn Progress>,
    is_over: bool,
    /// The charge for the response's head, which is sent before the body.
    _head: Charge,
}

impl Sending {
    /// Begins to send a body.
    ///
    /// # Arguments
    /// * `operation` - the operation that keeps the invocation, if the body comes from outside.
    pub(crate) fn new(
        stream: Abortable<ByteStream>,
        invocation: InvocationId,
        operation: Option<OperationId>,
        progress: Weak<dyn Progress>,
        head: Charge,
    ) -> Self {
        Self { stream, invocation, operation, progress, is_over: false, _head: head }
    }

    fn end(&mut self) {
        self.is_over = true;
        if let Some(progress) = self.progress.upgrade() {
            progress.has_ended(self.invocation, self.operation);
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
                    progress.has_moved(self.invocation);
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
            Rc::clone(&progress).was_cancelled(self.invocation);
            progress.has_ended(self.invocation, self.operation);
        }
    }
}

impl fmt::Debug for Sending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a stream")
    }
}
