//! A stream, from the router's side.

use std::task::Waker;

use bytes::Bytes;
use http::HeaderMap;

use super::call::CallError;
use crate::pieces::Pieces;

/// The state of a stream.
#[derive(Default)]
pub(super) struct Stream {
    pub(super) id: u32,
    pub(super) response: Response,
    /// Data of the request that waits for a window.
    pub(super) unsent: Bytes,
    /// The request ends after `unsent`.
    pub(super) ends: bool,
    /// The end of the request has been sent.
    pub(super) is_sent: bool,
    /// What may be sent, in bytes.
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
    /// What the peer may still send, in bytes.
    pub(super) window: u32,
    /// What has been read and not been announced, in bytes.
    pub(super) read: u32,
}

/// The trailers of a response, until they have been read. Those of success are empty.
pub(super) type Trailers = Option<HeaderMap>;

impl Stream {
    /// Ends the response, unless it has ended.
    pub(super) fn end(&mut self, end: Result<Trailers, CallError>) {
        if self.response.end.is_none() {
            self.response.end = Some(end);
        }
        self.wake();
    }

    /// Ends the response of a request that the peer reports as not processed. A request that has
    /// been answered in part has been processed all the same.
    pub(super) fn refuse(&mut self) {
        let began = self.response.has_begun;
        self.end(Err(if began { CallError::Broken } else { CallError::NotProcessed }));
    }

    pub(super) fn wake(&mut self) {
        self.reader.take().into_iter().chain(self.writer.take()).for_each(Waker::wake);
    }
}
