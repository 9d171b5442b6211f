//! Relays a node's reply to a caller at the internal listener: the same messages and trailers. The
//! reply of a tunnel is relayed as well, but is cut off when the drain ends the tunnel.
//!
//! A relay belongs to one thread.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::future::{FutureExt as _, LocalBoxFuture};
use http::{HeaderMap, HeaderName, HeaderValue, Response, header};
use http_body::{Body, Frame};
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::frame;
use tenon_proto::invoke::Prologue;
use tenon_proto::runtime::invoke_response::Part;
use tenon_proto::runtime::{Header, InvokeResponse, ResponseHead};
use tenon_spans::OpenSpan;
use tonic::Status;

use crate::front::assets::{Answer, Content};
use crate::sites::read::FileStream;
use crate::thread::Permit;
use crate::tunnel::slots::TunnelSlot;
use crate::upstream::exchange::{Reply, Rest};
use crate::upstream::retry::AttemptError;

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// The body of a response to a caller. The default is the body of a response that consists of
/// headers only.
#[derive(Default)]
pub(crate) struct Relay {
    /// The message to send next.
    message: Option<Bytes>,
    /// A piece of body whose prologue has been sent.
    piece: Option<Bytes>,
    rest: Option<Rest>,
    file: Option<FileStream>,
    trailers: Option<HeaderMap>,
    held: Option<Held>,
    /// The span of the call, which ends with this value.
    span: Option<Box<OpenSpan>>,
}

/// The resources that a reply holds until its last byte has been sent.
pub(crate) enum Held {
    Request {
        _permit: Permit,
    },
    /// Resolves when the tunnel must end, and holds the tunnel's slot until it is dropped.
    Tunnel(LocalBoxFuture<'static, TunnelSlot>),
}

impl Held {
    pub(crate) fn request(permit: Permit) -> Self {
        Self::Request { _permit: permit }
    }

    pub(crate) fn tunnel(mut slot: TunnelSlot) -> Self {
        let ended = async move {
            slot.ended().await;
            slot
        };
        Self::Tunnel(ended.boxed_local())
    }

    /// Returns whether the tunnel must end.
    fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        match self {
            Self::Request { .. } => false,
            Self::Tunnel(ended) => ended.poll_unpin(cx).is_ready(),
        }
    }
}

/// Returns the response to a call that a node has begun to answer.
pub(crate) fn reply(reply: Reply, held: Held) -> Response<Relay> {
    let Reply { head, mut rest } = reply;
    if let Held::Tunnel(_) = held {
        rest.release_permit();
    }
    let message = frame::encode(&InvokeResponse { part: Some(Part::Head(head)) });
    let relay =
        Relay { message: Some(message), rest: Some(rest), held: Some(held), ..Relay::default() };
    grpc_response(relay)
}

/// Returns the response to a call that the Worker's static files answer.
pub(crate) fn file(answer: Answer, permit: Permit) -> Response<Relay> {
    let Answer { status, headers, content } = answer;
    let header = |(name, value): (&HeaderName, &HeaderValue)| Header {
        name: name.as_str().to_owned(),
        value: Bytes::copy_from_slice(value.as_bytes()),
    };
    let (body, file) = match content {
        Content::Bytes(body) => (body, None),
        Content::File(file) => (Bytes::new(), Some(file)),
    };
    let head = ResponseHead {
        status: status.as_u16().into(),
        headers: headers.iter().map(header).collect(),
        body,
        more_body: file.is_some(),
        is_hot: false,
        cold: false,
    };
    let message = frame::encode(&InvokeResponse { part: Some(Part::Head(head)) });
    let relay = Relay {
        message: Some(message),
        file,
        trailers: Some(trailers(None)),
        held: Some(Held::request(permit)),
        ..Relay::default()
    };
    grpc_response(relay)
}

/// Returns a response of one encoded message.
pub(crate) fn message(message: Bytes) -> Response<Relay> {
    let (message, trailers) = (Some(message), Some(trailers(None)));
    grpc_response(Relay { message, trailers, ..Relay::default() })
}

/// Returns the response to a call that failed.
pub(crate) fn failure(failure: &Failure) -> Response<Relay> {
    Status::from(failure).into_http()
}

fn grpc_response(relay: Relay) -> Response<Relay> {
    let mut response = Response::new(relay);
    response.headers_mut().insert(header::CONTENT_TYPE, GRPC);
    response
}

fn trailers(failure: Option<Failure>) -> HeaderMap {
    let status = failure.map_or_else(|| Status::ok(""), |failure| Status::from(&failure));
    let mut trailers = HeaderMap::new();
    // A message that is not valid in a header is left out; the code still reports the failure.
    if status.add_header(&mut trailers).is_err() {
        trailers.insert(GRPC_STATUS, i32::from(status.code()).into());
    }
    trailers
}

impl Relay {
    /// Keeps a span open until the reply has been relayed.
    pub(crate) fn hold_span(&mut self, span: Option<Box<OpenSpan>>) {
        self.span = span;
    }
}

impl Body for Relay {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        if let Some(data) = this.message.take().or_else(|| this.piece.take()) {
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        if this.rest.is_some() && this.held.as_mut().is_some_and(|held| held.is_over(cx)) {
            let failure =
                Failure::new(FailureCode::Draining, Phase::Response, "the router is draining");
            (this.rest, this.held, this.trailers) = (None, None, Some(trailers(Some(failure))));
        }
        if let Some(rest) = &mut this.rest {
            let ended = match ready!(rest.poll_next(cx)) {
                Ok(Some(Part::Body(piece))) => {
                    let prologue = Prologue::of_piece(piece.len()).to_bytes();
                    this.piece = Some(piece);
                    return Poll::Ready(Some(Ok(Frame::data(prologue))));
                }
                Ok(Some(part @ Part::Trailers(_))) => {
                    let message = frame::encode(&InvokeResponse { part: Some(part) });
                    return Poll::Ready(Some(Ok(Frame::data(message))));
                }
                Ok(None) => None,
                Ok(Some(Part::Head(_))) => {
                    Some(AttemptError::ProtocolViolation("a second head".into()).into_failure())
                }
                Err(error) => Some(error.into_failure()),
            };
            this.rest = None;
            this.trailers = Some(trailers(ended));
        }
        if let Some(file) = &mut this.file {
            match ready!(file.poll_piece(cx)) {
                Some(Ok(piece)) => {
                    let prologue = Prologue::of_piece(piece.len()).to_bytes();
                    this.piece = Some(piece);
                    return Poll::Ready(Some(Ok(Frame::data(prologue))));
                }
                Some(Err(error)) => {
                    tracing::error!(%error, "cannot read a static file");
                    let message = "the file cannot be read";
                    let failure = Failure::new(FailureCode::Internal, Phase::Response, message);
                    this.trailers = Some(trailers(Some(failure)));
                }
                None => {}
            }
            this.file = None;
        }
        Poll::Ready(this.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.message.is_none()
            && self.piece.is_none()
            && self.rest.is_none()
            && self.file.is_none()
            && self.trailers.is_none()
    }
}
