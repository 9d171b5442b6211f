//! Finds where the messages of an HTTP/1 connection begin and end, and parses strictly: a message
//! that a proxy in front of the router may read differently is refused, so that no request can be
//! smuggled inside another (RFC 9112, sections 2.2, 6 and 11.2).
//!
//! ```text
//!          head is whole                     its body is whole
//!   Head ────────────────► Length, Chunked ────────────────────► Head
//!     └── no body: the next head follows
//! ```
//!
//! The fast path or hyper parses the messages that pass this filter. This module examines only the
//! parts that determine where a message ends: line ends, `content-length` and `transfer-encoding`.
//! A head passes completely or not at all, so that an incomplete head waits in the filter, which
//! charges the head's bytes to the client.
//!
//! This module is pure.

/// The maximum size of a head, in bytes.
pub(crate) const MAX_HEAD: usize = 64 * 1024;

/// The maximum size of the line with a chunk's size and extensions, in bytes.
const MAX_CHUNK_LINE: u32 = 1024;
/// The maximum size of all trailers together, in bytes.
const MAX_TRAILERS: u32 = 16 * 1024;

/// The maximum value of `content-length`. No actual body is longer, and a larger value does not fit
/// into a signed 64-bit integer.
const MAX_LENGTH: u64 = i64::MAX as u64;

/// Follows the messages that a client sends.
#[derive(Debug)]
pub struct Messages(State);

#[derive(Debug)]
enum State {
    Head {
        /// The number of bytes of the head that have been examined.
        scanned: usize,
    },
    /// The number of remaining bytes of the body.
    Length(u64),
    Chunked(Chunked),
}

/// The decision on the bytes that have not passed yet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// This many bytes pass. They do not extend beyond the end of a message.
    Pass(usize),
    /// No byte passes until more bytes have arrived.
    Hold,
    Refuse(Refusal),
}

/// The reason why a message is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the request does not begin like an HTTP request")]
    NotHttp,
    #[error("a line of the request's head ends without a carriage return")]
    BareLineFeed,
    #[error("a header of the request continues on the next line, which is not supported")]
    Folded,
    #[error("the request's head exceeds the limit of 65536 bytes")]
    TooLong,
    #[error("the request has more than one Content-Length")]
    ManyLengths,
    #[error("the request's Content-Length is not a number")]
    InvalidLength,
    #[error("the request's Content-Length is too large")]
    Huge,
    #[error("the request has both a Content-Length and a Transfer-Encoding")]
    TwoFramings,
    #[error("the request's Transfer-Encoding is not supported; only \"chunked\" is")]
    Coding,
    #[error("the request's chunked body is malformed")]
    Chunk,
}

impl Default for Messages {
    fn default() -> Self {
        Self(State::Head { scanned: 0 })
    }
}

/// The beginning of bytes that have not passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// A whole head of this length, in bytes.
    Head(usize),
    /// A head whose end has not arrived.
    PartOfHead,
    /// Part of a body, or a head that is refused already because of its line ends, its beginning or
    /// its length.
    Other,
}

impl Messages {
    /// Returns whether the next bytes belong to a head.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn is_in_head(&self) -> bool {
        matches!(self.0, State::Head { .. })
    }

    /// Examines the bytes without letting any pass.
    ///
    /// # Arguments
    /// * `bytes` - the same as for [`Messages::step`].
    pub fn look_ahead(&mut self, bytes: &[u8]) -> Ahead {
        let State::Head { scanned } = &mut self.0 else { return Ahead::Other };
        match head_end(bytes, scanned) {
            Ok(Some(end)) => Ahead::Head(end),
            Ok(None) => Ahead::PartOfHead,
            Err(_) => Ahead::Other,
        }
    }

    /// Advances past a whole head of a message without a body.
    pub(crate) fn skip_head(&mut self) {
        *self = Self::default();
    }

    /// Examines the bytes, and advances past those that pass.
    ///
    /// # Arguments
    /// * `bytes` - all bytes that have not passed, at least one. Held bytes are given again,
    ///   together with new ones.
    pub(crate) fn step(&mut self, bytes: &[u8]) -> Step {
        match &mut self.0 {
            State::Head { scanned } => {
                let end = match head_end(bytes, scanned) {
                    Ok(Some(end)) => end,
                    Ok(None) => return Step::Hold,
                    Err(refusal) => return Step::Refuse(refusal),
                };
                match state_after(&bytes[..end]) {
                    Ok(state) => self.0 = state,
                    Err(refusal) => return Step::Refuse(refusal),
                }
                Step::Pass(end)
            }
            State::Length(left) => {
                let passed =
                    usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                *left -= passed as u64;
                if *left == 0 {
                    *self = Self::default();
                }
                Step::Pass(passed)
            }
            State::Chunked(chunked) => match chunked.pass(bytes) {
                Ok((passed, ended)) => {
                    if ended {
                        *self = Self::default();
                    }
                    Step::Pass(passed)
                }
                Err(refusal) => Step::Refuse(refusal),
            },
        }
    }
}

/// Returns the end of the head, after its empty line, if the empty line has arrived. A leading
/// empty line belongs to the head.
fn head_end(bytes: &[u8], scanned: &mut usize) -> Result<Option<usize>, Refusal> {
    match empty_line_end(bytes, scanned)? {
        Some(end) if end <= MAX_HEAD => Ok(Some(end)),
        None if bytes.len() <= MAX_HEAD => Ok(None),
        _ => Err(Refusal::TooLong),
    }
}

fn empty_line_end(bytes: &[u8], scanned: &mut usize) -> Result<Option<usize>, Refusal> {
    if *scanned < 4 && !may_begin_head(bytes) {
        return Err(Refusal::NotHttp);
    }
    // The last bytes are examined again, because the empty line may have begun in them.
    let mut from = scanned.saturating_sub(3);
    while let Some(at) = memchr::memchr(b'\n', &bytes[from..]) {
        let line_feed = from + at;
        if line_feed == 0 || bytes[line_feed - 1] != b'\r' {
            return Err(Refusal::BareLineFeed);
        }
        let first = bytes.iter().take(line_feed).position(|byte| !matches!(byte, b'\r' | b'\n'));
        if first.is_some() && bytes[..line_feed].ends_with(b"\r\n\r") {
            return Ok(Some(line_feed + 1));
        }
        from = line_feed + 1;
    }
    *scanned = bytes.len();
    Ok(None)
}

/// Returns whether these can be the first bytes of a head: at most one empty line (RFC 9112,
/// section 2.2), then a printable character. A client that speaks another protocol is refused
/// immediately, instead of after a timeout.
fn may_begin_head(bytes: &[u8]) -> bool {
    let line = bytes.strip_prefix(b"\r\n").unwrap_or(bytes);
    match line {
        [] | [b'\r'] => true,
        [first, ..] => first.is_ascii_graphic(),
    }
}

/// Returns the state after a head.
fn state_after(head: &[u8]) -> Result<State, Refusal> {
    let (mut length, mut chunked) = (None, false);
    let mut lines =
        head.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    // Skips an optional empty line and the request line.
    let _ = lines.find(|line| !line.is_empty());
    for line in lines {
        match line.first() {
            Some(b' ' | b'\t') => return Err(Refusal::Folded),
            Some(b'c' | b'C') => {
                if let Some(value) = value(line, b"content-length") {
                    if length.is_some() {
                        return Err(Refusal::ManyLengths);
                    }
                    length = Some(number(value)?);
                }
            }
            Some(b't' | b'T') => {
                if let Some(value) = value(line, b"transfer-encoding") {
                    if chunked || !value.eq_ignore_ascii_case(b"chunked") {
                        return Err(Refusal::Coding);
                    }
                    chunked = true;
                }
            }
            _ => {}
        }
    }
    match (length, chunked) {
        (Some(_), true) => Err(Refusal::TwoFramings),
        (None, true) => Ok(State::Chunked(Chunked::default())),
        (None | Some(0), false) => Ok(State::Head { scanned: 0 }),
        (Some(length), false) => Ok(State::Length(length)),
    }
}

/// Returns the value of a header line, if the header has this name.
fn value<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (found, rest) = line.split_at_checked(name.len())?;
    // Whitespace before the colon is ignored here, because the parsers behind this filter refuse
    // it.
    let value = rest.trim_ascii_start().strip_prefix(b":")?;
    found.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
}

fn number(digits: &[u8]) -> Result<u64, Refusal> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Refusal::InvalidLength);
    }
    let number = digits.iter().try_fold(0_u64, |number, digit| {
        number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    });
    number.filter(|number| *number <= MAX_LENGTH).ok_or(Refusal::Huge)
}

/// The position in a chunked body (RFC 9112, section 7.1).
#[derive(Debug, Default)]
struct Chunked {
    at: At,
    /// The chunk's size as far as it has been read, and then the number of its remaining bytes.
    size: u64,
    /// The number of bytes read of the line with the size, or of all trailers.
    line: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    /// The position before the first digit of a size.
    #[default]
    Begin,
    Size,
    Extension,
    SizeEnd,
    Data,
    DataEnd,
    DataEndLine,
    /// The beginning of a trailer line.
    TrailerBegin,
    Trailer,
    TrailerEnd,
    LastEnd,
}

impl Chunked {
    /// Returns how many of the bytes belong to the body, and whether the body ends with them.
    fn pass(&mut self, bytes: &[u8]) -> Result<(usize, bool), Refusal> {
        let mut passed = 0;
        while let Some(&byte) = bytes.get(passed) {
            if self.at == At::Data {
                let left = bytes.len() - passed;
                let data = usize::try_from(self.size).map_or(left, |size| size.min(left));
                self.size -= data as u64;
                passed += data;
                if self.size == 0 {
                    self.at = At::DataEnd;
                }
                continue;
            }
            passed += 1;
            if self.at == At::LastEnd && byte == b'\n' {
                return Ok((passed, true));
            }
            self.at = self.next(byte).ok_or(Refusal::Chunk)?;
        }
        Ok((passed, false))
    }

    fn next(&mut self, byte: u8) -> Option<At> {
        self.line += 1;
        let is_text = byte == b'\t' || byte >= b' ' && byte != 0x7f;
        Some(match (self.at, byte) {
            (At::Begin | At::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = char::from(byte).to_digit(16)?;
                self.size = self.size.checked_mul(16)?.checked_add(digit.into())?;
                // 16 digits suffice for 64 bits.
                if self.size > MAX_LENGTH || self.line > 16 {
                    return None;
                }
                At::Size
            }
            (At::Size, b';') => At::Extension,
            (At::Extension, _) if is_text && self.line <= MAX_CHUNK_LINE => At::Extension,
            (At::Size | At::Extension, b'\r') => At::SizeEnd,
            (At::SizeEnd, b'\n') => {
                self.line = 0;
                if self.size > 0 { At::Data } else { At::TrailerBegin }
            }
            (At::DataEnd, b'\r') => At::DataEndLine,
            (At::DataEndLine, b'\n') => {
                self.line = 0;
                At::Begin
            }
            (At::TrailerBegin, b'\r') => At::LastEnd,
            (At::TrailerBegin, b' ' | b'\t') => return None,
            (At::TrailerBegin | At::Trailer, _) if is_text && self.line <= MAX_TRAILERS => {
                At::Trailer
            }
            (At::Trailer, b'\r') => At::TrailerEnd,
            (At::TrailerEnd, b'\n') => At::TrailerBegin,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests;
