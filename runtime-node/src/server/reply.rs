//! The body of a reply: messages, then the gRPC trailers. The last message contains the trailers of
//! the response, if it has any. The gRPC trailers contain the failure of a response that breaks
//! off; a reply that fails before the head of the response has no messages.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::buf::Chain;
use bytes::{Buf, Bytes};
use http::Response;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http_body::{Body, Frame};
use tenon_engine::Piece;
use tenon_hop::server::{Outgoing, Part};
use tenon_proto::failure::Failure;
use tenon_proto::frame;
use tenon_proto::invoke::Prologue;
use tenon_proto::runtime::{InvokeResponse, Trailers, invoke_response};

use super::remainder::{Next, Remainder};
use crate::shard::{Answer, Permits};

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const OK: HeaderValue = HeaderValue::from_static("0");

/// The maximum length of a failure's message, in bytes.
const MAX_MESSAGE: usize = 2048;

/// An encoded message: the prologue, which is empty if it was written into the block in front of
/// the body, and the body.
type Message = Chain<Bytes, Piece>;

/// The reply to an invocation, as the body of an HTTP response.
#[derive(Default)]
pub struct Reply {
    first: Option<Message>,
    rest: Remainder,
    outcome: Option<Outcome>,
    /// Held until the reply has been sent or dropped.
    _permits: Option<Permits>,
}

impl Reply {
    /// Creates the reply for an answer.
    ///
    /// # Arguments
    /// * `cold` - whether the request has waited for a start of its isolate.
    /// * `takes_trailers` - whether the caller takes the trailers of the response.
    pub(super) fn of(
        Answer { response, permits, is_hot }: Answer,
        cold: bool,
        takes_trailers: bool,
    ) -> Self {
        let (head, inline, rest) = Remainder::of(response, is_hot, cold, takes_trailers);
        let first = Some(message(&Prologue::of_head(&head, inline.len()), inline));
        let outcome = Some(Outcome::Success);
        Self { first, rest, outcome, _permits: Some(permits) }
    }

    pub(super) fn into_http(self) -> Response<Self> {
        let mut response = Response::new(self);
        response.headers_mut().insert(CONTENT_TYPE, GRPC);
        response
    }
}

/// The outcome of a reply whose head has been sent.
enum Outcome {
    Success,
    Failure(Failure),
}

/// Returns what a router learns of a failure. A long message is truncated, so that code and phase
/// always fit into headers, and the place in the author's files is left out.
pub(super) fn for_router(failure: &Failure) -> Failure {
    let mut failure = Failure { place: None, ..failure.clone() };
    failure.message.truncate(failure.message.floor_char_boundary(MAX_MESSAGE));
    failure
}

/// Returns a failure as headers.
pub(super) fn status(failure: &Failure) -> HeaderMap {
    let failure = for_router(failure);
    let mut headers = HeaderMap::new();
    // `add_header` fails only if the status is not a valid header value, which does not happen. The
    // gRPC code 2 is `UNKNOWN`.
    if tonic::Status::from(&failure).add_header(&mut headers).is_err() {
        headers.insert(GRPC_STATUS, HeaderValue::from_static("2"));
    }
    headers
}

fn message(prologue: &Prologue<'_>, mut body: Piece) -> Message {
    match body.prepend(prologue.encoded_len()) {
        Some(room) => {
            prologue.write(room);
            Bytes::new().chain(body)
        }
        None => prologue.to_bytes().chain(body),
    }
}

impl Outgoing for Reply {
    type Data = Message;

    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Part<Message>> {
        if let Some(message) = self.first.take() {
            return Poll::Ready(Part::Data(message));
        }
        match ready!(self.rest.poll_next(cx)) {
            Some(Ok(Next::Piece(piece))) => {
                return Poll::Ready(Part::Data(message(&Prologue::of_piece(piece.len()), piece)));
            }
            Some(Ok(Next::Trailers(fields))) => {
                let part = Some(invoke_response::Part::Trailers(Trailers { fields }));
                let message = frame::encode(&InvokeResponse { part });
                return Poll::Ready(Part::Data(message.chain(Piece::default())));
            }
            Some(Err(failure)) => self.outcome = Some(Outcome::Failure(failure)),
            None => {}
        }
        Poll::Ready(match self.outcome.take() {
            Some(Outcome::Failure(failure)) => Part::Failure(status(&failure)),
            Some(Outcome::Success) | None => Part::Success,
        })
    }
}

impl Body for Reply {
    type Data = Message;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Message>, Infallible>>> {
        if self.is_end_stream() {
            return Poll::Ready(None);
        }
        let frame = match ready!(self.poll_part(cx)) {
            Part::Data(message) => Frame::data(message),
            Part::Success => Frame::trailers(HeaderMap::from_iter([(GRPC_STATUS, OK)])),
            Part::Failure(status) => Frame::trailers(status),
        };
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.rest.is_over() && self.outcome.is_none()
    }
}
