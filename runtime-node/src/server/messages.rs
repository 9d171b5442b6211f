//! Reads the messages of a request's stream: a head, then the pieces of the body and its trailers.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;

use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};
use http_body::Body as HttpBody;
use tenon_engine::{Body, StreamError};
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::frame::FrameError;
use tenon_proto::invoke::{Next, ReadError, Reader};
use tenon_proto::runtime::invoke_request::Part;
use tenon_proto::runtime::{Header, InvokeHead, InvokeRequest, Trailers};

pub(super) struct Messages<B>(Reader<B>);

/// The reason why the next message cannot be read.
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
        let first = self.next().await.map_err(|broken| refused(broken.to_string()))?;
        first
            .and_then(Part::into_head)
            .ok_or_else(|| refused("the first message is not the head".to_owned()))
    }

    /// Returns the request's body: the part that is inline in the head, then the pieces that
    /// follow, and their trailers. The body is read no faster than the Worker reads it, so that
    /// HTTP/2's flow control is the only buffer.
    pub(super) fn body(self, first: Bytes, limit: u64) -> Body {
        let rest = stream::unfold(self, |mut messages| async move {
            let part = messages.next().await.map_err(|_| incomplete()).transpose()?;
            Some((part, messages))
        });
        limited(first, rest, limit)
    }

    /// Returns the next message, or `None` at the end of the stream.
    async fn next(&mut self) -> Result<Option<Part>, MessageError> {
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
///
/// # Arguments
/// * `first` - the first bytes of the body.
/// * `rest` - the pieces that follow, and then the trailers, if there are any.
pub(super) fn limited(
    first: Bytes,
    rest: impl Stream<Item = Result<Part, Failure>> + 'static,
    limit: u64,
) -> Body {
    let seen = first.len() as u64;
    let trailers = Rc::<Cell<Vec<Header>>>::default();
    let read = Rc::clone(&trailers);
    let first = stream::iter((!first.is_empty()).then_some(Ok(first)));
    let state = Some((Box::pin(rest), seen, read));
    let rest = stream::unfold(state, move |state| async move {
        let (mut rest, seen, read) = state?;
        let mut next = rest.next().await;
        if let Some(Ok(Part::Trailers(Trailers { fields }))) = next {
            read.set(fields);
            next = rest.next().await;
        }
        let piece = next?.and_then(|part| {
            let Part::Body(piece) = part else { return Err(incomplete()) };
            let seen = seen + piece.len() as u64;
            if seen > limit { Err(too_large(limit, Phase::Handler)) } else { Ok((piece, seen)) }
        });
        Some(match piece {
            Ok((piece, seen)) => (Ok(piece), Some((rest, seen, read))),
            Err(failure) => (Err(StreamError::Failed(failure)), None),
        })
    });
    Body::Trailed(first.chain(rest).boxed_local(), Box::new(move || trailers.take()))
}

fn incomplete() -> Failure {
    let why = "the request's body ended before it was complete";
    Failure::new(FailureCode::BadRequest, Phase::Handler, why)
}

pub(super) fn too_large(limit: u64, phase: Phase) -> Failure {
    let why =
        format!("the request's body exceeds the Worker's limit of {} MiB", limit / (1024 * 1024));
    Failure::new(FailureCode::RequestTooLarge, phase, why)
}
