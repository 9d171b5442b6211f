//! Outgoing requests, and the responses to them.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::LocalBoxStream;
use http::{HeaderMap, Method, StatusCode};
use http_body::{Body, Frame, SizeHint};
use prometheus::IntCounter;
use url::Url;

use super::EgressError;

/// A stream of a body's bytes, which are produced only on demand.
pub type BodyStream = LocalBoxStream<'static, Result<Bytes, EgressError>>;

/// Returns the trailer fields that follow a body, once the body has ended.
pub type Trailers = Box<dyn FnOnce() -> HeaderMap>;

/// A request made by a Worker.
pub struct Request {
    pub method: Method,
    pub url: Url,
    /// The request's headers. A Worker cannot set hop-by-hop headers or the body's length: see
    /// [`Client::fetch`](super::Client::fetch).
    pub headers: HeaderMap,
    pub body: RequestBody,
    pub redirect: RedirectMode,
}

/// A request's body.
pub enum RequestBody {
    Empty,
    Full(Bytes),
    /// A body that can be sent only once: a redirect that requires it again cannot be followed.
    Stream {
        bytes: BodyStream,
        /// Length of the body in bytes, if it is known.
        length: Option<u64>,
        trailers: Option<Trailers>,
    },
}

/// The treatment of a redirect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectMode {
    Follow,
    /// A redirect is an error.
    Error,
    /// The Worker gets the redirect as the response.
    Manual,
}

/// A response to a request.
pub struct Response {
    pub status: StatusCode,
    /// The reason phrase; empty for HTTP/2.
    pub reason: String,
    pub headers: HeaderMap,
    /// The URL of the response, after redirects.
    pub url: Url,
    pub redirected: bool,
    /// The body; `None` if the response cannot have one.
    pub body: Option<ResponseBody>,
}

/// A response's body.
pub enum ResponseBody {
    /// The body has arrived with the head, and is empty.
    Empty,
    Stream {
        bytes: BodyStream,
        trailers: Trailers,
    },
}

impl ResponseBody {
    /// Returns the body as a stream, without its trailers.
    pub fn into_stream(self) -> BodyStream {
        match self {
            Self::Empty => futures::stream::empty().boxed_local(),
            Self::Stream { bytes, .. } => bytes,
        }
    }
}

impl RequestBody {
    /// Returns a copy of the body, or `None` if the body can be sent only once.
    pub(super) fn try_clone(&self) -> Option<Self> {
        match self {
            Self::Empty => Some(Self::Empty),
            Self::Full(bytes) => Some(Self::Full(bytes.clone())),
            Self::Stream { .. } => None,
        }
    }
}

/// A request's body while it is being sent.
pub(super) struct UploadBody {
    body: RequestBody,
    bytes: IntCounter,
    failure: UploadFailure,
}

/// The error that interrupted a body, if there is one. hyper's own error states only that the
/// upload was aborted.
pub(super) type UploadFailure = Rc<RefCell<Option<EgressError>>>;

impl UploadBody {
    /// Creates the body of a request.
    ///
    /// # Arguments
    /// * `bytes` - counter of the sent bytes.
    /// * `failure` - place for the error that interrupts the body.
    pub(super) fn new(body: RequestBody, bytes: IntCounter, failure: UploadFailure) -> Self {
        Self { body, bytes, failure }
    }

    /// Returns whether the request has no body.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self.body, RequestBody::Empty)
    }

    /// Returns the part that has not been sent.
    pub(super) fn into_inner(self) -> RequestBody {
        self.body
    }
}

/// The error that tells hyper to abort the upload.
#[derive(Debug, thiserror::Error)]
#[error("the request's body was interrupted")]
pub(super) struct UploadAborted;

impl Body for UploadBody {
    type Data = Bytes;
    type Error = UploadAborted;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UploadAborted>>> {
        let piece = match &mut self.body {
            RequestBody::Empty => None,
            RequestBody::Full(bytes) => Some(Ok(std::mem::take(bytes)))
                .filter(|piece| !matches!(piece, Ok(b) if b.is_empty())),
            RequestBody::Stream { bytes, .. } => std::task::ready!(bytes.as_mut().poll_next(cx)),
        };
        if piece.is_none()
            && let RequestBody::Stream { trailers, .. } = &mut self.body
            && let Some(trailers) = trailers.take()
        {
            let trailers = trailers();
            // The stream has ended and must not be polled again.
            self.body = RequestBody::Empty;
            return Poll::Ready((!trailers.is_empty()).then(|| Ok(Frame::trailers(trailers))));
        }
        Poll::Ready(match piece {
            Some(Ok(piece)) => {
                self.bytes.inc_by(piece.len() as u64);
                Some(Ok(Frame::data(piece)))
            }
            Some(Err(error)) => {
                self.failure.replace(Some(error));
                Some(Err(UploadAborted))
            }
            None => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        match &self.body {
            RequestBody::Empty => true,
            RequestBody::Full(bytes) => bytes.is_empty(),
            RequestBody::Stream { .. } => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.body {
            RequestBody::Empty => SizeHint::with_exact(0),
            RequestBody::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            RequestBody::Stream { length: Some(length), .. } => SizeHint::with_exact(*length),
            RequestBody::Stream { length: None, .. } => SizeHint::new(),
        }
    }
}
