//! Frames (RFC 9113, sections 4 and 6). This module is pure.

use bytes::{Buf, BufMut, BytesMut};

use crate::error::{Code, ConnectionError};

/// The first bytes that a client sends (section 3.4).
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The length of a frame's header, in bytes.
pub(crate) const HEADER: usize = 9;

/// The maximum length of a frame's payload, in bytes: the initial value of SETTINGS_MAX_FRAME_SIZE,
/// which neither peer raises.
pub(crate) const MAX_PAYLOAD: usize = 16_384;

/// The maximum of a window, in bytes, and of a stream id.
pub(crate) const MAX_31_BITS: u32 = (1 << 31) - 1;

/// The initial window of a connection, and of streams unless the peer sets another one, in bytes.
pub(crate) const INITIAL_WINDOW: u32 = 65_535;

// Flags of frames (section 6). The kind of a frame determines which flags it can have.
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 0x20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Data,
    Headers,
    Priority,
    Reset,
    Settings,
    PushPromise,
    Ping,
    GoAway,
    WindowUpdate,
    Continuation,
    /// A kind that is not defined. Such frames are ignored (section 4.1).
    Unknown,
}

impl Kind {
    const ALL: [Self; 10] = [
        Self::Data,
        Self::Headers,
        Self::Priority,
        Self::Reset,
        Self::Settings,
        Self::PushPromise,
        Self::Ping,
        Self::GoAway,
        Self::WindowUpdate,
        Self::Continuation,
    ];

    fn from_byte(byte: u8) -> Self {
        Self::ALL.get(usize::from(byte)).copied().unwrap_or(Self::Unknown)
    }
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) len: usize,
    pub(crate) kind: Kind,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
}

impl Head {
    pub(crate) fn parse(bytes: &[u8; HEADER]) -> Self {
        let [a, b, c, kind, flags, stream @ ..] = *bytes;
        Self {
            len: u32::from_be_bytes([0, a, b, c]) as usize,
            kind: Kind::from_byte(kind),
            flags,
            stream: u32::from_be_bytes(stream) & MAX_31_BITS,
        }
    }

    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Checks that a frame has neither padding nor a priority, which no hop peer sends, and that
    /// a HEADERS frame contains a whole header block.
    pub(crate) fn check_plain(&self) -> Result<(), ConnectionError> {
        let forbidden = if self.kind == Kind::Headers { PADDED | PRIORITY } else { PADDED };
        if self.has(forbidden) {
            return Err(ConnectionError::protocol("padding or a priority"));
        }
        if self.kind == Kind::Headers && !self.has(END_HEADERS) {
            return Err(ConnectionError::protocol("a header block in several frames"));
        }
        Ok(())
    }

    /// Checks the length of a payload whose length is fixed.
    pub(crate) fn check_len(&self, len: usize) -> Result<(), ConnectionError> {
        if self.len == len {
            Ok(())
        } else {
            Err(ConnectionError::size("a frame of the wrong length"))
        }
    }
}

fn put_head(out: &mut BytesMut, len: usize, kind: Kind, flags: u8, stream: u32) {
    debug_assert!(len <= MAX_PAYLOAD, "a frame's payload has {len} bytes");
    out.put_u32((len as u32) << 8 | kind as u32);
    out.put_u8(flags);
    out.put_u32(stream);
}

/// Writes the header of a DATA frame, whose payload follows.
pub(crate) fn put_data(out: &mut BytesMut, stream: u32, len: usize, end: bool) {
    put_head(out, len, Kind::Data, if end { END_STREAM } else { 0 }, stream);
}

/// Writes a HEADERS frame.
pub(crate) fn put_headers(out: &mut BytesMut, stream: u32, block: &[u8], end: bool) {
    let end = if end { END_STREAM } else { 0 };
    put_head(out, block.len(), Kind::Headers, END_HEADERS | end, stream);
    out.put_slice(block);
}

pub(crate) fn put_reset(out: &mut BytesMut, stream: u32, code: Code) {
    put_head(out, 4, Kind::Reset, 0, stream);
    out.put_u32(code.0);
}

pub(crate) fn put_window_update(out: &mut BytesMut, stream: u32, by: u32) {
    put_head(out, 4, Kind::WindowUpdate, 0, stream);
    out.put_u32(by);
}

pub(crate) fn put_ping(out: &mut BytesMut, payload: [u8; 8], ack: bool) {
    put_head(out, 8, Kind::Ping, if ack { ACK } else { 0 }, 0);
    out.put_slice(&payload);
}

pub(crate) fn put_settings(out: &mut BytesMut, settings: &[(u16, u32)]) {
    put_head(out, 6 * settings.len(), Kind::Settings, 0, 0);
    for (id, value) in settings {
        out.put_u16(*id);
        out.put_u32(*value);
    }
}

pub(crate) fn put_settings_ack(out: &mut BytesMut) {
    put_head(out, 0, Kind::Settings, ACK, 0);
}

pub(crate) fn put_go_away(out: &mut BytesMut, last: u32, code: Code) {
    put_head(out, 8, Kind::GoAway, 0, 0);
    out.put_u32(last);
    out.put_u32(code.0);
}

/// Reads the first four bytes as a number. The first bit is reserved, except in error codes.
pub(crate) fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// Moves `len` bytes of a payload from `from` to the outbox.
pub(crate) fn put_payload(outbox: &mut BytesMut, from: &mut impl Buf, mut len: usize) {
    outbox.reserve(len);
    while len > 0 {
        let chunk = from.chunk();
        let part = chunk.len().min(len);
        outbox.extend_from_slice(&chunk[..part]);
        from.advance(part);
        len -= part;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_head_is_parsed() {
        for (len, end) in [(0, false), (MAX_PAYLOAD, true), (300, false)] {
            let mut out = BytesMut::new();
            put_data(&mut out, MAX_31_BITS, len, end);
            let head = Head::parse(out[..].try_into().unwrap());
            assert_eq!(
                (head.len, head.kind, head.stream, head.has(END_STREAM)),
                (len, Kind::Data, MAX_31_BITS, end)
            );
        }
    }

    #[test]
    fn an_unknown_kind_is_recognized() {
        assert_eq!(Head::parse(&[0, 0, 0, 10, 0, 0, 0, 0, 0]).kind, Kind::Unknown);
        assert_eq!(Head::parse(&[0, 0, 0, 9, 0, 0, 0, 0, 0]).kind, Kind::Continuation);
    }
}
