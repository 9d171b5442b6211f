//! The body of a response that is compressed while it is sent.
//!
//! A stream is flushed whenever its Worker pauses, so that the client receives every piece as soon
//! as the Worker has sent it. A body belongs to one thread.

use std::mem;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tenon_compression::encoder::Then;
use tenon_compression::turns::Place;
use tenon_compression::{Coding, Compression, Stream};

use crate::front::streaming::{Streaming, TruncatedBody};

/// The maximum length of a stream's content that is compressed in one step, and the length at which
/// the output of a stream is sent, in bytes.
const PIECE: usize = 16 * 1024;

/// A body that is compressed while it is sent. Dropping this value ends the node's stream.
pub(crate) struct CompressedBody {
    content: Content,
    place: Place,
}

enum Content {
    /// Complete content that waits for its turn.
    Whole(Rc<Compression>, Bytes, Coding),
    Stream(Box<Compressing>),
    Ended,
}

struct Compressing {
    source: Streaming,
    /// The part of the source that has not been compressed.
    rest: Bytes,
    stream: Stream,
    /// Whether the encoder may hold back content.
    is_held: bool,
}

impl CompressedBody {
    /// Returns the body with complete content of at most
    /// [`TURN`](tenon_compression::turns::TURN) bytes.
    pub(crate) fn whole(compression: &Rc<Compression>, content: Bytes, coding: Coding) -> Self {
        let place = compression.turns.place();
        Self { content: Content::Whole(compression.clone(), content, coding), place }
    }

    pub(crate) fn stream(compression: &Compression, source: Streaming, stream: Stream) -> Self {
        let content = Compressing { source, rest: Bytes::new(), stream, is_held: false };
        Self { content: Content::Stream(Box::new(content)), place: compression.turns.place() }
    }

    /// Returns the length of complete content that waits in memory, in bytes. The memory of a
    /// stream is charged elsewhere.
    pub(crate) fn waiting(&self) -> usize {
        match &self.content {
            Content::Whole(_, content, _) => content.len(),
            Content::Stream(_) | Content::Ended => 0,
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.content, Content::Ended)
    }

    /// Returns the next piece, or `None` at the end.
    ///
    /// # Errors
    /// Fails if the source ends before it is complete, or if the content cannot be compressed.
    pub(crate) fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, TruncatedBody>>> {
        let (piece, has_ended) = match &mut self.content {
            Content::Whole(compression, content, coding) => {
                ready!(self.place.poll(cx, content.len()));
                let compressed = compression.compress(content, *coding);
                (compressed.map_err(TruncatedBody::Compression), true)
            }
            Content::Stream(stream) => match ready!(stream.poll_piece(&mut self.place, cx)) {
                Ok((piece, has_ended)) => (Ok(piece), has_ended),
                Err(error) => (Err(error), true),
            },
            Content::Ended => return Poll::Ready(None),
        };
        if has_ended {
            self.content = Content::Ended;
        }
        Poll::Ready(Some(piece))
    }
}

impl Compressing {
    /// Returns the next piece, and whether it is the last.
    fn poll_piece(
        &mut self,
        place: &mut Place,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(Bytes, bool), TruncatedBody>> {
        let mut output = Vec::new();
        while output.len() < PIECE {
            if self.rest.is_empty() {
                match self.source.poll_piece(cx) {
                    Poll::Ready(Some(piece)) => self.rest = piece?,
                    Poll::Ready(None) => {
                        self.encode(&[], Then::Finish, &mut output)?;
                        return Poll::Ready(Ok((output.into(), true)));
                    }
                    Poll::Pending => {
                        if mem::take(&mut self.is_held) {
                            self.encode(&[], Then::Flush, &mut output)?;
                        }
                        break;
                    }
                }
            } else {
                let length = self.rest.len().min(PIECE);
                if place.poll(cx, length).is_pending() {
                    break;
                }
                let piece = self.rest.split_to(length);
                self.encode(&piece, Then::Continue, &mut output)?;
                self.is_held = true;
            }
        }
        match output.is_empty() {
            true => Poll::Pending,
            false => Poll::Ready(Ok((output.into(), false))),
        }
    }

    fn encode(
        &mut self,
        piece: &[u8],
        then: Then,
        output: &mut Vec<u8>,
    ) -> Result<(), TruncatedBody> {
        self.stream.encode(piece, then, output).map_err(TruncatedBody::Compression)
    }
}
