//! Byte streams held by native code.
//!
//! ```text
//!  a request's body ──┐                             ┌─► JavaScript: all of it, or piece by piece
//!  a fetched body ────┼─► a number in an invocation ┼─► its response, bypassing JavaScript
//!  a pipe's read end ─┘                             └─► the body of a fetch, bypassing JavaScript
//! ```
//!
//! The trailers of a body that bypasses JavaScript follow it. JavaScript never sees trailers.
//!
//! JavaScript refers to streams by number. Each stream has one consumer, which takes the stream
//! from [`Streams`]; a stream that is never taken is dropped with its invocation. See
//! [`pipe`](super::pipe) for streams that JavaScript writes.

use std::future::{poll_fn, ready};
use std::pin::Pin;
use std::task::Poll;

use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt as _};
use rustc_hash::FxHashMap;

use super::byte_stream::{ByteStream, StreamError, Trailers};
use super::pipe;

/// Number of bytes at which a pull stops collecting pieces. One message from the router carries up
/// to this number of bytes.
pub const PULL: usize = 64 * 1024;

/// A body from any source.
pub enum Body {
    /// The complete body.
    Full(Bytes),
    /// A body that is read on demand.
    Stream(ByteStream),
    /// A body that is read on demand, and that trailers may follow.
    Trailed(ByteStream, Trailers),
}

impl Body {
    /// Returns the body as a stream, without its trailers.
    pub fn into_stream(self) -> ByteStream {
        match self {
            Self::Full(bytes) => stream::once(ready(Ok(bytes))).boxed_local(),
            Self::Stream(parts) | Self::Trailed(parts, _) => parts,
        }
    }
}

/// The number of a stream within its invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamId(u32);

impl StreamId {
    /// The request's body.
    pub const REQUEST: Self = Self(0);

    pub fn to_number(self) -> f64 {
        self.0.into()
    }

    pub fn from_number(number: f64) -> Self {
        Self(number as u32)
    }
}

/// A stream that can be taken.
pub enum Incoming {
    Body(Body),
    /// The read end of a pipe that this Worker's JavaScript writes.
    Pipe(pipe::Reader),
    /// The rest of a piece, and the stream that follows it.
    Split(Bytes, Box<Incoming>),
}

impl From<Incoming> for Body {
    fn from(incoming: Incoming) -> Self {
        match incoming {
            Incoming::Body(body) => body,
            Incoming::Pipe(reader) => Self::Stream(reader.boxed_local()),
            Incoming::Split(rest, after) => {
                let after = Self::from(*after).into_stream();
                Self::Stream(stream::once(ready(Ok(rest))).chain(after).boxed_local())
            }
        }
    }
}

impl Incoming {
    /// Waits for the next piece, and returns the bytes that have arrived. Returns `None` at the end
    /// of the stream. Stops collecting pieces when they have [`PULL`] bytes or more.
    ///
    /// # Arguments
    /// * `limit` - the maximum number of bytes to return, which is not zero. The bytes beyond it
    ///   are left for the next call.
    pub async fn pull(&mut self, limit: usize) -> Option<Result<Vec<u8>, StreamError>> {
        let (bytes, end) = match self {
            Self::Body(Body::Full(bytes)) => {
                let bytes = bytes.split_to(limit.min(bytes.len()));
                return (!bytes.is_empty()).then(|| Ok(bytes.into()));
            }
            Self::Split(rest, after) => {
                let bytes = rest.split_to(limit.min(rest.len()));
                if rest.is_empty() {
                    *self = std::mem::replace(&mut **after, Self::ended(Ok(())));
                }
                return Some(Ok(bytes.into()));
            }
            Self::Body(Body::Stream(parts) | Body::Trailed(parts, _)) => next(parts).await?,
            Self::Pipe(reader) => next(reader).await?,
        };
        if let Some(end) = end {
            *self = Self::ended(end);
        }
        Some(bytes.map(|bytes| self.split(bytes, limit)))
    }

    /// Returns up to `limit` of the bytes, and leaves the rest for the next call.
    fn split(&mut self, mut bytes: Vec<u8>, limit: usize) -> Vec<u8> {
        if bytes.len() > limit {
            let rest = bytes.split_off(limit).into();
            let after = std::mem::replace(self, Self::ended(Ok(())));
            *self = Self::Split(rest, Box::new(after));
        }
        bytes
    }

    /// Returns the replacement for a stream that has ended, because such a stream must not be
    /// polled again.
    fn ended(end: Result<(), StreamError>) -> Self {
        Self::Body(match end {
            Ok(()) => Body::Full(Bytes::new()),
            Err(broken) => Body::Stream(stream::once(ready(Err(broken))).boxed_local()),
        })
    }
}

/// Waits for a piece, and returns it together with the pieces that have already arrived after it,
/// and with the result of the stream if the stream ended after those pieces. Returns `None` if the
/// stream ended before a piece.
async fn next(
    parts: &mut (impl Stream<Item = Result<Bytes, StreamError>> + Unpin),
) -> Option<(Result<Vec<u8>, StreamError>, Option<Result<(), StreamError>>)> {
    let first = loop {
        match parts.next().await? {
            Ok(part) if part.is_empty() => {}
            Ok(part) => break part,
            Err(broken) => return Some((Err(broken), None)),
        }
    };
    let mut bytes = Vec::from(first);
    while bytes.len() < PULL {
        match poll_fn(|cx| Poll::Ready(Pin::new(&mut *parts).poll_next(cx))).await {
            Poll::Ready(Some(Ok(part))) => bytes.extend_from_slice(&part),
            Poll::Ready(Some(Err(broken))) => return Some((Ok(bytes), Some(Err(broken)))),
            Poll::Ready(None) => return Some((Ok(bytes), Some(Ok(())))),
            Poll::Pending => break,
        }
    }
    Some((Ok(bytes), None))
}

/// The streams of one invocation that have not been taken, and the write ends of its pipes.
#[derive(Default)]
pub struct Streams {
    /// The request's body, which is stored separately because most invocations have no other
    /// stream.
    request: Option<Incoming>,
    others: FxHashMap<StreamId, Incoming>,
    writers: FxHashMap<StreamId, pipe::Writer>,
    made: u32,
}

impl Streams {
    /// Creates the streams of an invocation whose request has the given body.
    pub fn of_request(body: Body) -> Self {
        let is_empty = matches!(&body, Body::Full(bytes) if bytes.is_empty());
        Self { request: (!is_empty).then_some(Incoming::Body(body)), ..Self::default() }
    }

    pub fn has_request_body(&self) -> bool {
        self.request.is_some()
    }

    /// Adds a body and returns its number.
    pub fn add(&mut self, body: Body) -> StreamId {
        let id = self.next();
        self.others.insert(id, Incoming::Body(body));
        id
    }

    /// Creates a pipe and returns its number.
    pub fn add_pipe(&mut self) -> StreamId {
        let id = self.next();
        let (writer, reader) = pipe::pipe();
        self.writers.insert(id, writer);
        self.others.insert(id, Incoming::Pipe(reader));
        id
    }

    fn next(&mut self) -> StreamId {
        self.made += 1;
        StreamId(self.made)
    }

    /// Takes a stream, or returns `None` if it has been taken or does not exist.
    pub fn take(&mut self, id: StreamId) -> Option<Incoming> {
        if id == StreamId::REQUEST { self.request.take() } else { self.others.remove(&id) }
    }

    /// Puts a stream back after its consumer has read a piece from it.
    pub fn put_back(&mut self, id: StreamId, rest: Incoming) {
        if id == StreamId::REQUEST {
            self.request = Some(rest);
        } else {
            self.others.insert(id, rest);
        }
    }

    /// Returns the write end of a pipe, unless it has been taken.
    pub fn writer(&self, id: StreamId) -> Option<&pipe::Writer> {
        self.writers.get(&id)
    }

    /// Takes the write end of a pipe. The caller calls this when JavaScript will write no more.
    pub fn take_writer(&mut self, id: StreamId) -> Option<pipe::Writer> {
        self.writers.remove(&id)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn pull(incoming: &mut Incoming, limit: usize) -> Option<Result<Vec<u8>, StreamError>> {
        incoming.pull(limit).now_or_never().expect("the pull is pending")
    }

    fn pieces(pieces: &[&'static str]) -> Incoming {
        let pieces = pieces.iter().map(|piece| Ok(Bytes::from(*piece))).collect::<Vec<_>>();
        Incoming::Body(Body::Stream(stream::iter(pieces).boxed_local()))
    }

    #[test]
    fn a_longer_piece_is_pulled_in_parts() {
        let body = Incoming::Body(Body::Full("abcde".into()));
        for mut incoming in [pieces(&["abc", "de"]), body] {
            assert_eq!(pull(&mut incoming, 2), Some(Ok(b"ab".to_vec())));
            assert_eq!(pull(&mut incoming, 2), Some(Ok(b"cd".to_vec())));
            assert_eq!(pull(&mut incoming, 2), Some(Ok(b"e".to_vec())));
            assert_eq!(pull(&mut incoming, 2), None);
        }
    }

    #[test]
    fn the_rest_of_a_piece_comes_before_the_next_piece() {
        let (writer, reader) = pipe::pipe();
        let mut incoming = Incoming::Pipe(reader);
        writer.write("abc".into(), pipe::PIPE_CAPACITY).unwrap();
        assert_eq!(pull(&mut incoming, 1), Some(Ok(b"a".to_vec())));
        writer.write("d".into(), pipe::PIPE_CAPACITY).unwrap();
        writer.close();
        let whole = Body::from(incoming).into_stream().collect::<Vec<_>>().now_or_never();
        assert_eq!(whole, Some(vec![Ok("bc".into()), Ok("d".into())]));
    }
}
