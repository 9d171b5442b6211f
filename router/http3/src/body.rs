//! The body of a request: reads it as it arrives, and checks its length.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes, BytesMut};
use http::{HeaderMap, header};
use http_body::{Frame, SizeHint};

use crate::connection::ReceivingStream;

/// The amount of arrived data, in bytes, that is passed on before more is read.
const PIECE: usize = 16 * 1024;

/// The body of a request, as it arrives. Dropping the body tells the client to send no more of it.
pub struct Body {
    /// `None` once the body has ended.
    stream: Option<ReceivingStream>,
    /// The length that the head states, less the length that has arrived; `None` if the head states
    /// no length.
    left: Option<u64>,
    /// The frame that has arrived with the head.
    first: Option<Frame<Bytes>>,
    has_data_ended: bool,
}

/// The reason why a body cannot be read to its end.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    #[error("the client has canceled the request, or broken the protocol: {0}")]
    Stream(#[from] h3::error::StreamError),
    #[error("the body does not have the length that Content-Length states")]
    Length,
}

/// The error for a Content-Length that is not exactly one number.
#[derive(Debug)]
pub(crate) struct InvalidLength;

/// Returns the length that a head states for the body, if it states one.
pub(crate) fn stated_length(headers: &HeaderMap) -> Result<Option<u64>, InvalidLength> {
    let mut values = headers.get_all(header::CONTENT_LENGTH).into_iter();
    let Some(value) = values.next() else { return Ok(None) };
    let digits = value.as_bytes();
    if values.next().is_some() || digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(InvalidLength);
    }
    let length = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    length.map(Some).ok_or(InvalidLength)
}

impl Body {
    pub(crate) fn new(stream: ReceivingStream, length: Option<u64>) -> Self {
        Self { stream: Some(stream), left: length, first: None, has_data_ended: false }
    }

    /// Reads what has arrived with the head, which is usually the end of the stream if the request
    /// has no body.
    pub(crate) fn begin(&mut self, cx: &mut Context<'_>) -> Result<(), BodyError> {
        if let Poll::Ready(Some(first)) = self.poll_more(cx) {
            self.first = Some(first?);
        }
        Ok(())
    }

    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Some(stream) = &mut self.stream else { return Poll::Ready(None) };
        if !self.has_data_ended {
            let mut piece = Pieces::default();
            while piece.len() < PIECE {
                match stream.poll_recv_data(cx) {
                    Poll::Ready(Ok(Some(mut data))) => {
                        piece.push(data.copy_to_bytes(data.remaining()));
                    }
                    Poll::Ready(Ok(None)) => {
                        self.has_data_ended = true;
                        break;
                    }
                    Poll::Ready(Err(error)) => return self.fail(error.into()),
                    Poll::Pending if piece.len() == 0 => return Poll::Pending,
                    Poll::Pending => break,
                }
            }
            if piece.len() > 0 {
                if let Some(left) = &mut self.left {
                    match left.checked_sub(piece.len() as u64) {
                        Some(less) => *left = less,
                        None => return self.fail(BodyError::Length),
                    }
                }
                return Poll::Ready(Some(Ok(Frame::data(piece.into_bytes()))));
            }
        }
        if self.left.is_some_and(|left| left > 0) {
            return self.fail(BodyError::Length);
        }
        match ready!(stream.poll_recv_trailers(cx)) {
            Ok(trailers) => {
                self.stream = None;
                Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))))
            }
            Err(error) => self.fail(error.into()),
        }
    }

    fn fail(&mut self, error: BodyError) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.stream = None;
        Poll::Ready(Some(Err(error)))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.first.take() {
            Some(first) => Poll::Ready(Some(Ok(first))),
            None => self.poll_more(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_none() && self.first.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let first = self.first.as_ref().and_then(Frame::data_ref).map_or(0, Bytes::len) as u64;
        match self.left {
            Some(left) => SizeHint::with_exact(left + first),
            None => SizeHint::default(),
        }
    }
}

/// Data that is joined if it consists of several pieces.
#[derive(Default)]
struct Pieces {
    first: Bytes,
    joined: BytesMut,
}

impl Pieces {
    fn push(&mut self, piece: Bytes) {
        if self.first.is_empty() && self.joined.is_empty() {
            self.first = piece;
            return;
        }
        if self.joined.is_empty() {
            self.joined.reserve(PIECE + piece.len());
            self.joined.extend_from_slice(&std::mem::take(&mut self.first));
        }
        self.joined.extend_from_slice(&piece);
    }

    fn len(&self) -> usize {
        self.first.len() + self.joined.len()
    }

    fn into_bytes(self) -> Bytes {
        if self.joined.is_empty() { self.first } else { self.joined.freeze() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn length(values: &[&'static str]) -> Result<Option<u64>, InvalidLength> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::CONTENT_LENGTH, value.parse().unwrap());
        }
        stated_length(&headers)
    }

    #[test]
    fn a_content_length_is_one_number() {
        assert!(matches!(length(&[]), Ok(None)));
        assert!(matches!(length(&["17"]), Ok(Some(17))));
        for invalid in [&[""][..], &["+1"], &["1,1"], &["1", "1"], &["99999999999999999999"]] {
            assert!(length(invalid).is_err(), "{invalid:?}");
        }
    }

    #[test]
    fn pieces_are_joined_in_order() {
        let mut pieces = Pieces::default();
        for piece in ["a", "bc", "", "d"] {
            pieces.push(Bytes::from_static(piece.as_bytes()));
        }
        assert_eq!(pieces.len(), 4);
        assert_eq!(pieces.into_bytes(), "abcd");
    }
}
