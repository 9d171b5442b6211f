//! Reads the messages of a request's stream: one head, then the pieces of the body and its trailers.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;

use bytes::Bytes;
use futures::stream;
use http_body::Body as HttpBody;
use tenon_engine::{Body, StreamError};
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::frame::FrameError;
use tenon_proto::id::RevisionDigest;
use tenon_proto::invoke::{Next, ReadError, Reader};
use tenon_proto::runtime::{Header, InvokeHead, InvokeRequest, Trailers, invoke_request};

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

    /// Reads the first message, and the digest in it.
    pub(super) async fn head(&mut self) -> Result<(InvokeHead, RevisionDigest), Failure> {
        let refused = |why: String| Failure::new(FailureCode::BadRequest, Phase::Admission, why);
        let first = self.next().await.map_err(|broken| refused(broken.to_string()))?;
        let head = first
            .and_then(invoke_request::Part::into_head)
            .ok_or_else(|| refused("the first message is not the head".to_owned()))?;
        let digest = RevisionDigest::try_from(&head.digest[..])
            .map_err(|error| refused(error.to_string()))?;
        Ok((head, digest))
    }

    /// Returns the request's body: the part that is inline in the head, then the pieces that
    /// follow, and their trailers. The body is read no faster than the Worker reads it, so that
    /// HTTP/2's flow control is the only buffer.
    pub(super) fn body(self, first: Bytes, limit: u64) -> Body {
        let seen = first.len() as u64;
        let trailers = Rc::<Cell<Vec<Header>>>::default();
        let read = Rc::clone(&trailers);
        let first = stream::iter((!first.is_empty()).then_some(Ok(first)));
        let state = Some((self, seen, read));
        let rest = stream::unfold(state, move |state| async move {
            let (mut messages, seen, read) = state?;
            let mut next = messages.next().await;
            if let Ok(Some(invoke_request::Part::Trailers(Trailers { fields }))) = next {
                read.set(fields);
                next = messages.next().await;
            }
            match next {
                Ok(None) => None,
                Ok(Some(invoke_request::Part::Body(data))) => {
                    let seen = seen + data.len() as u64;
                    if seen > limit {
                        return Some((
                            Err(StreamError::Failed(too_large(limit, Phase::Handler))),
                            None,
                        ));
                    }
                    Some((Ok(data), Some((messages, seen, read))))
                }
                Ok(Some(_)) | Err(_) => {
                    let why = "the request's body ended before it was complete";
                    let failure = Failure::new(FailureCode::BadRequest, Phase::Handler, why);
                    Some((Err(StreamError::Failed(failure)), None))
                }
            }
        });
        let bytes = Box::pin(stream::StreamExt::chain(first, rest));
        Body::Trailed(bytes, Box::new(move || trailers.take()))
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

pub(super) fn too_large(limit: u64, phase: Phase) -> Failure {
    let why =
        format!("the request's body exceeds the Worker's limit of {} MiB", limit / (1024 * 1024));
    Failure::new(FailureCode::RequestTooLarge, phase, why)
}
