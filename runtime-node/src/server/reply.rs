//! The body of an answer: messages, then the trailers of success. A failure has neither.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::buf::Chain;
use bytes::{Buf, Bytes};
use http::Response;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http_body::{Body, Frame};
use tenon_proto::frame::INLINE_BODY;
use tenon_proto::runtime::ResponseHead;

use super::wire::Prologue;
use crate::engine::{FetchResponse, ResponseBody};
use crate::shard::Permits;

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const OK: HeaderValue = HeaderValue::from_static("0");

/// A message as it is sent: what comes before the body, unless there was room for that where the body lies, and the
/// body.
type Message = Chain<Bytes, ResponseBody>;

#[derive(Default)]
pub struct Reply {
    first: Option<Message>,
    /// What of the response's body is not in a message yet.
    rest: ResponseBody,
    trailers: bool,
    /// Until all of it has been sent, or nobody wants it any more.
    _permits: Option<Permits>,
}

impl Reply {
    pub(super) fn of(response: FetchResponse, permits: Permits) -> Response<Self> {
        let FetchResponse { status, headers, body: mut rest } = response;
        let inline = rest.split_to(INLINE_BODY);
        let head = ResponseHead { status: status.into(), headers, body: Bytes::new(), more_body: !rest.is_empty() };
        let first = Some(message(&Prologue::of_head(&head, inline.len()), inline));
        let mut response = Response::new(Self { first, rest, trailers: true, _permits: Some(permits) });
        response.headers_mut().insert(CONTENT_TYPE, GRPC);
        response
    }
}

fn message(prologue: &Prologue<'_>, mut body: ResponseBody) -> Message {
    match body.prepend(prologue.len()) {
        Some(room) => {
            prologue.write(room);
            Bytes::new().chain(body)
        }
        None => prologue.to_bytes().chain(body),
    }
}

impl Body for Reply {
    type Data = Message;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Message>, Infallible>>> {
        let this = &mut *self;
        if let Some(message) = this.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(message))));
        }
        if !this.rest.is_empty() {
            let piece = this.rest.split_to(INLINE_BODY);
            return Poll::Ready(Some(Ok(Frame::data(message(&Prologue::of_piece(piece.len()), piece)))));
        }
        if std::mem::take(&mut this.trailers) {
            let trailers = HeaderMap::from_iter([(GRPC_STATUS, OK)]);
            return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.rest.is_empty() && !self.trailers
    }
}
