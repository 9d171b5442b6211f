//! Follows the frames of a client's stream (RFC 9114, section 7), and passes on only what the
//! parser of HTTP/3 reads in bounded memory.
//!
//! ```text
//!  bytes ─► header of a frame ─┬─ DATA ─────────────────────────► passed in pieces
//!                              ├─ HEADERS, control frames ──────► passed, if they are short enough
//!                              ├─ unknown, or DATA without data ► dropped
//!                              └─ longer than allowed ──────────► refused
//! ```
//!
//! The parser keeps each frame other than DATA until the frame is complete, however long it is. It
//! also takes an empty DATA frame for the end of a body, and expects that no frame is cut off by
//! the end of its stream. This module guarantees what the parser relies on.
//!
//! This module is pure.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// The maximum size of the encoded head or trailers of a message, in bytes. It exceeds the maximum
/// size of the decoded fields, so that a client which exceeds the latter by little receives 431.
pub(crate) const MAX_HEADERS: u64 = 2 * crate::HEAD;
/// The maximum size of a frame on the control stream, in bytes. A client sends a few settings.
const MAX_CONTROL: u64 = 1024;

/// The maximum length of a frame's header: two integers of eight bytes each.
const MAX_HEADER: usize = 16;

const DATA: u64 = 0x0;
const HEADERS: u64 = 0x1;
const PUSH_PROMISE: u64 = 0x5;
/// Frames that have a meaning on the control stream, and frames of HTTP/2, which are errors. The
/// parser checks both.
const CHECKED_BY_PARSER: [u64; 8] = [0x2, 0x3, 0x4, 0x6, 0x7, 0x8, 0x9, 0xd];
/// The frame with which a stream of WebTransport begins. It has no length.
const WEBTRANSPORT: u64 = 0x41;

/// The type of the control stream.
const CONTROL: u64 = 0x0;

/// The reason why a stream is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("a frame of type {kind:#x} is {length} bytes long, which is more than is allowed")]
    TooLong { kind: u64, length: u64 },
    #[error("a frame of type {0:#x} is not supported")]
    Unsupported(u64),
    #[error("the stream ended within a frame")]
    Truncated,
}

/// The state of one stream.
#[derive(Debug)]
pub(crate) struct Frames {
    state: State,
    /// The part of a header that has arrived.
    header: [u8; MAX_HEADER],
    header_length: usize,
    /// The part of a kept frame that has arrived. The parser gets the frame in one piece: it would
    /// otherwise hold on to the datagram of each byte, and count all pieces for each further one.
    frame: BytesMut,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The type of a unidirectional stream follows.
    Type,
    /// The header of a frame follows.
    Header,
    /// This many bytes of data follow.
    Data(u64),
    /// `left` bytes of a frame follow, which the parser keeps until they are complete.
    Kept { length: u64, left: u64 },
    /// This many bytes of an unknown frame follow.
    Dropped(u64),
    /// The stream has no frames, or none that the parser reads.
    Unframed,
}

impl Frames {
    /// Follows a stream of one request.
    pub(crate) fn of_request() -> Self {
        Self::new(State::Header)
    }

    /// Follows a unidirectional stream, whose type decides whether it has frames.
    pub(crate) fn of_unidirectional() -> Self {
        Self::new(State::Type)
    }

    fn new(state: State) -> Self {
        Self { state, header: [0; MAX_HEADER], header_length: 0, frame: BytesMut::new() }
    }

    /// Returns the length of the frame that the parser keeps until it is complete, in bytes, or 0.
    pub(crate) fn kept(&self) -> u64 {
        match self.state {
            State::Kept { length, .. } => length,
            _ => 0,
        }
    }

    /// Follows more bytes of the stream, and adds those that the parser may read to `passed`.
    ///
    /// # Errors
    /// Fails if the stream is refused.
    pub(crate) fn push(
        &mut self,
        mut bytes: Bytes,
        passed: &mut VecDeque<Bytes>,
    ) -> Result<(), FrameError> {
        while !bytes.is_empty() {
            let available = bytes.len() as u64;
            match &mut self.state {
                State::Unframed => {
                    passed.push_back(bytes);
                    return Ok(());
                }
                State::Type | State::Header => self.push_header(&mut bytes, passed)?,
                State::Kept { left, .. } => {
                    let length = available.min(*left);
                    *left -= length;
                    let is_over = *left == 0;
                    let piece = bytes.split_to(length as usize);
                    if is_over && self.frame.is_empty() {
                        passed.push_back(piece);
                    } else {
                        self.frame.extend_from_slice(&piece);
                        if is_over {
                            passed.push_back(std::mem::take(&mut self.frame).freeze());
                        }
                    }
                    if is_over {
                        self.state = State::Header;
                    }
                }
                State::Data(left) => {
                    let length = available.min(*left);
                    *left -= length;
                    let is_over = *left == 0;
                    passed.push_back(bytes.split_to(length as usize));
                    if is_over {
                        self.state = State::Header;
                    }
                }
                State::Dropped(left) => {
                    let length = available.min(*left);
                    *left -= length;
                    bytes = bytes.split_off(length as usize);
                    if *left == 0 {
                        self.state = State::Header;
                    }
                }
            }
        }
        Ok(())
    }

    /// Records the end of the stream.
    ///
    /// # Errors
    /// Fails if the stream ends within a frame.
    pub(crate) fn end(&self) -> Result<(), FrameError> {
        match self.state {
            State::Header if self.header_length == 0 => Ok(()),
            State::Type | State::Unframed => Ok(()),
            _ => Err(FrameError::Truncated),
        }
    }

    /// Takes bytes of a header, and decides about the frame once the header is complete.
    fn push_header(
        &mut self,
        bytes: &mut Bytes,
        passed: &mut VecDeque<Bytes>,
    ) -> Result<(), FrameError> {
        self.header[self.header_length] = bytes[0];
        self.header_length += 1;
        *bytes = bytes.split_off(1);
        let header = &self.header[..self.header_length];
        let Some((kind, rest)) = integer(header) else { return Ok(()) };
        let state = if self.state == State::Type {
            if kind == CONTROL { State::Header } else { State::Unframed }
        } else {
            let Some((length, _)) = integer(rest) else { return Ok(()) };
            judge(kind, length)?
        };
        if !matches!(state, State::Dropped(_)) {
            passed.push_back(Bytes::copy_from_slice(header));
        }
        self.header_length = 0;
        self.state = match state {
            State::Dropped(0) | State::Kept { left: 0, .. } => State::Header,
            state => state,
        };
        Ok(())
    }
}

/// Decides what happens to a frame.
fn judge(kind: u64, length: u64) -> Result<State, FrameError> {
    let kept = |maximum| match length <= maximum {
        true => Ok(State::Kept { length, left: length }),
        false => Err(FrameError::TooLong { kind, length }),
    };
    match kind {
        DATA if length == 0 => Ok(State::Dropped(0)),
        DATA => Ok(State::Data(length)),
        HEADERS => kept(MAX_HEADERS),
        PUSH_PROMISE => kept(MAX_CONTROL),
        _ if CHECKED_BY_PARSER.contains(&kind) => kept(MAX_CONTROL),
        WEBTRANSPORT => Err(FrameError::Unsupported(kind)),
        _ => Ok(State::Dropped(length)),
    }
}

/// Reads an integer of variable length (RFC 9000, section 16). Returns it with the bytes after it,
/// or `None` if it is incomplete.
fn integer(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let first = *bytes.first()?;
    let (own, rest) = bytes.split_at_checked(1 << (first >> 6))?;
    let value =
        own[1..].iter().fold(u64::from(first & 0x3f), |value, byte| value << 8 | u64::from(*byte));
    Some((value, rest))
}

#[cfg(test)]
mod tests;
