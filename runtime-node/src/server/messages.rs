//! Reads the messages of a request's stream: one head, then the pieces of the body.

use std::future::poll_fn;

use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};
use http_body::Body as HttpBody;
use tenon_engine::{Body, StreamError};
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::frame::FrameError;
use tenon_proto::invoke::{Next, ReadError, Reader};
use tenon_proto::runtime::{InvokeHead, InvokeRequest, invoke_request};

pub(super) struct Messages<B>(Reader<B>);

/// The reason for which the next message cannot be read.
#[derive(Debug, thiserror::Error)]
enum MessageError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("the stream was reset")]
    Stream,
}

impl<B: HttpBody<Data = Bytes> + Unpin + 'static> Messages<B> {
    pub(super) fn new(incoming: B) -> Self {
        Self(Reader::new(incoming))
    }

    /// Reads the first message.
    pub(super) async fn head(&mut self) -> Result<InvokeHead, Failure> {
        let refused = |why: String| Failure::new(FailureCode::BadRequest, Phase::Admission, why);
        match self.next().await.map_err(|broken| refused(broken.to_string()))? {
            Some(invoke_request::Part::Head(head)) => Ok(head),
            Some(invoke_request::Part::Body(_)) | None => {
                Err(refused("the first message is not the head".to_owned()))
            }
        }
    }

    /// Returns the request's body: the part that is inline in the head, then the pieces that
    /// follow. The body is read no faster than the Worker reads it, so that HTTP/2's flow control
    /// is the only buffer.
    pub(super) fn body(self, first: Bytes, limit: u64) -> Body {
        let rest = stream::unfold(self, |mut messages| async move {
            match messages.next().await {
                Ok(None) => None,
                Ok(Some(invoke_request::Part::Body(data))) => Some((Ok(data), messages)),
                Ok(Some(invoke_request::Part::Head(_))) | Err(_) => {
                    let why = "the request's body ended before it was complete";
                    let failure = Failure::new(FailureCode::BadRequest, Phase::Handler, why);
                    Some((Err(failure), messages))
                }
            }
        });
        limited(first, rest, limit)
    }

    /// Returns the next message, or `None` at the end of the stream.
    async fn next(&mut self) -> Result<Option<invoke_request::Part>, MessageError> {
        loop {
            match poll_fn(|cx| self.0.poll_next::<InvokeRequest>(cx)).await {
                // A part that a newer router sends and this version does not know is skipped.
                Ok(Next::Message(InvokeRequest { part: None }) | Next::Trailers(_)) => {}
                Ok(Next::Message(InvokeRequest { part })) => return Ok(part),
                Ok(Next::End) => return Ok(self.0.finish().map(|()| None)?),
                Err(ReadError::Frame(error)) => return Err(error.into()),
                Err(ReadError::Stream(_)) => return Err(MessageError::Stream),
            }
        }
    }
}

/// Returns a body that ends after its first failure, and fails once it is longer than `limit`, in
/// bytes.
pub(super) fn limited(
    first: Bytes,
    rest: impl Stream<Item = Result<Bytes, Failure>> + 'static,
    limit: u64,
) -> Body {
    let seen = first.len() as u64;
    let first = stream::iter((!first.is_empty()).then_some(Ok(first)));
    let rest = stream::unfold(Some((Box::pin(rest), seen)), move |state| async move {
        let (mut rest, seen) = state?;
        let piece = rest.next().await?.and_then(|piece| {
            let seen = seen + piece.len() as u64;
            if seen > limit { Err(too_large(limit, Phase::Handler)) } else { Ok((piece, seen)) }
        });
        Some(match piece {
            Ok((piece, seen)) => (Ok(piece), Some((rest, seen))),
            Err(failure) => (Err(StreamError::Failed(failure)), None),
        })
    });
    Body::Stream(first.chain(rest).boxed_local())
}

pub(super) fn too_large(limit: u64, phase: Phase) -> Failure {
    let why =
        format!("the request's body exceeds the Worker's limit of {} MiB", limit / (1024 * 1024));
    Failure::new(FailureCode::RequestTooLarge, phase, why)
}
