//! Streams the body of a request to a process of a node, and again to another process if necessary.
//!
//! A piece is read from the source when the node's flow control has room for the piece, and is
//! never copied. The first pieces are kept (also without a copy) until the node answers, so that
//! the request can be repeated if the node refuses it or is lost.
//!
//! ```text
//!  client ──► Source ────► Upload ─┬─► Attempt 1   (refused: superseded)
//!                          kept[ ] └─► Attempt 2   kept pieces first, then new ones
//! ```
//!
//! An upload belongs to one thread.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame};
use tenon_clients::quota::Hold;
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::frame;
use tenon_proto::invoke::Prologue;
use tenon_proto::runtime::invoke_request::Part;
use tenon_proto::runtime::{Header, InvokeRequest, Trailers};

/// The maximum part of a streamed body that is kept for another attempt, in bytes. A node that
/// refuses a request does so before it has read much of the body.
const KEPT: usize = 256 * 1024;

/// The maximum number of pieces that are kept. A piece may keep a whole datagram in memory.
const KEPT_PIECES: usize = 512;

/// Returns the failure for a body that is too large.
///
/// # Arguments
/// * `limit` - the limit, in bytes.
pub(crate) fn too_large(limit: u64) -> Failure {
    let message = format!("the request's body exceeds the limit of {limit} bytes");
    Failure::new(FailureCode::RequestTooLarge, Phase::Admission, message)
}

/// Returns the failure for a body whose sender is gone.
pub(crate) fn broken() -> Failure {
    Failure::new(
        FailureCode::BadRequest,
        Phase::Admission,
        "the request's body ended before it was complete",
    )
}

/// The source of a streamed body.
pub(crate) trait Source {
    /// Returns the next piece, which may be empty, or `None` at the end.
    ///
    /// # Errors
    /// Fails if the body ends prematurely, or must not continue.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>>;

    /// Returns the trailers of a body that has ended.
    fn take_trailers(&mut self) -> Vec<Header> {
        Vec::new()
    }

    /// Records that the node has answered the request.
    fn answered(&mut self) {}
}

/// A streamed body.
pub(crate) struct Upload {
    state: RefCell<State>,
}

struct State {
    source: Box<dyn Source>,
    /// The maximum size, in bytes.
    limit: u64,
    /// The number of bytes that have arrived.
    received: u64,
    ended: bool,
    /// The trailers of a body that has ended.
    trailers: Vec<Header>,
    /// Whether there will be no further attempt.
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
    /// * `limit` - the maximum size, in bytes.
    /// * `received` - the number of bytes that have already arrived.
    /// * `memory` - the memory that a client's body needs in transit.
    pub(crate) fn new(
        source: Box<dyn Source>,
        limit: u64,
        received: u64,
        memory: Option<Hold>,
    ) -> Self {
        let state = State {
            source,
            limit,
            received,
            ended: false,
            trailers: Vec::new(),
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
        let mut state = self.state.borrow_mut();
        state.settled = true;
        state.source.answered();
    }

    /// Starts an attempt, which supersedes the attempts before it.
    pub(super) fn begin(self: &Rc<Self>) -> Streaming {
        let mut state = self.state.borrow_mut();
        state.attempt += 1;
        let attempt = state.attempt;
        Streaming { upload: self.clone(), attempt, position: 0, has_sent_trailers: false }
    }
}

impl State {
    fn poll_piece(
        &mut self,
        position: &mut usize,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Failure>>> {
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
                    self.trailers = self.source.take_trailers();
                    break;
                }
            };
            self.received += piece.len() as u64;
            if self.received > self.limit {
                return Poll::Ready(Some(Err(self.fail(too_large(self.limit)))));
            }
            let is_full = self.kept.as_ref().is_some_and(|kept| kept.len() >= KEPT_PIECES);
            if is_full || self.received > KEPT as u64 || !self.has_room_for(piece.len()) {
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

    /// Charges the memory of a piece that is about to be kept, unless nothing is kept any longer.
    /// Returns `false` if there is no memory; the request then continues, but cannot be repeated.
    fn has_room_for(&mut self, kept: usize) -> bool {
        self.kept.is_none()
            || self.memory.as_mut().is_none_or(|memory| memory.resize(memory.amount() + kept))
    }

    fn fail(&mut self, failure: Failure) -> Failure {
        self.ended = true;
        self.failure.insert(failure).clone()
    }
}

/// The body that one attempt sends: the head, and the body's pieces and trailers as messages.
pub(crate) struct AttemptBody {
    head: Option<Bytes>,
    streaming: Option<Streaming>,
    /// A piece whose prologue has been sent.
    piece: Option<Bytes>,
}

/// The body's pieces in one attempt.
pub(super) struct Streaming {
    upload: Rc<Upload>,
    attempt: u32,
    position: usize,
    has_sent_trailers: bool,
}

impl Streaming {
    /// Returns the next piece of the body, or its trailers, or `None` at the end.
    ///
    /// # Errors
    /// Fails if the body fails, or another attempt has superseded this one.
    pub(super) fn poll_part(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Part, Failure>>> {
        let mut state = self.upload.state.borrow_mut();
        if state.attempt != self.attempt {
            // No shard works on the request of a superseded attempt any longer.
            return Poll::Ready(Some(Err(broken())));
        }
        Poll::Ready(match ready!(state.poll_piece(&mut self.position, cx)) {
            Some(piece) => Some(piece.map(Part::Body)),
            None if state.trailers.is_empty() || self.has_sent_trailers => None,
            None => {
                self.has_sent_trailers = true;
                Some(Ok(Part::Trailers(Trailers { fields: state.trailers.clone() })))
            }
        })
    }
}

impl AttemptBody {
    /// Starts an attempt.
    ///
    /// # Arguments
    /// * `head` - the framed head message, which includes the body unless the body streams.
    pub(crate) fn new(head: Bytes, body: Option<&Rc<Upload>>) -> Self {
        Self { head: Some(head), streaming: body.map(Upload::begin), piece: None }
    }

    /// Starts an attempt whose head is sent elsewhere.
    pub(crate) fn after_head(body: &Rc<Upload>) -> Self {
        Self { head: None, streaming: Some(body.begin()), piece: None }
    }
}

impl Body for AttemptBody {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        if let Some(head) = self.head.take() {
            return Poll::Ready(Some(Ok(Frame::data(head))));
        }
        if let Some(piece) = self.piece.take() {
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        let Some(streaming) = &mut self.streaming else { return Poll::Ready(None) };
        let piece = match ready!(streaming.poll_part(cx)) {
            Some(Ok(Part::Body(piece))) => piece,
            Some(Ok(part)) => {
                let message = frame::encode(&InvokeRequest { part: Some(part) });
                return Poll::Ready(Some(Ok(Frame::data(message))));
            }
            Some(Err(failure)) => return Poll::Ready(Some(Err(failure))),
            None => return Poll::Ready(None),
        };
        // A piece is at most as large as one read of the client's connection, which is far below
        // the limit of a message.
        let prologue = Prologue::of_piece(piece.len()).to_bytes();
        self.piece = Some(piece);
        Poll::Ready(Some(Ok(Frame::data(prologue))))
    }

    fn is_end_stream(&self) -> bool {
        self.head.is_none() && self.streaming.is_none()
    }
}
