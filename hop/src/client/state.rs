//! What a connection and its requests share.

use std::rc::Rc;
use std::task::Waker;

use bytes::{Bytes, BytesMut};
use rustc_hash::FxHashMap;
use tokio::sync::Notify;

use super::call::CallError;
use super::stream::Stream;
use crate::block;
use crate::error::{Code, ConnectionError};
use crate::frame::{self, INITIAL_WINDOW, MAX, MAX_PAYLOAD};
use crate::settings::Settings;

/// No more data is copied to the outbox while so much waits to be written, in bytes.
const FULL: usize = 1024 * 1024;

/// The state of a connection.
pub(super) struct State {
    pub(super) outbox: BytesMut,
    streams: Vec<Stream>,
    vacant: Vec<usize>,
    open: FxHashMap<u32, usize>,
    /// The next stream.
    next: u32,
    max_streams: usize,
    /// What may be sent, in bytes: on the connection, and at first on a stream.
    window: i64,
    stream_window: i64,
    /// The initial window of answers, in bytes.
    answer_window: u32,
    /// Streams wait for room in the outbox.
    is_full: bool,
    /// No more requests are taken.
    is_closed: bool,
    /// The block of the last request, and its timeout: nearly all have the same.
    block: (u64, Vec<u8>),
    /// The connection's task.
    pub(super) task: Option<Waker>,
    /// Notified when a ping has been answered, and at the end.
    pub(super) ponged: Rc<Notify>,
}

impl State {
    pub(super) fn new(answer_window: u32) -> Self {
        Self {
            outbox: BytesMut::new(),
            streams: Vec::new(),
            vacant: Vec::new(),
            open: FxHashMap::default(),
            next: 1,
            max_streams: usize::MAX,
            window: INITIAL_WINDOW.into(),
            stream_window: INITIAL_WINDOW.into(),
            answer_window,
            is_full: false,
            is_closed: false,
            block: (0, block::request(0)),
            task: None,
            ponged: Rc::default(),
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed || self.next > MAX
    }

    /// Returns whether there are streams.
    pub(super) fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    /// Opens a stream and sends what can be sent. Returns its slot, or `None` if the connection
    /// takes no more.
    pub(super) fn open(&mut self, seconds: u64, data: &Bytes, ends: bool) -> Option<usize> {
        if self.is_closed() || self.open.len() >= self.max_streams {
            return None;
        }
        let id = self.next;
        self.next += 2;
        if self.block.0 != seconds {
            self.block = (seconds, block::request(seconds));
        }
        frame::put_headers(&mut self.outbox, id, &self.block.1, ends && data.is_empty());
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.streams.push(Stream::default());
            self.streams.len() - 1
        });
        let stream = &mut self.streams[slot];
        (stream.id, stream.window, stream.ends) = (id, self.stream_window, ends);
        stream.is_sent = ends && data.is_empty();
        stream.answer.window = self.answer_window;
        self.open.insert(id, slot);
        self.send_all(slot, data);
        self.wake();
        Some(slot)
    }

    pub(super) fn stream(&mut self, slot: usize) -> &mut Stream {
        &mut self.streams[slot]
    }

    /// Returns the slot of a stream that is open.
    pub(super) fn slot(&self, id: u32) -> Option<usize> {
        self.open.get(&id).copied()
    }

    /// Checks that a stream exists or has existed.
    pub(super) fn check_known(&self, id: u32) -> Result<(), ConnectionError> {
        if id.is_multiple_of(2) || id >= self.next {
            return Err(ConnectionError::protocol("a frame of a stream that is not open"));
        }
        Ok(())
    }

    /// Moves data to the outbox. What the windows do not allow is kept.
    pub(super) fn send_all(&mut self, slot: usize, data: &Bytes) {
        let stream = &mut self.streams[slot];
        let fits = data.len() as i64 <= self.window.min(stream.window).min(MAX_PAYLOAD as i64);
        if data.is_empty() || !fits || self.outbox.len() >= FULL {
            stream.unsent = data.clone();
            return self.send(slot);
        }
        self.window -= data.len() as i64;
        stream.window -= data.len() as i64;
        stream.is_sent = stream.ends;
        frame::put_data(&mut self.outbox, stream.id, data.len(), stream.is_sent);
        self.outbox.extend_from_slice(data);
    }

    /// Moves what a stream has to send to the outbox, as far as the windows allow.
    pub(super) fn send(&mut self, slot: usize) {
        let stream = &mut self.streams[slot];
        while !stream.unsent.is_empty() {
            if self.outbox.len() >= FULL {
                self.is_full = true;
                return;
            }
            let window = self.window.min(stream.window).min(MAX_PAYLOAD as i64);
            if window <= 0 {
                return;
            }
            let len = stream.unsent.len().min(window as usize);
            let piece = stream.unsent.split_to(len);
            (self.window, stream.window) = (self.window - len as i64, stream.window - len as i64);
            stream.is_sent = stream.ends && stream.unsent.is_empty();
            frame::put_data(&mut self.outbox, stream.id, len, stream.is_sent);
            self.outbox.extend_from_slice(&piece);
        }
        stream.unsent = Bytes::new();
        if stream.ends && !stream.is_sent {
            stream.is_sent = true;
            frame::put_data(&mut self.outbox, stream.id, 0, true);
        }
        stream.writer.take().into_iter().for_each(Waker::wake);
    }

    /// Continues with the streams that waited for room in the outbox. Returns whether there were
    /// any.
    pub(super) fn resume(&mut self) -> bool {
        let was_full = std::mem::take(&mut self.is_full);
        if was_full {
            self.slots().into_iter().for_each(|slot| self.send(slot));
        }
        was_full
    }

    /// Has the connection's task write the outbox.
    pub(super) fn wake(&self) {
        self.task.iter().for_each(Waker::wake_by_ref);
    }

    /// Gives the slot of a call back, and resets its stream if that has not ended.
    pub(super) fn close(&mut self, slot: usize) {
        let mut stream = std::mem::take(&mut self.streams[slot]);
        stream.wake();
        self.vacant.push(slot);
        let is_open = self.open.get(&stream.id) == Some(&slot);
        if !is_open {
            return;
        }
        self.open.remove(&stream.id);
        if stream.answer.end.is_none() || !stream.is_sent {
            frame::put_reset(&mut self.outbox, stream.id, Code::CANCEL);
        }
        // A connection that takes no more ends with its last stream.
        self.wake();
    }

    /// Ends a stream that the peer has reset.
    pub(super) fn reset(&mut self, id: u32, code: Code) {
        let Some(slot) = self.slot(id) else { return };
        self.open.remove(&id);
        let error = match code {
            // RFC 9113, section 8.7.
            Code::REFUSED_STREAM => CallError::NotProcessed,
            _ => CallError::Broken,
        };
        self.streams[slot].end(Err(error));
        self.wake();
    }

    /// Resets a stream whose request breaks off.
    pub(super) fn abort(&mut self, slot: usize) {
        let id = self.streams[slot].id;
        frame::put_reset(&mut self.outbox, id, Code::CANCEL);
        self.reset(id, Code::CANCEL);
    }

    pub(super) fn apply(&mut self, settings: Settings) -> Result<(), ConnectionError> {
        if let Some(streams) = settings.max_streams {
            self.max_streams = streams as usize;
        }
        let Some(window) = settings.window else { return Ok(()) };
        let by = i64::from(window) - self.stream_window;
        self.stream_window = window.into();
        for slot in self.slots() {
            self.streams[slot].window += by;
            if self.streams[slot].window > MAX.into() {
                return Err(ConnectionError::flow("a window that is too large"));
            }
            self.send(slot);
        }
        Ok(())
    }

    pub(super) fn widen(&mut self, id: u32, by: u32) -> Result<(), ConnectionError> {
        if by == 0 {
            return Err(ConnectionError::protocol("an empty window update"));
        }
        let slot = self.slot(id);
        let window = match slot {
            _ if id == 0 => &mut self.window,
            Some(slot) => &mut self.streams[slot].window,
            None => return self.check_known(id),
        };
        *window += i64::from(by);
        if *window > MAX.into() {
            return Err(ConnectionError::flow("a window that is too large"));
        }
        match slot {
            Some(slot) => self.send(slot),
            None => self.slots().into_iter().for_each(|slot| self.send(slot)),
        }
        Ok(())
    }

    /// Takes no more requests, and ends the streams above `last`, which the peer has not processed.
    pub(super) fn close_above(&mut self, last: u32) {
        self.is_closed = true;
        for slot in self.slots() {
            if self.streams[slot].id > last {
                self.open.remove(&self.streams[slot].id);
                self.streams[slot].end(Err(CallError::NotProcessed));
            }
        }
    }

    /// Ends all streams: the connection is gone.
    pub(super) fn break_off(&mut self) {
        self.is_closed = true;
        for (_, slot) in std::mem::take(&mut self.open) {
            self.streams[slot].end(Err(CallError::Broken));
        }
        self.ponged.notify_waiters();
    }

    fn slots(&self) -> Vec<usize> {
        self.open.values().copied().collect()
    }
}
