//! Decompresses messages (RFC 7692) in a stream of frames, before anything else reads the frames.
//!
//! ```text
//!  in:   text, RSV1, compressed ─► continuation, compressed, final
//!  out:  text, empty ─► continuation, 16 KiB ─► … ─► continuation, final
//! ```
//!
//! A message is inflated as it is read, up to [`FRAGMENT`] bytes at a time, so that a short message
//! that expands without end takes no more memory than any other message, and is refused like a
//! message that is too long. A socket has a decoder only while a message is incomplete. Everything
//! that is not part of a compressed message passes unchanged: if it violates the protocol, the
//! protocol library reports that. This module does no I/O.

use std::cell::Cell;
use std::io::Cursor;
use std::time::{Duration, Instant};

use bytes::{Buf as _, Bytes};
use flate2::{Decompress, FlushDecompress, Status};
use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};

use super::split::FRAGMENT;

/// The end of a compressed message, which its sender removes (RFC 7692 §7.2.1).
pub(super) const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];

/// The maximum number of compressed bytes that the decoder is given at a time.
const INPUT: usize = 4 * 1024;

/// The memory of a message that is being inflated, in bytes: the decoder's window and tables, and
/// both buffers.
pub(crate) const INFLATING: usize = 48 * 1024 + INPUT + FRAGMENT;

/// The reason why a message cannot be inflated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InflateError {
    #[error("the message is not compressed with deflate")]
    Invalid,
    #[error(
        "the compressed message is too long: send shorter messages, or raise spec.limits.cpuMs"
    )]
    TooLong,
}

impl InflateError {
    /// Returns the close code that tells the peer the reason (RFC 6455 §7.4.1).
    pub(crate) fn code(self) -> CloseCode {
        match self {
            Self::Invalid => CloseCode::Invalid,
            Self::TooLong => CloseCode::Size,
        }
    }
}

/// The bounds on a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// The maximum length of the compressed message, in bytes.
    pub(crate) length: u64,
    /// The maximum time for which the message may be inflated.
    pub(crate) time: Duration,
}

/// Decompresses the messages in one direction of a socket.
pub(crate) struct Inflater {
    /// An incomplete header.
    header: Vec<u8>,
    state: State,
    /// The message that is being inflated.
    message: Option<Box<Message>>,
    bounds: Bounds,
    /// The memory, in bytes, of messages that have begun since the last call of
    /// [`Inflater::take_counted`].
    counted: usize,
    /// The time for which messages were inflated since the last call of [`Inflater::take_spent`].
    spent: Duration,
}

enum State {
    Header,
    /// `left` bytes follow that pass unchanged.
    Plain {
        left: u64,
    },
    /// `left` bytes of a compressed frame follow.
    Compressed {
        left: u64,
        mask: Option<[u8; 4]>,
        is_final: bool,
    },
    /// The input is not a valid frame. It and all further input pass unchanged.
    Lost,
}

struct Message {
    decoder: Decompress,
    /// Compressed bytes without their mask, of which the decoder has read the first `read`.
    input: Vec<u8>,
    read: usize,
    output: Vec<u8>,
    /// Set if the decoder may produce more output without more input.
    has_more: bool,
    /// Set once the decoder has been given the message's end.
    has_tail: bool,
    /// The length of the compressed message so far, in bytes.
    length: u64,
    /// The time for which the message has been inflated.
    time: Duration,
}

thread_local! {
    /// The buffers and the decoder of a message that is complete, for the thread's next message.
    static SPARE: Cell<Option<Box<Message>>> = const { Cell::new(None) };
}

impl Inflater {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            header: Vec::new(),
            state: State::Header,
            message: None,
            bounds,
            counted: 0,
            spent: Duration::ZERO,
        }
    }

    /// Reads from `input`, and returns the next bytes of the decompressed stream. Returns `None` if
    /// all input has been read.
    ///
    /// # Errors
    /// Fails if a message is malformed or exceeds its bounds. The stream must not be used further.
    pub(crate) fn next(&mut self, input: &mut Bytes) -> Result<Option<Bytes>, InflateError> {
        loop {
            match &mut self.state {
                State::Plain { left: 0 } => self.state = State::Header,
                State::Compressed { left, mask, is_final } => {
                    let message = self.message.as_mut().expect("a compressed frame has a message");
                    if message.is_drained() {
                        match (*left, *is_final) {
                            (0, false) => self.state = State::Header,
                            (0, true) => message.feed_tail(),
                            (1.., _) if input.is_empty() => return Ok(None),
                            (1.., _) => message.feed(input, left, mask),
                        }
                        continue;
                    }
                    let time = message.inflate()?;
                    self.spent += time;
                    if message.time >= self.bounds.time {
                        return Err(InflateError::TooLong);
                    }
                    let is_masked = mask.is_some();
                    let is_complete = message.has_tail && message.is_drained();
                    if !is_complete && message.output.is_empty() {
                        continue;
                    }
                    let frame = frame(Data::Continue, is_masked, is_complete, &message.output);
                    if is_complete {
                        SPARE.set(self.message.take());
                        self.state = State::Header;
                    }
                    return Ok(Some(frame));
                }
                _ if input.is_empty() => return Ok(None),
                State::Plain { left } => {
                    let len =
                        usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()));
                    *left -= len as u64;
                    return Ok(Some(input.split_to(len)));
                }
                State::Header => {
                    self.header.push(input.get_u8());
                    if let Some(bytes) = self.read_header()? {
                        return Ok(Some(bytes));
                    }
                }
                State::Lost => return Ok(Some(std::mem::take(input))),
            }
        }
    }

    /// Returns the memory of messages that have begun since the last call, in bytes.
    pub(crate) fn take_counted(&mut self) -> usize {
        std::mem::take(&mut self.counted)
    }

    /// Returns the time for which messages were inflated since the last call.
    pub(crate) fn take_spent(&mut self) -> Duration {
        std::mem::take(&mut self.spent)
    }

    /// Reads the header, if it is complete. Returns the bytes that pass in its place.
    fn read_header(&mut self) -> Result<Option<Bytes>, InflateError> {
        let (header, length) = match FrameHeader::parse(&mut Cursor::new(&self.header)) {
            Ok(Some(read)) => read,
            Ok(None) => return Ok(None),
            Err(_) => {
                self.state = State::Lost;
                return Ok(Some(std::mem::take(&mut self.header).into()));
            }
        };
        let bytes = std::mem::take(&mut self.header);
        let FrameHeader { rsv1, mask, is_final, .. } = header;
        let has_others = header.rsv2 || header.rsv3;
        let first_kind = match (header.opcode, &self.message) {
            (OpCode::Data(kind @ (Data::Text | Data::Binary)), None) if rsv1 && !has_others => {
                Some(kind)
            }
            // Only the first frame of a message says that the message is compressed (RFC 7692 §6).
            (OpCode::Data(Data::Continue), Some(_)) if !rsv1 && !has_others => None,
            _ => {
                self.state = State::Plain { left: length };
                return Ok(Some(bytes.into()));
            }
        };
        if first_kind.is_some() {
            self.message = Some(Message::begin());
            self.counted += INFLATING;
        }
        let message = self.message.as_mut().expect("the message has begun");
        message.length = message.length.saturating_add(length);
        if message.length > self.bounds.length {
            return Err(InflateError::TooLong);
        }
        self.state = State::Compressed { left: length, mask, is_final };
        Ok(first_kind.map(|kind| frame(kind, mask.is_some(), false, &[])))
    }
}

impl Message {
    fn begin() -> Box<Self> {
        let Some(mut message) = SPARE.take() else {
            return Box::new(Self {
                decoder: Decompress::new(false),
                input: Vec::with_capacity(INPUT),
                read: 0,
                output: Vec::with_capacity(FRAGMENT),
                has_more: false,
                has_tail: false,
                length: 0,
                time: Duration::ZERO,
            });
        };
        message.decoder.reset(false);
        message.input.clear();
        (message.read, message.has_more, message.has_tail) = (0, false, false);
        (message.length, message.time) = (0, Duration::ZERO);
        message
    }

    /// Returns whether the decoder has read all input and has produced all output for it.
    fn is_drained(&self) -> bool {
        self.read == self.input.len() && !self.has_more
    }

    /// Moves bytes of the frame to the decoder's input, and removes their mask.
    fn feed(&mut self, input: &mut Bytes, left: &mut u64, mask: &mut Option<[u8; 4]>) {
        let len = usize::try_from(*left).unwrap_or(INPUT).min(INPUT).min(input.len());
        *left -= len as u64;
        self.input.clear();
        self.input.extend_from_slice(&input.split_to(len));
        self.read = 0;
        if let Some(mask) = mask {
            for (byte, mask) in self.input.iter_mut().zip(mask.iter().cycle()) {
                *byte ^= mask;
            }
            mask.rotate_left(len % 4);
        }
    }

    fn feed_tail(&mut self) {
        self.input.clear();
        self.input.extend_from_slice(&TAIL);
        (self.read, self.has_tail) = (0, true);
    }

    /// Replaces the output with the next part of the message. Returns the time that this took.
    fn inflate(&mut self) -> Result<Duration, InflateError> {
        let begun = Instant::now();
        self.output.clear();
        let (input, before) = (&self.input[self.read..], self.decoder.total_in());
        let status = self.decoder.decompress_vec(input, &mut self.output, FlushDecompress::None);
        let status = status.map_err(|_| InflateError::Invalid)?;
        let read = (self.decoder.total_in() - before) as usize;
        self.read += read;
        self.has_more = self.output.len() == self.output.capacity();
        if status == Status::StreamEnd {
            // A sender may mark a block as the last one, and continue with other blocks (RFC 7692
            // §7.2.3.4).
            self.decoder.reset(false);
            self.has_more = false;
        } else if read == 0 && self.output.is_empty() && self.read < self.input.len() {
            return Err(InflateError::Invalid);
        }
        let time = begun.elapsed();
        self.time += time;
        Ok(time)
    }
}

/// Returns a frame without RSV1. The mask of a masked frame is zero, which changes no byte.
fn frame(kind: Data, is_masked: bool, is_final: bool, payload: &[u8]) -> Bytes {
    let header = FrameHeader {
        is_final,
        opcode: OpCode::Data(kind),
        mask: is_masked.then_some([0; 4]),
        ..FrameHeader::default()
    };
    let length = payload.len() as u64;
    let mut bytes = Vec::with_capacity(header.len(length) + payload.len());
    header.format(length, &mut bytes).expect("writing to a vector cannot fail");
    bytes.extend_from_slice(payload);
    bytes.into()
}

#[cfg(test)]
mod tests;
