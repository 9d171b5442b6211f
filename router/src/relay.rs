//! A node's reply as it goes on to a caller at the inner door: the same messages and trailers.
//!
//! Belongs to one thread.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, header};
use http_body::{Body, Frame};
use tenon_proto::failure::Failure;
use tenon_proto::frame;
use tenon_proto::runtime::InvokeResponse;
use tenon_proto::runtime::invoke_response::Part;
use tonic::Status;

use crate::exchange::{Reply, Rest};
use crate::lane::Permit;
use crate::retry::Mishap;
use crate::wire;

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// The default is that of an answer of headers alone.
#[derive(Default)]
pub(crate) struct Relay {
    /// Goes out next.
    message: Option<Bytes>,
    /// A piece of body whose prologue has gone out.
    piece: Option<Bytes>,
    rest: Option<Rest>,
    trailers: Option<HeaderMap>,
    /// Counts as in flight until its last byte has gone out.
    _permit: Option<Permit>,
}

/// The answer to a call that a node has begun to answer.
pub(crate) fn reply(reply: Reply, permit: Permit) -> Response<Relay> {
    let Reply { head, rest } = reply;
    let message = frame::encode(&InvokeResponse { part: Some(Part::Head(head)) });
    let relay = Relay { message: Some(message), rest: Some(rest), _permit: Some(permit), ..Relay::default() };
    let mut response = Response::new(relay);
    response.headers_mut().insert(header::CONTENT_TYPE, GRPC);
    response
}

/// The answer to a call that failed.
pub(crate) fn failure(failure: &Failure) -> Response<Relay> {
    Status::from(failure).into_http()
}

fn trailers(failure: Option<Failure>) -> HeaderMap {
    let status = failure.map_or_else(|| Status::ok(""), |failure| Status::from(&failure));
    let mut trailers = HeaderMap::new();
    // A message that is fit for no header is left out, and says at least that something is wrong.
    if status.add_header(&mut trailers).is_err() {
        trailers.insert(GRPC_STATUS, i32::from(status.code()).into());
    }
    trailers
}

impl Body for Relay {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        if let Some(data) = this.message.take().or_else(|| this.piece.take()) {
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        if let Some(rest) = &mut this.rest {
            let ended = match ready!(rest.poll_next(cx)) {
                Ok(Some(Part::Body(piece))) => {
                    let prologue = wire::body_prologue(piece.len());
                    this.piece = Some(piece);
                    return Poll::Ready(Some(Ok(Frame::data(prologue))));
                }
                Ok(None) => None,
                Ok(Some(Part::Head(_))) => Some(Mishap::Nonsense("a second head".into()).into_failure()),
                Err(mishap) => Some(mishap.into_failure()),
            };
            this.rest = None;
            this.trailers = Some(trailers(ended));
        }
        Poll::Ready(this.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.message.is_none() && self.piece.is_none() && self.rest.is_none() && self.trailers.is_none()
    }
}
