//! The body of an answer: messages, then the trailers of success. A failure has neither.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http_body::{Body, Frame};
use tenon_proto::frame::{self, INLINE_BODY};
use tenon_proto::runtime::{InvokeResponse, ResponseHead, invoke_response};

use crate::engine::FetchResponse;
use crate::shard::Permits;

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const OK: HeaderValue = HeaderValue::from_static("0");

#[derive(Default)]
pub struct Reply {
    first: Option<Bytes>,
    /// What of the response's body is not in a message yet.
    rest: Bytes,
    trailers: bool,
    /// Until all of it has been sent, or nobody wants it any more.
    _permits: Option<Permits>,
}

impl Reply {
    pub(super) fn of(response: FetchResponse, permits: Permits) -> Response<Self> {
        let mut rest = response.body;
        let inline = rest.split_to(rest.len().min(INLINE_BODY));
        let head = ResponseHead {
            status: response.status.into(),
            headers: response.headers,
            body: inline,
            more_body: !rest.is_empty(),
        };
        let first = Some(message(invoke_response::Part::Head(head)));
        let mut response = Response::new(Self { first, rest, trailers: true, _permits: Some(permits) });
        response.headers_mut().insert(CONTENT_TYPE, GRPC);
        response
    }
}

fn message(part: invoke_response::Part) -> Bytes {
    frame::encode(&InvokeResponse { part: Some(part) })
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        if let Some(piece) = this.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        if !this.rest.is_empty() {
            let piece = this.rest.split_to(this.rest.len().min(INLINE_BODY));
            return Poll::Ready(Some(Ok(Frame::data(message(invoke_response::Part::Body(piece))))));
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
