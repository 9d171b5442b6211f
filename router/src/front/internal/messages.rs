//! The messages of a caller's stream at the internal listener: one head, then the pieces of the
//! body.
//!
//! The messages belong to one thread.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming;
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::frame::FrameError;
use tenon_proto::invoke::{Next, ReadError, Reader};
use tenon_proto::runtime::{InvokeHead, InvokeRequest, invoke_request::Part};

/// The timeout for the head. Callers are processes of the platform, and have the head when they
/// open the stream.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// The messages of one call.
pub(crate) struct Messages(Reader<Incoming>);

/// The reason why there is no next message.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MessageError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("the stream was reset")]
    Reset,
    #[error("the stream has an unexpected message")]
    Misplaced,
}

impl Messages {
    pub(crate) fn new(incoming: Incoming) -> Self {
        Self(Reader::new(incoming))
    }

    /// Reads the first message.
    ///
    /// # Errors
    /// Fails if the message is malformed or not a head, or does not arrive before the timeout.
    pub(crate) async fn head(&mut self) -> Result<InvokeHead, Failure> {
        let refused = |why: String| Failure::new(FailureCode::BadRequest, Phase::Admission, why);
        match tokio::time::timeout(HEAD_TIMEOUT, poll_fn(|cx| self.poll_next(cx))).await {
            Ok(Ok(part)) => part
                .and_then(Part::into_head)
                .ok_or_else(|| refused(MessageError::Misplaced.to_string())),
            Ok(Err(error)) => Err(refused(error.to_string())),
            Err(_) => Err(refused("the head did not arrive before the timeout".to_owned())),
        }
    }

    /// Returns the next piece of the body, or `None` at its end.
    ///
    /// # Errors
    /// Fails if the stream is reset or malformed, or if the message is not a piece of a body.
    pub(crate) fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, MessageError>> {
        Poll::Ready(match ready!(self.poll_next(cx))? {
            Some(Part::Body(piece)) => Ok(Some(piece)),
            Some(Part::Head(_) | Part::EntryHead(_) | Part::Trailers(_)) => {
                Err(MessageError::Misplaced)
            }
            None => Ok(None),
        })
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Part>, MessageError>> {
        loop {
            return Poll::Ready(match ready!(self.0.poll_next::<InvokeRequest>(cx)) {
                Ok(Next::Message(message)) => message.part.map(Some).ok_or(MessageError::Misplaced),
                Ok(Next::Trailers(_)) => continue,
                Ok(Next::End) => Ok(self.0.finish().map(|()| None)?),
                Err(ReadError::Frame(error)) => Err(error.into()),
                Err(ReadError::Stream(_)) => Err(MessageError::Reset),
            });
        }
    }
}
