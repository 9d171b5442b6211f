//! Converts a node's reply into an HTTP response.
//!
//! A response belongs to one thread.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::FutureExt;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use tenon_clients::quota::Hold;
use tenon_clients::{Client, InFlight};
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::runtime::{Header, ResponseHead};
use tenon_spans::{DISCONNECTED, OpenSpan};
use tokio::task::spawn_local;

use crate::front::assets::{Answer, Content};
use crate::front::compressed::CompressedBody;
use crate::front::handshake::Handshake;
use crate::front::headers;
use crate::front::streaming::{Streaming, TruncatedBody};
use crate::sites::read::{FileStream, PIECE};
use crate::thread::Permit;
use crate::tunnel::Tunnel;
use crate::upstream::exchange::{Reply, Rest};

/// The maximum size, in bytes, of a complete response that needs no memory beyond that of its
/// connection.
const SMALL: usize = 4 * 1024;

/// The body of a response.
pub(crate) enum ResponseBody {
    Full(Option<Bytes>),
    Streaming(Streaming),
    /// A body that is compressed while it is sent.
    Compressed(CompressedBody),
    File(FileBody),
}

/// A static file that is being sent.
pub(crate) struct FileBody {
    content: FileStream,
    /// The memory of the piece that waits for the client.
    _memory: Hold,
    /// The request counts as in flight until its last byte has been sent.
    _permit: Permit,
}

/// Builds the response from a reply.
///
/// # Errors
/// Fails if the node's head is not a valid HTTP response.
pub(crate) fn from_reply(
    method: &Method,
    reply: Reply,
    permit: Permit,
    client: &Arc<Client>,
) -> Result<Response<ResponseBody>, Failure> {
    let Reply { head, rest } = reply;
    let ResponseHead { status, headers, body, more_body, .. } = head;
    let status = u16::try_from(status).ok().and_then(|status| StatusCode::from_u16(status).ok());
    let status = status.filter(|status| !status.is_informational()).ok_or_else(|| {
        Failure::new(
            FailureCode::Internal,
            Phase::Response,
            "the node's response has no valid status",
        )
    })?;
    let bodiless = !has_body(status, *method == Method::HEAD);
    let mut map = header_map(headers);
    if !more_body {
        finish(rest);
        if bodiless {
            set_head_length(&mut map, method, body.len());
        } else {
            // The length of the actual body is added when the head is written.
            map.remove(header::CONTENT_LENGTH);
        }
        return Ok(build(
            status,
            map,
            ResponseBody::Full((!bodiless && !body.is_empty()).then_some(body)),
        ));
    }
    if bodiless {
        return Ok(build(status, map, ResponseBody::Full(None)));
    }
    let first = (!body.is_empty()).then_some(body);
    let streaming = Streaming::new(first, rest, client, permit);
    Ok(build(status, map, ResponseBody::Streaming(streaming)))
}

/// Returns whether a final response has a body (RFC 9112, section 6.3).
///
/// # Arguments
/// * `is_head` - whether the request is a HEAD.
pub(crate) fn has_body(status: StatusCode, is_head: bool) -> bool {
    !is_head && !matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

/// Builds the response with a static file. If there is no memory for its pieces, the response is an
/// empty 503.
pub(crate) fn from_file(
    Answer { status, headers, content }: Answer,
    permit: Permit,
    client: &Arc<Client>,
) -> Response<ResponseBody> {
    let body = match content {
        Content::Bytes(bytes) => ResponseBody::Full((!bytes.is_empty()).then_some(bytes)),
        Content::File(content) => {
            let Some(memory) = client.memory(PIECE) else {
                let none = ResponseBody::Full(None);
                return build(StatusCode::SERVICE_UNAVAILABLE, HeaderMap::new(), none);
            };
            ResponseBody::File(FileBody { content, _memory: memory, _permit: permit })
        }
    };
    build(status, headers, body)
}

/// Returns whether the Worker accepts the requested upgrade.
pub(crate) fn switches_protocols(reply: &Reply) -> bool {
    reply.head.status == u32::from(StatusCode::SWITCHING_PROTOCOLS.as_u16())
}

/// Returns the response that opens a tunnel.
pub(crate) fn tunnel(
    handshake: &Handshake,
    tunnel: Tunnel,
    mut reply: Reply,
) -> Response<ResponseBody> {
    let mut map = header_map(std::mem::take(&mut reply.head.headers));
    tunnel.open(reply);
    let status = handshake.accept(&mut map);
    build(status, map, ResponseBody::Full(None))
}

/// Returns the response that redirects a client to another URL.
pub(crate) fn redirect(status: StatusCode, location: HeaderValue) -> Response<ResponseBody> {
    let headers = HeaderMap::from_iter([(header::LOCATION, location)]);
    build(status, headers, ResponseBody::Full(None))
}

/// Returns a response of the router's own with a complete body.
pub(crate) fn complete(response: Response<Bytes>) -> Response<ResponseBody> {
    response.map(|body| ResponseBody::Full(Some(body)))
}

fn build(status: StatusCode, headers: HeaderMap, body: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

fn header_map(headers: Vec<Header>) -> HeaderMap {
    let mut map = HeaderMap::with_capacity(headers.len() + 2);
    for Header { name, value } in headers {
        // The node has checked the headers already. An invalid one is dropped instead of failing
        // the response.
        let (Ok(name), Ok(value)) =
            (HeaderName::try_from(name), HeaderValue::from_maybe_shared(value))
        else {
            continue;
        };
        if !headers::is_hop_by_hop(&name) && !headers::is_reserved(&name) {
            map.append(name, value);
        }
    }
    map
}

/// Sets the length of the response to GET in the response to HEAD (RFC 9110, section 9.3.2).
fn set_head_length(headers: &mut HeaderMap, method: &Method, len: usize) {
    if *method == Method::HEAD && len > 0 && !headers.contains_key(header::CONTENT_LENGTH) {
        headers.insert(header::CONTENT_LENGTH, len.into());
    }
}

/// Finishes a reply that is complete except for the end of its stream, which has usually arrived
/// with it. If not, a task waits for the end: dropping the stream earlier would tell the node that
/// the client has disconnected.
fn finish(mut rest: Rest) {
    let has_ended = rest.is_over() || poll_fn(|cx| rest.poll_next(cx)).now_or_never().is_some();
    if !has_ended {
        spawn_local(async move { poll_fn(|cx| rest.poll_next(cx)).await.is_ok() });
    }
}

/// The body of a response that keeps its request in flight until it has been written.
pub(crate) struct WrittenResponse {
    body: ResponseBody,
    _memory: Option<Hold>,
    in_flight: InFlight,
    /// The span of the request, which ends with this value.
    span: Option<Box<OpenSpan>>,
}

impl WrittenResponse {
    /// Takes memory for a complete response that waits for its client. If there is none, the
    /// response is replaced with an empty 503.
    pub(crate) fn of(
        response: Response<ResponseBody>,
        in_flight: InFlight,
        span: Option<Box<OpenSpan>>,
    ) -> Response<Self> {
        let (mut parts, mut body) = response.into_parts();
        let len = match &body {
            ResponseBody::Full(Some(whole)) => whole.len(),
            ResponseBody::Compressed(body) => body.waiting(),
            ResponseBody::Full(None) | ResponseBody::Streaming(_) | ResponseBody::File(_) => 0,
        };
        let memory = if len > SMALL { in_flight.client().memory(len) } else { None };
        if len > SMALL && memory.is_none() {
            body = ResponseBody::Full(None);
            parts = Response::new(()).into_parts().0;
            parts.status = StatusCode::SERVICE_UNAVAILABLE;
        }
        Response::from_parts(parts, Self { body, _memory: memory, in_flight, span })
    }

    /// Records that the response waits for its client, until the next frame is requested.
    pub(crate) fn wait_for_client(&mut self) {
        self.in_flight.set_unread(true);
    }
}

impl Body for WrittenResponse {
    type Data = Bytes;
    type Error = TruncatedBody;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, TruncatedBody>>> {
        // hyper polls again once the client has taken the previous frame.
        let Self { body, in_flight, span, .. } = &mut *self;
        in_flight.set_unread(false);
        let frame = ready!(Pin::new(&mut *body).poll_frame(cx));
        if let (Some(span), Some(frame)) = (span, &frame) {
            match frame {
                Ok(frame) => span.count_sent(frame.data_ref().map_or(0, Bytes::len)),
                Err(error) => span.span.fail(error.reason()),
            }
        }
        in_flight.set_unread(matches!(&frame, Some(Ok(_))) && !body.is_end_stream());
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for WrittenResponse {
    fn drop(&mut self) {
        if let Some(span) = &mut self.span
            && !self.body.is_end_stream()
        {
            span.span.fail(DISCONNECTED);
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = TruncatedBody;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, TruncatedBody>>> {
        let (piece, has_ended) = match &mut *self {
            Self::Full(body) => return Poll::Ready(body.take().map(|body| Ok(Frame::data(body)))),
            Self::Streaming(streaming) => {
                let piece = ready!(streaming.poll_piece(cx));
                if piece.is_none()
                    && let Some(trailers) = streaming.take_trailers()
                {
                    *self = Self::Full(None);
                    return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
                }
                let has_ended = !matches!(piece, Some(Ok(_)));
                (piece, has_ended)
            }
            Self::Compressed(body) => (ready!(body.poll_piece(cx)), body.has_ended()),
            Self::File(file) => {
                let piece = ready!(file.content.poll_piece(cx));
                let has_ended = file.content.left() == 0 || !matches!(piece, Some(Ok(_)));
                (piece.map(|piece| piece.map_err(TruncatedBody::file)), has_ended)
            }
        };
        if has_ended {
            *self = Self::Full(None);
        }
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Full(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(body) => SizeHint::with_exact(body.as_ref().map_or(0, Bytes::len) as u64),
            Self::Streaming(_) | Self::Compressed(_) => SizeHint::default(),
            Self::File(file) => SizeHint::with_exact(file.content.left()),
        }
    }
}
