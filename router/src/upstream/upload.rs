//! A request's body on its way to a node, and once more to the next one if necessary.
//!
//! Small bodies of known length are read first and travel inside the head. Others stream: a piece
//! is read from the client when the node's flow control has room for it, and is never copied. The
//! first pieces are kept (also without a copy) until the node answers, so that a node that takes
//! nothing new does not cost the request its body.
//!
//! ```text
//!  client ──► Incoming ──► Upload ─┬─► Attempt 1   (refused: superseded)
//!                          kept[ ] └─► Attempt 2   kept pieces first, then new ones
//! ```
//!
//! Belongs to one thread.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame};
use hyper::body::Incoming;
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::frame::INLINE_BODY;

use crate::clients::pace::{Pace, Patience};
use crate::front::internal::messages::Messages;
use crate::quota::Hold;
use crate::tunnel;
use crate::wire;

/// How much of a streamed body is kept for another attempt, in bytes. A node refuses before it has
/// taken much.
const KEPT: usize = 256 * 1024;

/// How much of a streamed body may be buffered between its client and its node, in bytes: the
/// client's window plus the node's.
const STREAMED: usize = 192 * 1024;

/// A body as the path of a request sees it.
pub(crate) enum Admitted {
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
/// Fails if the body is known to exceed `limit`, in bytes.
pub(crate) fn needs(body: &Incoming, limit: u64) -> Result<usize, Failure> {
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
/// * `pace`: the minimum pace of the client.
/// * `memory`: the memory that the body needs.
///
/// # Errors
/// Fails if the body breaks off or comes too slowly.
pub(crate) async fn admit(body: Incoming, limit: u64, pace: Pace, memory: Hold) -> Result<Admitted, Failure> {
    let size = body.size_hint();
    if body.is_end_stream() {
        return Ok(Admitted::Inline { bytes: Bytes::new(), _memory: memory });
    }
    let body = FromClient { body, patience: Patience::new(pace) };
    match size.exact() {
        Some(size) if size <= INLINE_BODY as u64 => {
            Ok(Admitted::Inline { bytes: body.read(size as usize).await?, _memory: memory })
        }
        _ => Ok(Admitted::Streaming(Rc::new(Upload::new(Source::Client(body), limit, 0, Some(memory))))),
    }
}

/// A body from a client, which is waited for no longer than its pace allows.
struct FromClient {
    body: Incoming,
    patience: Patience,
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

    /// Returns the next piece, which may be empty.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
            return self.patience.poll_end(cx).map(|()| Some(Err(too_slow())));
        };
        // Trailers are not passed to Workers.
        let piece = frame.map(|frame| frame.map(|frame| frame.into_data().unwrap_or_default()));
        if let Some(Ok(piece)) = &piece {
            self.patience.came(piece.len());
        }
        Poll::Ready(piece.map(|piece| piece.map_err(|_| broken())))
    }
}

fn too_slow() -> Failure {
    let message = "The request's body comes too slowly.";
    Failure::new(FailureCode::RequestTimeout, Phase::Admission, message)
}

/// Returns the failure for a body that is too large.
///
/// # Arguments
/// * `limit`: the limit, in bytes.
pub(crate) fn too_large(limit: u64) -> Failure {
    let message = format!("The request's body is over the limit of {limit} bytes.");
    Failure::new(FailureCode::RequestTooLarge, Phase::Admission, message)
}

fn broken() -> Failure {
    Failure::new(FailureCode::BadRequest, Phase::Admission, "The request's body broke off.")
}

/// Returns the rest of a body of which the first `seen` bytes have arrived inside the head.
pub(crate) fn admit_rest(messages: Messages, limit: u64, seen: usize) -> Rc<Upload> {
    Rc::new(Upload::new(Source::Caller(messages), limit, seen as u64, None))
}

/// Returns the upload of a tunnel to the node. It has no size limit.
pub(crate) fn admit_tunnel(from_client: tunnel::FromClient) -> Admitted {
    Admitted::Streaming(Rc::new(Upload::new(Source::Tunnel(from_client), u64::MAX, 0, None)))
}

/// The source of a streamed body.
enum Source {
    Client(FromClient),
    /// A node, which sends the body as messages.
    Caller(Messages),
    /// A client that speaks WebSocket, once its Worker has accepted.
    Tunnel(tunnel::FromClient),
}

impl Source {
    /// Returns the next piece, which may be empty.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        match self {
            Self::Client(body) => body.poll_piece(cx),
            Self::Caller(messages) => messages.poll_body(cx).map(|piece| piece.map_err(|_| broken()).transpose()),
            Self::Tunnel(from_client) => from_client.poll_piece(cx).map(|piece| Some(piece?.map_err(|_| broken()))),
        }
    }
}

/// A streamed body.
pub(crate) struct Upload {
    state: RefCell<State>,
}

struct State {
    source: Source,
    limit: u64,
    seen: u64,
    ended: bool,
    /// There will be no further attempt.
    settled: bool,
    /// The pieces that have been sent, or `None` if they are too large or no longer needed.
    kept: Option<Vec<Bytes>>,
    /// The memory charged to the client: for data in transit, and for kept pieces.
    memory: Option<Hold>,
    /// The attempt that may read now.
    attempt: u32,
    /// The failure of the body itself.
    failure: Option<Failure>,
}

impl Upload {
    /// Creates an upload.
    ///
    /// # Arguments
    /// * `limit`: the maximum size, in bytes.
    /// * `seen`: the size of what has arrived already, in bytes.
    /// * `memory`: the memory that a client's body needs in transit.
    fn new(source: Source, limit: u64, seen: u64, memory: Option<Hold>) -> Self {
        let state = State {
            source,
            limit,
            seen,
            ended: false,
            settled: false,
            kept: Some(Vec::new()),
            memory,
            attempt: 0,
            failure: None,
        };
        Self { state: RefCell::new(state) }
    }

    /// Returns whether another attempt could send the whole body.
    pub(crate) fn is_replayable(&self) -> bool {
        let state = self.state.borrow();
        state.kept.is_some() && state.failure.is_none()
    }

    /// Returns the failure of the body itself, if there is one.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.state.borrow().failure.clone()
    }

    /// Records that a node has answered, so that there is no further attempt. Kept pieces stay
    /// until the current attempt has sent them.
    pub(crate) fn settle(&self) {
        self.state.borrow_mut().settled = true;
    }

    fn begin(self: &Rc<Self>) -> Streaming {
        let mut state = self.state.borrow_mut();
        state.attempt += 1;
        Streaming { upload: self.clone(), attempt: state.attempt, position: 0, piece: None }
    }
}

impl State {
    fn poll_piece(&mut self, position: &mut usize, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        if let Some(piece) = self.kept.as_ref().and_then(|kept| kept.get(*position)) {
            *position += 1;
            return Poll::Ready(Some(Ok(piece.clone())));
        }
        if self.settled {
            self.kept = None;
        }
        while !self.ended {
            let piece = match ready!(self.source.poll_piece(cx)) {
                Some(Ok(piece)) if piece.is_empty() => continue,
                Some(Ok(piece)) => piece,
                Some(Err(failure)) => return Poll::Ready(Some(Err(self.fail(failure)))),
                None => {
                    self.ended = true;
                    break;
                }
            };
            self.seen += piece.len() as u64;
            if self.seen > self.limit {
                return Poll::Ready(Some(Err(self.fail(too_large(self.limit)))));
            }
            if self.seen > KEPT as u64 || !self.has_room_for(piece.len()) {
                self.kept = None;
            }
            if let Some(kept) = &mut self.kept {
                kept.push(piece.clone());
                *position += 1;
            }
            return Poll::Ready(Some(Ok(piece)));
        }
        Poll::Ready(None)
    }

    /// Takes memory for a kept piece. Without it the request continues, but cannot be repeated.
    fn has_room_for(&mut self, kept: usize) -> bool {
        self.kept.is_none() || self.memory.as_mut().is_none_or(|memory| memory.resize(memory.amount() + kept))
    }

    fn fail(&mut self, failure: Failure) -> Failure {
        self.ended = true;
        self.failure.insert(failure).clone()
    }
}

/// The body that one attempt sends: the head, and the body's pieces as messages.
pub(crate) struct Attempt {
    head: Option<Bytes>,
    streaming: Option<Streaming>,
}

struct Streaming {
    upload: Rc<Upload>,
    attempt: u32,
    position: usize,
    /// A piece whose prologue has been sent.
    piece: Option<Bytes>,
}

impl Attempt {
    /// Starts an attempt.
    ///
    /// # Arguments
    /// * `head`: the framed head message, which includes the body unless that streams.
    pub(crate) fn new(head: Bytes, body: Option<&Rc<Upload>>) -> Self {
        Self { head: Some(head), streaming: body.map(Upload::begin) }
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum AttemptError {
    #[error(transparent)]
    Body(#[from] Failure),
    #[error("another attempt has taken over")]
    Superseded,
}

impl Body for Attempt {
    type Data = Bytes;
    type Error = AttemptError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, AttemptError>>> {
        if let Some(head) = self.head.take() {
            return Poll::Ready(Some(Ok(Frame::data(head))));
        }
        let Some(streaming) = &mut self.streaming else { return Poll::Ready(None) };
        if let Some(piece) = streaming.piece.take() {
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        let mut state = streaming.upload.state.borrow_mut();
        if state.attempt != streaming.attempt {
            return Poll::Ready(Some(Err(AttemptError::Superseded)));
        }
        let piece = match ready!(state.poll_piece(&mut streaming.position, cx)) {
            Some(piece) => piece?,
            None => return Poll::Ready(None),
        };
        // Pieces are as large as one read of the client's connection, far below the limit of a
        // message.
        let prologue = wire::body_prologue(piece.len());
        streaming.piece = Some(piece);
        Poll::Ready(Some(Ok(Frame::data(prologue))))
    }

    fn is_end_stream(&self) -> bool {
        self.head.is_none() && self.streaming.is_none()
    }
}
