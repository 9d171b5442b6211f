//! The body of a client's request. A small body of known length is read first and travels inside
//! the head; any other body streams as an [`upload`](crate::upstream::upload).
//!
//! A body belongs to one thread.

use std::mem;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tenon_clients::pace::{Pace, PaceTimer};
use tenon_clients::quota::Hold;
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::frame::INLINE_BODY;
use tenon_proto::runtime::Header;

use crate::front::trailers;
use crate::upstream::upload::{Source, Upload, broken, too_large};

/// The maximum part of a streamed body that is buffered between its client and its node, in bytes:
/// the client's window, and 64 KiB that wait in the connection to the node.
const STREAMED: usize = 192 * 1024;

/// A body as it arrives from a client.
pub(crate) enum ClientBody {
    /// The body of a request in HTTP/1 or HTTP/2.
    Hyper(Incoming),
    Http3(Box<tenon_http3::Body>),
}

impl From<Incoming> for ClientBody {
    fn from(body: Incoming) -> Self {
        Self::Hyper(body)
    }
}

impl From<tenon_http3::Body> for ClientBody {
    fn from(body: tenon_http3::Body) -> Self {
        Self::Http3(Box::new(body))
    }
}

impl Body for ClientBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match &mut *self {
            Self::Hyper(body) => Pin::new(body)
                .poll_frame(cx)
                .map(|frame| frame.map(|frame| frame.map_err(|_| Broken))),
            Self::Http3(body) => Pin::new(&mut **body)
                .poll_frame(cx)
                .map(|frame| frame.map(|frame| frame.map_err(|_| Broken))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Hyper(body) => body.is_end_stream(),
            Self::Http3(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Hyper(body) => body.size_hint(),
            Self::Http3(body) => body.size_hint(),
        }
    }
}

/// The client has disconnected before the end of the body, or the body is malformed.
#[derive(Debug)]
pub(crate) struct Broken;

/// The body of a request, which has been read or will be streamed.
pub(crate) enum RequestBody {
    /// The whole body, and the memory that it takes.
    Inline {
        bytes: Bytes,
        _memory: Hold,
    },
    Streaming(Rc<Upload>),
}

/// Returns the memory that a body needs, in bytes.
///
/// # Errors
/// Fails if the body is known to exceed `limit` bytes.
pub(crate) fn needed_memory(body: Option<&ClientBody>, limit: u64) -> Result<usize, Failure> {
    let Some(body) = body else { return Ok(0) };
    let size = body.size_hint();
    if size.lower() > limit {
        return Err(too_large(limit));
    }
    Ok(match size.exact() {
        _ if body.is_end_stream() => 0,
        Some(size) if size <= INLINE_BODY as u64 => INLINE_BODY.min(size as usize),
        _ => STREAMED,
    })
}

/// Reads the body, or prepares to stream it.
///
/// # Arguments
/// * `limit` - the maximum size of the body, in bytes.
/// * `pace` - the minimum pace of the client.
/// * `memory` - the memory that the body needs.
///
/// # Errors
/// Fails if a body that is read here ends prematurely or arrives too slowly. A streamed body fails
/// later.
pub(crate) async fn admit(
    body: Option<ClientBody>,
    limit: u64,
    pace: Pace,
    memory: Hold,
) -> Result<RequestBody, Failure> {
    let Some(body) = body.filter(|body| !body.is_end_stream()) else {
        return Ok(RequestBody::Inline { bytes: Bytes::new(), _memory: memory });
    };
    let size = body.size_hint();
    let timer = Some(PaceTimer::new(pace));
    let body = FromClient { body, timer, trailers: Vec::new() };
    match size.exact() {
        Some(size) if size <= INLINE_BODY as u64 => {
            Ok(RequestBody::Inline { bytes: body.read(size as usize).await?, _memory: memory })
        }
        _ => {
            Ok(RequestBody::Streaming(Rc::new(Upload::new(Box::new(body), limit, 0, Some(memory)))))
        }
    }
}

/// A body from a client that must keep a minimum pace until its Worker has answered. The pace keeps
/// the client from holding the Worker's permits for a request that is never complete. After the
/// answer, the Worker decides how long it waits for more of the body, within its limits: the client
/// may have nothing to send yet, as in a bidirectional stream of gRPC.
struct FromClient {
    body: ClientBody,
    /// `None` once the Worker has answered.
    timer: Option<PaceTimer>,
    trailers: Vec<Header>,
}

impl FromClient {
    /// Reads the whole body. A body that arrives in a single piece is not copied.
    async fn read(mut self, size: usize) -> Result<Bytes, Failure> {
        let mut pieces = BytesMut::new();
        while let Some(piece) = std::future::poll_fn(|cx| self.poll_piece(cx)).await.transpose()? {
            if pieces.is_empty() && self.body.is_end_stream() {
                return Ok(piece);
            }
            if pieces.is_empty() {
                pieces.reserve(size);
            }
            pieces.extend_from_slice(&piece);
        }
        Ok(pieces.freeze())
    }
}

impl Source for FromClient {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
            let Some(timer) = &mut self.timer else { return Poll::Pending };
            return timer.poll_end(cx).map(|()| Some(Err(too_slow())));
        };
        let piece = frame.map(|frame| {
            frame.map(|frame| {
                frame.into_data().unwrap_or_else(|frame| {
                    self.trailers =
                        frame.trailers_ref().map(trailers::of_request).unwrap_or_default();
                    Bytes::new()
                })
            })
        });
        if let (Some(Ok(piece)), Some(timer)) = (&piece, &mut self.timer) {
            timer.received(piece.len());
        }
        Poll::Ready(piece.map(|piece| piece.map_err(|Broken| broken())))
    }

    fn take_trailers(&mut self) -> Vec<Header> {
        mem::take(&mut self.trailers)
    }

    fn answered(&mut self) {
        self.timer = None;
    }
}

fn too_slow() -> Failure {
    let message = "the client sends the request's body too slowly";
    Failure::new(FailureCode::RequestTimeout, Phase::Admission, message)
}
