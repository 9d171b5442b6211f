//! The body of a Worker's response after the part that is sent with the head, and its trailers.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::Stream as _;
use tenon_engine::{FetchResponse, Piece, ResponseBody, Sending};
use tenon_proto::failure::Failure;
use tenon_proto::frame::INLINE_BODY;
use tenon_proto::runtime::{Header, ResponseHead};

/// The next part of a response.
pub(super) enum Next {
    /// A piece of the body, of at most [`INLINE_BODY`] bytes.
    Piece(Piece),
    /// The trailers, after which the response is over.
    Trailers(Vec<Header>),
}

/// The rest of a response's body. The default is the rest of a response that is complete.
#[derive(Default)]
pub(super) struct Remainder {
    /// Bytes that the Worker has produced.
    bytes: Piece,
    /// The part of the body that the Worker has yet to produce.
    stream: Option<Sending>,
    /// Whether the caller takes the trailers of the response.
    takes_trailers: bool,
}

impl Remainder {
    /// Splits a response into its head, the bytes that are sent with the head, and the rest.
    ///
    /// # Arguments
    /// * `is_hot` - whether routers should send a part of the Worker's requests elsewhere.
    /// * `cold` - whether the request has waited for a start of its isolate.
    /// * `takes_trailers` - whether the caller takes the trailers of the response.
    pub(super) fn of(
        response: FetchResponse,
        is_hot: bool,
        cold: bool,
        takes_trailers: bool,
    ) -> (ResponseHead, Piece, Self) {
        let FetchResponse { status, headers, body } = response;
        let (mut bytes, stream) = match body {
            ResponseBody::Full(piece) => (piece, None),
            ResponseBody::Stream(stream) => (Piece::default(), Some(stream)),
        };
        let first = bytes.split_to(INLINE_BODY);
        let rest = Self { bytes, stream, takes_trailers };
        let (status, more_body) = (status.into(), !rest.is_over());
        let head = ResponseHead { status, headers, body: Bytes::new(), more_body, is_hot, cold };
        (head, first, rest)
    }

    pub(super) fn is_over(&self) -> bool {
        self.bytes.is_empty() && self.stream.is_none()
    }

    /// Returns what follows, or `None` at the end.
    ///
    /// # Errors
    /// Fails if the response breaks off. The rest is then over.
    pub(super) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Next, Failure>>> {
        while self.bytes.is_empty()
            && let Some(stream) = &mut self.stream
        {
            match ready!(Pin::new(stream).poll_next(cx)) {
                Some(Ok(bytes)) => self.bytes = bytes.into(),
                Some(Err(failure)) => {
                    self.stream = None;
                    return Poll::Ready(Some(Err(failure)));
                }
                None => {
                    let stream = self.stream.take().filter(|_| self.takes_trailers);
                    let fields = stream.map(|mut stream| stream.take_trailers());
                    if let Some(fields) = fields.filter(|fields| !fields.is_empty()) {
                        return Poll::Ready(Some(Ok(Next::Trailers(fields))));
                    }
                }
            }
        }
        let piece = (!self.bytes.is_empty()).then(|| self.bytes.split_to(INLINE_BODY));
        Poll::Ready(piece.map(|piece| Ok(Next::Piece(piece))))
    }
}
