//! Requests on their way out, and the responses to them.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::stream::LocalBoxStream;
use http::{HeaderMap, Method, StatusCode};
use http_body::{Body, Frame, SizeHint};
use prometheus::IntCounter;
use url::Url;

use super::EgressError;

/// Bytes of a body, as they come and no faster than they are asked for.
pub type Bytestream = LocalBoxStream<'static, Result<Bytes, EgressError>>;

/// What a Worker asks for.
pub struct Request {
    pub method: Method,
    pub url: Url,
    /// What is between the two ends of a connection, and what says how long the body is, is not the Worker's to say: see
    /// [`Client::fetch`](super::Client::fetch).
    pub headers: HeaderMap,
    pub body: Outgoing,
    pub redirect: RedirectMode,
}

/// A request's body.
pub enum Outgoing {
    Empty,
    Full(Bytes),
    /// Once: a redirect that asks for it again cannot be followed.
    Stream {
        bytes: Bytestream,
        /// Where it is known.
        length: Option<u64>,
    },
}

/// What becomes of a response that leads elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectMode {
    Follow,
    /// It is an error.
    Error,
    /// The Worker gets it as it is.
    Manual,
}

/// What came back.
pub struct Response {
    pub status: StatusCode,
    /// As an HTTP/1.1 origin says it; empty otherwise.
    pub reason: String,
    pub headers: HeaderMap,
    /// Where it came from, after redirects.
    pub url: Url,
    pub redirected: bool,
    /// `None` where there cannot be one.
    pub body: Option<Bytestream>,
}

impl Outgoing {
    /// The same again, if it can be had again.
    pub(super) fn again(&self) -> Option<Self> {
        match self {
            Self::Empty => Some(Self::Empty),
            Self::Full(bytes) => Some(Self::Full(bytes.clone())),
            Self::Stream { .. } => None,
        }
    }
}

/// A body that is being sent.
pub(super) struct Sending {
    body: Outgoing,
    bytes: IntCounter,
    failure: UploadFailure,
}

/// Why a body could not be sent to its end: what the protocol says then is that we have broken off.
pub(super) type UploadFailure = Rc<RefCell<Option<EgressError>>>;

impl Sending {
    /// # Arguments
    /// * `bytes` - counts them.
    /// * `failure` - keeps why it breaks off, if it does.
    pub(super) fn new(body: Outgoing, bytes: IntCounter, failure: UploadFailure) -> Self {
        Self { body, bytes, failure }
    }

    /// Whether there is none at all.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self.body, Outgoing::Empty)
    }

    /// What has not been sent.
    pub(super) fn into_inner(self) -> Outgoing {
        self.body
    }
}

/// For the protocol.
#[derive(Debug, thiserror::Error)]
#[error("the request's body has broken off")]
pub(super) struct BrokeOff;

impl Body for Sending {
    type Data = Bytes;
    type Error = BrokeOff;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokeOff>>> {
        let piece = match &mut self.body {
            Outgoing::Empty => None,
            Outgoing::Full(bytes) => {
                Some(Ok(std::mem::take(bytes))).filter(|piece| !matches!(piece, Ok(b) if b.is_empty()))
            }
            Outgoing::Stream { bytes, .. } => std::task::ready!(bytes.as_mut().poll_next(cx)),
        };
        Poll::Ready(match piece {
            Some(Ok(piece)) => {
                self.bytes.inc_by(piece.len() as u64);
                Some(Ok(Frame::data(piece)))
            }
            Some(Err(error)) => {
                self.failure.replace(Some(error));
                Some(Err(BrokeOff))
            }
            None => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        match &self.body {
            Outgoing::Empty => true,
            Outgoing::Full(bytes) => bytes.is_empty(),
            Outgoing::Stream { .. } => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.body {
            Outgoing::Empty => SizeHint::with_exact(0),
            Outgoing::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Outgoing::Stream { length: Some(length), .. } => SizeHint::with_exact(*length),
            Outgoing::Stream { length: None, .. } => SizeHint::new(),
        }
    }
}
