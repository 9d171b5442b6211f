//! A pipe from JavaScript to the connection that sends the body of a response or of a fetch.
//!
//! ```text
//!  pipeWrite ─► [ up to PIPE_CAPACITY bytes, and the piece that exceeds them ] ─► poll_next
//!      ▲                      │
//!      └── a promise of room ─┘
//! ```
//!
//! Both ends belong to one thread.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures::Stream;

use super::byte_stream::StreamError;

/// Number of buffered bytes at which a writer has to wait: the number of bytes in one message to
/// the router.
pub const PIPE_CAPACITY: usize = 64 * 1024;

/// The error of a write after the reader has been dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("This body is no longer being read")]
pub struct ReaderDropped;

#[derive(Default)]
struct Shared {
    pieces: VecDeque<Bytes>,
    bytes: usize,
    /// Number of buffered bytes at which the writer has to wait.
    room: usize,
    /// The end of the stream, which follows the buffered pieces.
    end: Option<Result<(), StreamError>>,
    reader: Option<Waker>,
    writer: Option<Waker>,
    reader_was_dropped: bool,
}

/// The write end. Dropping the writer without closing it breaks the pipe.
pub struct Writer(Rc<RefCell<Shared>>);

/// The read end: a stream of the written pieces.
pub struct Reader(Rc<RefCell<Shared>>);

/// Creates an empty pipe.
pub fn pipe() -> (Writer, Reader) {
    let shared = Rc::<RefCell<Shared>>::default();
    (Writer(Rc::clone(&shared)), Reader(shared))
}

impl Writer {
    /// Appends a piece. Returns whether the pipe has room for more.
    ///
    /// # Arguments
    /// * `room` - number of buffered bytes at which the writer has to wait: [`PIPE_CAPACITY`],
    ///   or less if memory is short.
    ///
    /// # Errors
    /// Fails if the reader has been dropped.
    pub fn write(&self, piece: Bytes, room: usize) -> Result<bool, ReaderDropped> {
        let mut shared = self.0.borrow_mut();
        if shared.reader_was_dropped {
            return Err(ReaderDropped);
        }
        shared.room = room;
        shared.bytes += piece.len();
        shared.pieces.push_back(piece);
        shared.wake_reader();
        Ok(shared.has_room())
    }

    /// Returns a future that resolves when the pipe has room for more, or fails when the reader has
    /// been dropped.
    pub fn room(&self) -> impl Future<Output = Result<(), ReaderDropped>> + 'static {
        let shared = Rc::clone(&self.0);
        poll_fn(move |cx| {
            let mut shared = shared.borrow_mut();
            if shared.reader_was_dropped {
                return Poll::Ready(Err(ReaderDropped));
            }
            if shared.has_room() {
                return Poll::Ready(Ok(()));
            }
            shared.writer = Some(cx.waker().clone());
            Poll::Pending
        })
    }

    /// Ends the stream without an error.
    pub fn close(self) {
        self.0.borrow_mut().end(Ok(()));
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.borrow_mut().end(Err(StreamError::Lost("the Worker ended the stream early".into())));
    }
}

impl Shared {
    fn has_room(&self) -> bool {
        self.bytes < self.room
    }

    fn end(&mut self, end: Result<(), StreamError>) {
        if self.end.is_none() {
            self.end = Some(end);
            self.wake_reader();
        }
    }

    fn wake_reader(&mut self) {
        if let Some(waker) = self.reader.take() {
            waker.wake();
        }
    }

    fn wake_writer(&mut self) {
        if let Some(waker) = self.writer.take() {
            waker.wake();
        }
    }
}

impl Stream for Reader {
    type Item = Result<Bytes, StreamError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut shared = self.0.borrow_mut();
        if let Some(piece) = shared.pieces.pop_front() {
            shared.bytes -= piece.len();
            if shared.has_room() {
                shared.wake_writer();
            }
            return Poll::Ready(Some(Ok(piece)));
        }
        match &shared.end {
            Some(Ok(())) => Poll::Ready(None),
            Some(Err(broken)) => Poll::Ready(Some(Err(broken.clone()))),
            None => {
                shared.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let pieces = {
            let mut shared = self.0.borrow_mut();
            shared.reader_was_dropped = true;
            shared.bytes = 0;
            shared.wake_writer();
            std::mem::take(&mut shared.pieces)
        };
        drop(pieces);
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt as _, StreamExt as _};

    use super::*;

    fn piece(len: usize) -> Bytes {
        Bytes::from(vec![0; len])
    }

    #[test]
    fn a_writer_waits_while_the_pipe_is_full_and_continues_once_a_piece_is_read() {
        let (writer, mut reader) = pipe();
        assert_eq!(writer.write(piece(PIPE_CAPACITY - 1), PIPE_CAPACITY), Ok(true));
        assert_eq!(writer.write(piece(1), PIPE_CAPACITY), Ok(false));
        let mut room = std::pin::pin!(writer.room());
        assert_eq!(room.as_mut().now_or_never(), None);
        assert_eq!(reader.next().now_or_never().flatten(), Some(Ok(piece(PIPE_CAPACITY - 1))));
        assert_eq!(room.now_or_never(), Some(Ok(())));
    }

    #[test]
    fn written_pieces_are_read_before_the_end() {
        let (writer, mut reader) = pipe();
        writer.write(piece(3), PIPE_CAPACITY).unwrap();
        writer.close();
        assert_eq!(reader.next().now_or_never(), Some(Some(Ok(piece(3)))));
        assert_eq!(reader.next().now_or_never(), Some(None));
    }

    #[test]
    fn a_writer_that_is_dropped_breaks_the_pipe() {
        let (writer, mut reader) = pipe();
        drop(writer);
        assert!(matches!(reader.next().now_or_never(), Some(Some(Err(StreamError::Lost(_))))));
    }

    #[test]
    fn a_write_without_a_reader_is_an_error() {
        let (writer, reader) = pipe();
        writer.write(piece(PIPE_CAPACITY), PIPE_CAPACITY).unwrap();
        let room = writer.room();
        drop(reader);
        assert_eq!(room.now_or_never(), Some(Err(ReaderDropped)));
        assert_eq!(writer.write(piece(1), PIPE_CAPACITY), Err(ReaderDropped));
    }
}
