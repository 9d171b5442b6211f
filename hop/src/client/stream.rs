//! A stream, from the router's side.

use std::collections::VecDeque;
use std::task::Waker;

use bytes::Bytes;
use http::HeaderMap;

use super::call::CallError;

/// The state of a stream.
#[derive(Default)]
pub(super) struct Stream {
    pub(super) id: u32,
    pub(super) answer: Answer,
    /// Data of the request that waits for a window.
    pub(super) unsent: Bytes,
    /// The request ends after `unsent`.
    pub(super) ends: bool,
    /// The end of the request has been sent.
    pub(super) is_sent: bool,
    /// What may be sent, in bytes.
    pub(super) window: i64,
    pub(super) reader: Option<Waker>,
    pub(super) writer: Option<Waker>,
}

/// What has arrived of an answer.
#[derive(Default)]
pub(super) struct Answer {
    pub(super) has_begun: bool,
    /// The first piece of data, which is mostly the only one.
    pub(super) first: Option<Bytes>,
    pub(super) more: VecDeque<Bytes>,
    pub(super) end: Option<Result<Trailers, CallError>>,
    /// What the peer may still send, in bytes.
    pub(super) window: u32,
    /// What has been read and not been announced, in bytes.
    pub(super) read: u32,
}

/// The trailers of an answer, until they have been read. Those of success are empty.
pub(super) type Trailers = Option<HeaderMap>;

impl Answer {
    pub(super) fn push(&mut self, piece: Bytes) {
        if self.first.is_none() && self.more.is_empty() {
            self.first = Some(piece);
        } else {
            self.more.push_back(piece);
        }
    }

    pub(super) fn pop(&mut self) -> Option<Bytes> {
        self.first.take().or_else(|| self.more.pop_front())
    }

    pub(super) fn has_data(&self) -> bool {
        self.first.is_some() || !self.more.is_empty()
    }
}

impl Stream {
    /// Ends the answer, unless it has ended.
    pub(super) fn end(&mut self, end: Result<Trailers, CallError>) {
        if self.answer.end.is_none() {
            self.answer.end = Some(end);
        }
        self.wake();
    }

    pub(super) fn wake(&mut self) {
        self.reader.take().into_iter().chain(self.writer.take()).for_each(Waker::wake);
    }
}
