//! The state that a connection and its requests share.

use std::collections::VecDeque;
use std::rc::Rc;
use std::task::Waker;

use bytes::{Bytes, BytesMut};
use rustc_hash::FxHashMap;
use tokio::sync::Notify;

use super::stream::{CallError, Stream};
use super::{Closed, Refused};
use crate::block;
use crate::error::{Code, ConnectionError};
use crate::frame::{self, INITIAL_WINDOW, MAX_31_BITS, MAX_PAYLOAD};
use crate::settings::Settings;

/// The length of the outbox, in bytes, at which no more data is copied to it.
const FULL: usize = 1024 * 1024;

/// The length of the outbox, in bytes, at which no more requests are accepted. The outbox can
/// exceed [`FULL`], because canceled requests leave their headers in it.
const OVERFULL: usize = 2 * FULL;

/// The maximum number of times that a peer may change the initial window of streams: each change
/// affects every stream.
const MAX_WINDOW_CHANGES: u32 = 8;

/// The state of a connection.
pub(super) struct State {
    pub(super) outbox: BytesMut,
    streams: Vec<Stream>,
    vacant: Vec<usize>,
    open: FxHashMap<u32, usize>,
    /// The id of the next stream.
    next: u32,
    max_streams: usize,
    /// The number of bytes that may be sent on the connection.
    window: i64,
    /// The number of bytes that may be sent on a new stream.
    stream_window: i64,
    /// The initial window of responses, in bytes.
    response_window: u32,
    /// The slots of streams that wait for the connection's window or for room in the outbox.
    waiting: VecDeque<usize>,
    /// The number of bytes in the outbox that answer the peer's pings and settings.
    pub(super) owed: usize,
    /// The number of times that the peer has changed the initial window of streams.
    changes: u32,
    /// The id of the last stream that the peer processes.
    last: u32,
    /// No more requests are accepted.
    is_closed: bool,
    /// The connection has ended.
    pub(super) is_gone: bool,
    /// The timeout of the last request, in seconds, and its header block. Nearly all requests have
    /// the same timeout.
    block: (u64, Vec<u8>),
    /// The connection's task.
    pub(super) task: Option<Waker>,
    /// Notified when a ping has been answered, and when the connection has ended.
    pub(super) ponged: Rc<Notify>,
}

impl State {
    pub(super) fn new(response_window: u32) -> Self {
        Self {
            outbox: BytesMut::new(),
            streams: Vec::new(),
            vacant: Vec::new(),
            open: FxHashMap::default(),
            next: 1,
            max_streams: usize::MAX,
            window: INITIAL_WINDOW.into(),
            stream_window: INITIAL_WINDOW.into(),
            response_window,
            waiting: VecDeque::new(),
            owed: 0,
            changes: 0,
            last: MAX_31_BITS,
            is_closed: false,
            is_gone: false,
            block: (0, block::request(0)),
            task: None,
            ponged: Rc::default(),
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed || self.next > MAX_31_BITS
    }

    /// Returns whether there are no streams.
    pub(super) fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    /// Opens a stream, and sends as much of `data` as the windows allow. Returns the stream's slot.
    pub(super) fn open(
        &mut self,
        seconds: u64,
        data: &Bytes,
        ends: bool,
    ) -> Result<usize, Refused> {
        if self.is_closed() {
            return Err(Closed.into());
        }
        if self.outbox.len() >= OVERFULL || self.open.len() >= self.max_streams {
            return Err(Refused::Full);
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
        stream.response.window = self.response_window;
        self.open.insert(id, slot);
        self.send_all(slot, data);
        self.wake();
        Ok(slot)
    }

    pub(super) fn stream(&mut self, slot: usize) -> &mut Stream {
        &mut self.streams[slot]
    }

    /// Returns the slot of a stream, or `None` if the stream is not open.
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

    /// Moves data to the outbox, as far as the windows and the outbox allow. The rest is kept as
    /// the stream's unsent data.
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

    /// Moves a stream's unsent data to the outbox, as far as the windows and the outbox allow.
    pub(super) fn send(&mut self, slot: usize) {
        while self.send_one(slot) {}
    }

    /// Moves one frame to the outbox, unless the stream has to wait. Returns whether a frame was
    /// moved and more data is left.
    fn send_one(&mut self, slot: usize) -> bool {
        let stream = &mut self.streams[slot];
        if !stream.unsent.is_empty() {
            if stream.window <= 0 {
                // An update of the stream's own window resumes the stream.
                return false;
            }
            if self.window <= 0 || self.outbox.len() >= FULL {
                self.enqueue(slot);
                return false;
            }
            let window = self.window.min(stream.window).min(MAX_PAYLOAD as i64);
            let len = stream.unsent.len().min(window as usize);
            let piece = stream.unsent.split_to(len);
            (self.window, stream.window) = (self.window - len as i64, stream.window - len as i64);
            stream.is_sent = stream.ends && stream.unsent.is_empty();
            frame::put_data(&mut self.outbox, stream.id, len, stream.is_sent);
            self.outbox.extend_from_slice(&piece);
            if !stream.unsent.is_empty() {
                return true;
            }
        }
        stream.unsent = Bytes::new();
        if stream.ends && !stream.is_sent {
            stream.is_sent = true;
            frame::put_data(&mut self.outbox, stream.id, 0, true);
        }
        stream.writer.take().into_iter().for_each(Waker::wake);
        false
    }

    fn enqueue(&mut self, slot: usize) {
        if !std::mem::replace(&mut self.streams[slot].is_waiting, true) {
            self.waiting.push_back(slot);
        }
    }

    /// Sends the data of waiting streams, one frame of each in rotation, as long as the
    /// connection's window and the outbox have room. Returns whether the outbox contains anything.
    pub(super) fn resume(&mut self) -> bool {
        while self.window > 0
            && self.outbox.len() < FULL
            && let Some(slot) = self.waiting.pop_front()
        {
            let stream = &mut self.streams[slot];
            stream.is_waiting = false;
            let is_open = self.open.get(&stream.id) == Some(&slot);
            if is_open && self.send_one(slot) {
                self.enqueue(slot);
            }
        }
        !self.outbox.is_empty()
    }

    /// Wakes the connection's task, which writes the outbox.
    pub(super) fn wake(&self) {
        self.task.iter().for_each(Waker::wake_by_ref);
    }

    /// Frees the slot of a call, and resets the call's stream if the stream has not ended.
    pub(super) fn close(&mut self, slot: usize) {
        let mut stream = std::mem::take(&mut self.streams[slot]);
        // The slot keeps its place in `waiting`, regardless of the stream that uses it.
        self.streams[slot].is_waiting = stream.is_waiting;
        stream.wake();
        self.vacant.push(slot);
        if self.open.get(&stream.id) == Some(&slot) {
            self.open.remove(&stream.id);
            if stream.response.end.is_none() || !stream.is_sent {
                frame::put_reset(&mut self.outbox, stream.id, Code::CANCEL);
            }
        }
        // A closed connection ends with its last stream, and a connection without senders ends with
        // its last call.
        self.wake();
    }

    /// Ends a stream that the peer has reset.
    pub(super) fn reset(&mut self, id: u32, code: Code) {
        let Some(slot) = self.slot(id) else { return };
        self.open.remove(&id);
        match code {
            // RFC 9113, section 8.7.
            Code::REFUSED_STREAM => self.streams[slot].refuse(),
            _ => self.streams[slot].end(Err(CallError::Broken)),
        }
        self.wake();
    }

    /// Resets a stream whose request is aborted.
    pub(super) fn abort(&mut self, slot: usize) {
        let id = self.streams[slot].id;
        frame::put_reset(&mut self.outbox, id, Code::CANCEL);
        self.reset(id, Code::CANCEL);
    }

    /// Applies settings of the peer.
    pub(super) fn apply(&mut self, settings: Settings) -> Result<(), ConnectionError> {
        if let Some(streams) = settings.max_streams {
            self.max_streams = streams as usize;
        }
        let Some(window) = settings.window else { return Ok(()) };
        let by = i64::from(window) - self.stream_window;
        if by == 0 {
            return Ok(());
        }
        self.changes += 1;
        if self.changes > MAX_WINDOW_CHANGES {
            return Err(ConnectionError::flow("too many changes of its initial window"));
        }
        self.stream_window = window.into();
        for slot in self.slots() {
            self.streams[slot].window += by;
            if self.streams[slot].window > MAX_31_BITS.into() {
                return Err(ConnectionError::flow("a window that is too large"));
            }
            self.send(slot);
        }
        Ok(())
    }

    /// Enlarges the window of a stream, or that of the connection if `id` is 0.
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
        if *window > MAX_31_BITS.into() {
            return Err(ConnectionError::flow("a window that is too large"));
        }
        // Streams that wait for the connection's window continue after the next flush.
        slot.into_iter().for_each(|slot| self.send(slot));
        Ok(())
    }

    /// Closes the connection to new requests, and ends the streams above `last`, which the peer has
    /// not processed.
    pub(super) fn close_above(&mut self, last: u32) {
        self.is_closed = true;
        if last >= self.last {
            return;
        }
        self.last = last;
        for slot in self.slots() {
            if self.streams[slot].id > last {
                self.open.remove(&self.streams[slot].id);
                self.streams[slot].refuse();
            }
        }
    }

    /// Ends all streams, because the connection has ended.
    pub(super) fn break_off(&mut self) {
        (self.is_closed, self.is_gone) = (true, true);
        for (_, slot) in std::mem::take(&mut self.open) {
            self.streams[slot].end(Err(CallError::Broken));
        }
        self.ponged.notify_waiters();
    }

    fn slots(&self) -> Vec<usize> {
        self.open.values().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{HEADER, Head, Kind};

    fn open(state: &mut State, data: &'static [u8]) -> usize {
        state.open(1, &Bytes::from_static(data), true).unwrap()
    }

    #[test]
    fn canceled_requests_do_not_fill_the_outbox_of_a_peer_that_does_not_read() {
        let mut state = State::new(1024);
        while let Ok(slot) = state.open(1, &Bytes::from_static(b"x"), true) {
            state.close(slot);
        }
        assert!(!state.is_closed() && state.outbox.len() < OVERFULL + 1024);
        state.outbox.clear();
        assert!(state.open(1, &Bytes::new(), true).is_ok());
    }

    #[test]
    fn a_request_that_has_been_answered_in_part_was_processed() {
        let mut state = State::new(1024);
        let [begun, other] = [open(&mut state, b"x"), open(&mut state, b"y")];
        state.stream(begun).response.has_begun = true;
        state.close_above(0);
        let mut end = |slot| state.stream(slot).response.end.take().unwrap().unwrap_err();
        assert_eq!((end(begun), end(other)), (CallError::Broken, CallError::NotProcessed));
    }

    #[test]
    fn waiting_streams_send_one_frame_each_in_rotation() {
        static DATA: [u8; 40_000] = [0; 40_000];
        let mut state = State::new(1024);
        state.window = 0;
        (0..2).for_each(|_| _ = open(&mut state, &DATA));
        state.outbox.clear();
        state.widen(0, 80_000).unwrap();
        assert!(state.resume());
        let mut streams = Vec::new();
        while let Some(head) = state.outbox.first_chunk().map(Head::parse) {
            assert_eq!(head.kind, Kind::Data);
            streams.push(head.stream);
            _ = state.outbox.split_to(HEADER + head.len);
        }
        assert_eq!(streams, [1, 3, 1, 3, 1, 3]);
    }

    #[test]
    fn a_peer_may_change_the_window_of_streams_only_a_few_times() {
        let mut state = State::new(1024);
        let mut change =
            |window| state.apply(Settings { window: Some(window), ..Settings::default() });
        assert!((0..100).all(|_| change(70_000).is_ok()), "an unchanged window was refused");
        assert!((1..100).any(|by| change(70_000 + by).is_err()), "99 changes were accepted");
    }
}
