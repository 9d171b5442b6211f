//! The state of a stream on the router's side.

use std::task::Waker;

use bytes::Bytes;
use http::HeaderMap;

use crate::pieces::Pieces;

/// The state of a stream.
#[derive(Default)]
pub(super) struct Stream {
    pub(super) id: u32,
    pub(super) response: Response,
    /// Data of the request that waits for a window or for room in the outbox.
    pub(super) unsent: Bytes,
    /// The request ends after `unsent`.
    pub(super) ends: bool,
    /// The end of the request has been sent.
    pub(super) is_sent: bool,
    /// The number of bytes that the stream's own window permits to send; it may be negative.
    pub(super) window: i64,
    /// The slot waits for the connection's window or for room in the outbox.
    pub(super) is_waiting: bool,
    pub(super) reader: Option<Waker>,
    pub(super) writer: Option<Waker>,
}

/// The part of a response that has arrived.
#[derive(Default)]
pub(super) struct Response {
    pub(super) has_begun: bool,
    pub(super) pieces: Pieces,
    pub(super) end: Option<Result<Trailers, CallError>>,
    /// The number of bytes that the peer may still send.
    pub(super) window: u32,
    /// The number of bytes that have been read but not announced to the peer.
    pub(super) read: u32,
}

/// The reason why a response is missing or incomplete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The shard has not processed any part of the request.
    #[error("the shard has not processed the request")]
    NotProcessed,
    #[error("the stream or its connection broke")]
    Broken,
}

/// The trailers of a response, or `None` after they have been read. The trailers of a successful
/// response are empty.
pub(super) type Trailers = Option<HeaderMap>;

impl Stream {
    /// Ends the response, unless it has ended.
    pub(super) fn end(&mut self, end: Result<Trailers, CallError>) {
        if self.response.end.is_none() {
            self.response.end = Some(end);
        }
        self.wake();
    }

    /// Ends the response of a request that the peer reports as not processed. If a part of the
    /// response has arrived, the request has been processed despite this report.
    pub(super) fn refuse(&mut self) {
        let began = self.response.has_begun;
        self.end(Err(if began { CallError::Broken } else { CallError::NotProcessed }));
    }

    pub(super) fn wake(&mut self) {
        self.reader.take().into_iter().chain(self.writer.take()).for_each(Waker::wake);
    }
}
