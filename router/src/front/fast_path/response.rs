//! Serializes responses to plain requests: the head, and the framing of the body (RFC 9112,
//! sections 4 to 7).
//!
//! ```text
//!  length known ─────► content-length            the bytes
//!  length unknown ───► transfer-encoding         size, piece, … 0
//!  HEAD ─────────────► perhaps content-length    nothing
//!  204, 304 ─────────► neither                   nothing
//! ```
//!
//! This module is pure.

use std::io::Write as _;

use bytes::Bytes;
use http::response::Parts;
use http::{HeaderName, StatusCode, header};

use crate::date::Date;
use crate::front::fast_path::outbox::Outbox;
use crate::front::response::has_body;

/// The framing of a body, which tells the client where the body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// The number of bytes that are left.
    Length(u64),
    Chunked,
}

/// The properties of a head that determine what follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) framing: Framing,
    /// Whether the connection ends with the response.
    pub(super) closes: bool,
}

/// The reason why a response cannot be sent completely. On this error the connection ends, so that
/// the client does not take the response for a complete one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FramingError {
    #[error("the response's Content-Length is not one number")]
    InvalidLength,
    #[error("the response is shorter than its Content-Length, by {0} bytes")]
    TooShort(u64),
}

/// Writes the head of a response.
///
/// # Arguments
/// * `is_head` - whether the request is a HEAD.
/// * `length` - the length of the body, in bytes, if it is known.
///
/// # Errors
/// Fails if the length is unknown and the response states an invalid one.
pub(super) fn write_head(
    text: &mut Vec<u8>,
    response: &Parts,
    is_head: bool,
    length: Option<u64>,
    date: &Date,
) -> Result<Head, FramingError> {
    write_status(text, response.status);
    let has_body = has_body(response.status, is_head);
    let (mut stated, mut closes, mut has_date) = (None, false, false);
    for (name, value) in &response.headers {
        match *name {
            // The response to HEAD states the length of the response to GET.
            header::CONTENT_LENGTH if is_head => {}
            header::CONTENT_LENGTH => {
                if has_body && length.is_none() {
                    let number = number(value.as_bytes()).ok_or(FramingError::InvalidLength)?;
                    if stated.replace(number).is_some_and(|stated| stated != number) {
                        return Err(FramingError::InvalidLength);
                    }
                }
                continue;
            }
            // The framing is the router's own.
            header::TRANSFER_ENCODING => continue,
            header::TRAILER if !has_body => continue,
            header::CONNECTION => closes |= lists_close(value.as_bytes()),
            header::DATE => has_date = true,
            _ => {}
        }
        write_header(text, name, value.as_bytes());
    }
    let framing = match length.or(stated) {
        _ if !has_body => Framing::Length(0),
        Some(length) => {
            write!(text, "content-length: {length}\r\n").expect("writing to a `Vec` cannot fail");
            Framing::Length(length)
        }
        None => {
            text.extend_from_slice(b"transfer-encoding: chunked\r\n");
            Framing::Chunked
        }
    };
    if !has_date {
        write_header(text, &header::DATE, date);
    }
    text.extend_from_slice(b"\r\n");
    Ok(Head { framing, closes })
}

impl Framing {
    /// Returns whether nothing more may be sent.
    pub(super) fn is_complete(self) -> bool {
        self == Self::Length(0)
    }

    /// Adds a piece of the body. The part of a body that exceeds its length is dropped.
    pub(super) fn add(&mut self, mut piece: Bytes, outbox: &mut Outbox) {
        match self {
            Self::Length(left) => {
                piece.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= piece.len() as u64;
                outbox.push(piece);
            }
            // A chunk of length zero would end the body.
            Self::Chunked if piece.is_empty() => {}
            Self::Chunked => {
                let size = piece.len();
                write!(outbox.text(), "{size:X}\r\n").expect("writing to a `Vec` cannot fail");
                outbox.push(piece);
                outbox.text().extend_from_slice(b"\r\n");
            }
        }
    }

    /// Adds the end of the body.
    ///
    /// # Errors
    /// Fails if the body is shorter than its length.
    pub(super) fn end(self, outbox: &mut Outbox) -> Result<(), FramingError> {
        match self {
            Self::Length(0) => {}
            Self::Length(left) => return Err(FramingError::TooShort(left)),
            Self::Chunked => outbox.text().extend_from_slice(b"0\r\n\r\n"),
        }
        Ok(())
    }
}

fn write_status(text: &mut Vec<u8>, status: StatusCode) {
    if status == StatusCode::OK {
        return text.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
    }
    text.extend_from_slice(b"HTTP/1.1 ");
    text.extend_from_slice(status.as_str().as_bytes());
    text.push(b' ');
    text.extend_from_slice(status.canonical_reason().unwrap_or("<none>").as_bytes());
    text.extend_from_slice(b"\r\n");
}

fn write_header(text: &mut Vec<u8>, name: &HeaderName, value: &[u8]) {
    for part in [name.as_str().as_bytes(), b": ", value, b"\r\n"] {
        text.extend_from_slice(part);
    }
}

fn lists_close(value: &[u8]) -> bool {
    value
        .split(|byte| *byte == b',')
        .any(|member| member.trim_ascii().eq_ignore_ascii_case(b"close"))
}

fn number(digits: &[u8]) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| std::str::from_utf8(digits).ok()?.parse().ok())?
}

#[cfg(test)]
mod tests;
