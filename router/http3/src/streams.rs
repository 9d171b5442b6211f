//! The adapter between QUIC and the parser of HTTP/3. It bounds what the parser keeps in memory.
//!
//! Everything that a client sends passes [`Frames`]. While the parser keeps an incomplete frame
//! that is longer than half of [`STREAM`], the frame's length is charged to the client's memory.

use std::cell::Cell;
use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use h3::error::Code;
use h3::quic::{self, ConnectionErrorIncoming, StreamErrorIncoming, StreamId, WriteBuf};
use quinn::{ConnectionError, ReadError, VarInt, WriteError};
use tenon_clients::Client;
use tenon_clients::quota::Hold;

use crate::STREAM;
use crate::frames::{FrameError, Frames};

/// The maximum amount of data that is split into frames at once, in bytes.
const CHUNK: usize = 4 * 1024;

/// A future that is ready when the client has received a complete response or no longer wants it,
/// or when the connection is lost.
pub(crate) type Stopped = Pin<Box<dyn Future<Output = ()>>>;

type Pending<T> = Pin<Box<dyn Future<Output = Result<T, ConnectionError>>>>;

/// A connection of a client.
pub(crate) struct Streams {
    opener: Opener,
    client: Arc<Client>,
    next_request: Option<Pending<(quinn::SendStream, quinn::RecvStream)>>,
    next_unidirectional: Option<Pending<quinn::RecvStream>>,
    last: LastStopped,
}

/// The [`Stopped`] of the stream that was accepted last, which the parser does not pass on.
pub(crate) type LastStopped = Rc<Cell<Option<Stopped>>>;

/// Opens streams to a client.
pub(crate) struct Opener {
    connection: quinn::Connection,
    opening: Option<Pending<quinn::SendStream>>,
}

impl Streams {
    pub(crate) fn new(connection: quinn::Connection, client: Arc<Client>) -> Self {
        Self {
            opener: Opener { connection, opening: None },
            client,
            next_request: None,
            next_unidirectional: None,
            last: Rc::default(),
        }
    }

    /// Returns the place that receives the [`Stopped`] of each accepted stream.
    pub(crate) fn last_stopped(&self) -> LastStopped {
        self.last.clone()
    }
}

/// Polls an operation, which is started if none is pending.
fn poll_pending<T>(
    pending: &mut Option<Pending<T>>,
    cx: &mut Context<'_>,
    start: impl FnOnce() -> Pending<T>,
) -> Poll<Result<T, ConnectionError>> {
    let result = ready!(pending.get_or_insert_with(start).as_mut().poll(cx));
    *pending = None;
    Poll::Ready(result)
}

impl quic::Connection<Bytes> for Streams {
    type RecvStream = Receiver;
    type OpenStreams = Opener;

    fn poll_accept_recv(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Receiver, ConnectionErrorIncoming>> {
        let connection = &self.opener.connection;
        let accepted = ready!(poll_pending(&mut self.next_unidirectional, cx, || {
            let connection = connection.clone();
            Box::pin(async move { connection.accept_uni().await })
        }));
        let stream = accepted.map_err(connection_error)?;
        Poll::Ready(Ok(Receiver::new(stream, Frames::of_unidirectional(), &self.client)))
    }

    fn poll_accept_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Exchange, ConnectionErrorIncoming>> {
        let connection = &self.opener.connection;
        let accepted = ready!(poll_pending(&mut self.next_request, cx, || {
            let connection = connection.clone();
            Box::pin(async move { connection.accept_bi().await })
        }));
        let (send, receive) = accepted.map_err(connection_error)?;
        let stopped = send.stopped();
        self.last.set(Some(Box::pin(async move { drop(stopped.await) })));
        Poll::Ready(Ok(Exchange {
            sender: Sender::new(send),
            receiver: Receiver::new(receive, Frames::of_request(), &self.client),
        }))
    }

    fn opener(&self) -> Opener {
        Opener { connection: self.opener.connection.clone(), opening: None }
    }
}

impl quic::OpenStreams<Bytes> for Streams {
    type BidiStream = Exchange;
    type SendStream = Sender;

    fn poll_open_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Exchange, StreamErrorIncoming>> {
        self.opener.poll_open_bidi(cx)
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Sender, StreamErrorIncoming>> {
        self.opener.poll_open_send(cx)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.opener.close(code, reason);
    }
}

impl quic::OpenStreams<Bytes> for Opener {
    type BidiStream = Exchange;
    type SendStream = Sender;

    fn poll_open_bidi(
        &mut self,
        _: &mut Context<'_>,
    ) -> Poll<Result<Exchange, StreamErrorIncoming>> {
        // Only clients open streams for requests (RFC 9114, section 6.1).
        let message = "a server opens no stream for a request".to_owned();
        let connection_error = ConnectionErrorIncoming::InternalError(message);
        Poll::Ready(Err(StreamErrorIncoming::ConnectionErrorIncoming { connection_error }))
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Sender, StreamErrorIncoming>> {
        let connection = &self.connection;
        let opened = ready!(poll_pending(&mut self.opening, cx, || {
            let connection = connection.clone();
            Box::pin(async move { connection.open_uni().await })
        }));
        Poll::Ready(opened.map(Sender::new).map_err(lost))
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.connection.close(code_number(code.value()), reason);
    }
}

/// Both directions of a request's stream.
pub(crate) struct Exchange {
    sender: Sender,
    receiver: Receiver,
}

impl quic::BidiStream<Bytes> for Exchange {
    type SendStream = Sender;
    type RecvStream = Receiver;

    fn split(self) -> (Sender, Receiver) {
        (self.sender, self.receiver)
    }
}

impl quic::RecvStream for Exchange {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        self.receiver.poll_data(cx)
    }

    fn stop_sending(&mut self, code: u64) {
        self.receiver.stop_sending(code);
    }

    fn recv_id(&self) -> StreamId {
        self.receiver.recv_id()
    }
}

impl quic::SendStream<Bytes> for Exchange {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.sender.poll_ready(cx)
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.sender.send_data(data)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.sender.poll_finish(cx)
    }

    fn reset(&mut self, code: u64) {
        self.sender.reset(code);
    }

    fn send_id(&self) -> StreamId {
        self.sender.send_id()
    }
}

/// The direction of a stream toward the client.
pub(crate) struct Sender {
    stream: quinn::SendStream,
    /// The data that QUIC has not taken yet.
    waiting: Option<WriteBuf<Bytes>>,
    is_finished: bool,
}

impl Sender {
    fn new(stream: quinn::SendStream) -> Self {
        Self { stream, waiting: None, is_finished: false }
    }
}

impl quic::SendStream<Bytes> for Sender {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        while let Some(waiting) = self.waiting.as_mut().filter(|waiting| waiting.has_remaining()) {
            let written = Pin::new(&mut self.stream).poll_write(cx, waiting.chunk());
            waiting.advance(ready!(written).map_err(write_error)?);
        }
        self.waiting = None;
        Poll::Ready(Ok(()))
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        if self.waiting.is_some() {
            let message = "the data of a stream overlaps".to_owned();
            let connection_error = ConnectionErrorIncoming::InternalError(message);
            return Err(StreamErrorIncoming::ConnectionErrorIncoming { connection_error });
        }
        self.waiting = Some(data.into());
        Ok(())
    }

    fn poll_finish(&mut self, _: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.is_finished = true;
        let finished = self.stream.finish();
        Poll::Ready(finished.map_err(|error| StreamErrorIncoming::Unknown(Box::new(error))))
    }

    fn reset(&mut self, code: u64) {
        self.is_finished = true;
        // The error means that the stream has ended already.
        let _ = self.stream.reset(code_number(code));
    }

    fn send_id(&self) -> StreamId {
        stream_id(self.stream.id())
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        // Without this, QUIC would end the stream as if the response were complete. An error means
        // that the stream has ended already.
        if !self.is_finished {
            let _ = self.stream.reset(code_number(Code::H3_REQUEST_CANCELLED.value()));
        }
    }
}

/// The direction of a stream from the client.
pub(crate) struct Receiver {
    stream: quinn::RecvStream,
    frames: Frames,
    /// The bytes that have passed the filter, and that the parser has not read.
    passed: VecDeque<Bytes>,
    client: Arc<Client>,
    /// The memory of a frame that the parser keeps.
    kept: Option<Hold>,
    has_ended: bool,
}

impl Receiver {
    fn new(stream: quinn::RecvStream, frames: Frames, client: &Arc<Client>) -> Self {
        let client = client.clone();
        Self { stream, frames, passed: VecDeque::new(), client, kept: None, has_ended: false }
    }

    /// Refuses the stream, and everything that the client has sent on it.
    fn refuse(
        &mut self,
        code: Code,
        reason: impl std::error::Error + Send + Sync + 'static,
    ) -> StreamErrorIncoming {
        tracing::debug!(error = %reason, "refused a stream of a client");
        self.end(code.value());
        StreamErrorIncoming::Unknown(Box::new(reason))
    }

    fn end(&mut self, code: u64) {
        self.has_ended = true;
        (self.passed, self.kept) = (VecDeque::new(), None);
        // The error means that the stream has ended already.
        let _ = self.stream.stop(code_number(code));
    }

    /// Charges the frame that the parser keeps. Returns `false` if there is no memory.
    fn charge(&mut self) -> bool {
        match self.frames.kept() as usize {
            // The memory of each stream has room for a usual head.
            length if length <= STREAM / 2 => self.kept = None,
            _ if self.kept.is_some() => {}
            length => self.kept = self.client.memory(length),
        }
        self.frames.kept() as usize <= STREAM / 2 || self.kept.is_some()
    }
}

/// The reason why a stream is refused although its frames are valid.
#[derive(Debug, thiserror::Error)]
#[error("no memory is left for the request's head")]
struct NoMemory;

impl quic::RecvStream for Receiver {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        loop {
            if let Some(bytes) = self.passed.pop_front() {
                return Poll::Ready(Ok(Some(bytes)));
            }
            if self.has_ended {
                return Poll::Ready(Ok(None));
            }
            let chunk = ready!(pin!(self.stream.read_chunk(CHUNK, true)).poll(cx));
            let Some(chunk) = chunk.map_err(read_error)? else {
                self.has_ended = true;
                self.frames.end().map_err(|error| self.refuse(Code::H3_FRAME_ERROR, error))?;
                continue;
            };
            match self.frames.push(chunk.bytes, &mut self.passed) {
                Ok(()) if self.charge() => {}
                Ok(()) => {
                    return Poll::Ready(Err(self.refuse(Code::H3_REQUEST_REJECTED, NoMemory)));
                }
                Err(error @ FrameError::TooLong { .. }) => {
                    return Poll::Ready(Err(self.refuse(Code::H3_EXCESSIVE_LOAD, error)));
                }
                Err(error) => return Poll::Ready(Err(self.refuse(Code::H3_FRAME_ERROR, error))),
            }
        }
    }

    fn stop_sending(&mut self, code: u64) {
        self.end(code);
    }

    fn recv_id(&self) -> StreamId {
        stream_id(self.stream.id())
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        if !self.has_ended {
            // The rest of the request is not needed (RFC 9114, section 4.1).
            self.end(Code::H3_NO_ERROR.value());
        }
    }
}

fn stream_id(id: quinn::StreamId) -> StreamId {
    u64::from(VarInt::from(id)).try_into().expect("the id of a stream exceeds 62 bits")
}

fn code_number(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}

fn connection_error(error: ConnectionError) -> ConnectionErrorIncoming {
    match error {
        ConnectionError::ApplicationClosed(close) => {
            ConnectionErrorIncoming::ApplicationClose { error_code: close.error_code.into() }
        }
        ConnectionError::TimedOut => ConnectionErrorIncoming::Timeout,
        other => ConnectionErrorIncoming::Undefined(Arc::new(other)),
    }
}

fn lost(error: ConnectionError) -> StreamErrorIncoming {
    StreamErrorIncoming::ConnectionErrorIncoming { connection_error: connection_error(error) }
}

fn read_error(error: ReadError) -> StreamErrorIncoming {
    match error {
        ReadError::Reset(code) => StreamErrorIncoming::StreamTerminated { error_code: code.into() },
        ReadError::ConnectionLost(error) => lost(error),
        other => StreamErrorIncoming::Unknown(Box::new(other)),
    }
}

fn write_error(error: WriteError) -> StreamErrorIncoming {
    match error {
        WriteError::Stopped(code) => {
            StreamErrorIncoming::StreamTerminated { error_code: code.into() }
        }
        WriteError::ConnectionLost(error) => lost(error),
        other => StreamErrorIncoming::Unknown(Box::new(other)),
    }
}
