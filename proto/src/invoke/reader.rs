//! Reads the messages of a stream, regardless of the boundaries of its DATA frames.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::Body;
use prost::Message;

use crate::frame::{Decoder, FrameError};

/// A reader of the messages of a stream. The caller decides what may follow the last message.
pub struct Reader<B> {
    decoder: Decoder,
    stream: B,
}

/// The next element of a stream.
#[derive(Debug)]
pub enum Next<M> {
    Message(M),
    Trailers(HeaderMap),
    /// The end of the stream.
    End,
}

/// The reason why there is no next message.
#[derive(Debug, thiserror::Error)]
pub enum ReadError<E> {
    /// The bytes are not messages.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The stream broke.
    #[error("the stream broke")]
    Stream(#[source] E),
}

impl<B: Body<Data = Bytes> + Unpin> Reader<B> {
    /// Creates the reader of a stream.
    pub fn new(stream: B) -> Self {
        Self { decoder: Decoder::default(), stream }
    }

    /// Returns the next element. This method must not be called again after the end or an error.
    ///
    /// # Errors
    /// Fails if the stream breaks, or if its bytes are not messages.
    pub fn poll_next<M: Message + Default>(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Next<M>, ReadError<B::Error>>> {
        loop {
            if let Some(message) = self.decoder.next()? {
                return Poll::Ready(Ok(Next::Message(message)));
            }
            let Some(frame) = ready!(Pin::new(&mut self.stream).poll_frame(cx)) else {
                return Poll::Ready(Ok(Next::End));
            };
            match frame.map_err(ReadError::Stream)?.into_data() {
                Ok(data) => self.decoder.push(data),
                Err(frame) => {
                    return Poll::Ready(Ok(Next::Trailers(
                        frame.into_trailers().unwrap_or_default(),
                    )));
                }
            }
        }
    }

    /// Checks that the trailers or the end came between two messages.
    ///
    /// # Errors
    /// Fails with [`FrameError::Truncated`] if the trailers or the end came within a message.
    pub fn finish(&self) -> Result<(), FrameError> {
        self.decoder.finish()
    }

    /// Returns whether the end of the stream has arrived already.
    pub fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::task::Waker;

    use http::HeaderValue;
    use http_body::Frame;

    use super::*;
    use crate::catalog::Route;
    use crate::frame::encode;

    /// A stream that has arrived completely.
    struct Buffered(VecDeque<Result<Frame<Bytes>, &'static str>>);

    impl Body for Buffered {
        type Data = Bytes;
        type Error = &'static str;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
            Poll::Ready(self.0.pop_front())
        }

        fn is_end_stream(&self) -> bool {
            self.0.is_empty()
        }
    }

    fn next(reader: &mut Reader<Buffered>) -> Result<Next<Route>, ReadError<&'static str>> {
        let Poll::Ready(next) = reader.poll_next(&mut Context::from_waker(Waker::noop())) else {
            unreachable!("a buffered stream is not ready");
        };
        next
    }

    fn reader(
        frames: impl IntoIterator<Item = Result<Frame<Bytes>, &'static str>>,
    ) -> Reader<Buffered> {
        Reader::new(Buffered(frames.into_iter().collect()))
    }

    #[test]
    fn messages_come_in_order_and_then_the_trailers() {
        let route = |path: &str| Route { host: "a.example".into(), path: path.into() };
        let stream = Bytes::from([encode(&route("/")), encode(&route("/api"))].concat());
        for cut in 0..=stream.len() {
            let trailers =
                HeaderMap::from_iter([(http::header::ETAG, HeaderValue::from_static("x"))]);
            let data = [stream.slice(..cut), stream.slice(cut..)].map(|data| Ok(Frame::data(data)));
            let mut reader =
                reader(data.into_iter().chain([Ok(Frame::trailers(trailers.clone()))]));
            for path in ["/", "/api"] {
                assert!(
                    matches!(next(&mut reader), Ok(Next::Message(message)) if message == route(path)),
                    "cut at {cut}"
                );
            }
            assert!(matches!(next(&mut reader), Ok(Next::Trailers(found)) if found == trailers));
            reader.finish().unwrap();
            assert!(reader.is_end_stream());
            assert!(matches!(next(&mut reader), Ok(Next::End)));
        }
    }

    #[test]
    fn an_end_within_a_message_is_an_error() {
        let mut reader = reader([Ok(Frame::data(Bytes::from_static(&[0, 0, 0])))]);
        assert!(matches!(next(&mut reader), Ok(Next::End)));
        assert!(matches!(reader.finish(), Err(FrameError::Truncated)));
    }

    #[test]
    fn a_broken_stream_is_an_error() {
        assert!(matches!(next(&mut reader([Err("reset")])), Err(ReadError::Stream("reset"))));
        let compressed = Frame::data(Bytes::from_static(&[1, 0, 0, 0, 0]));
        assert!(matches!(
            next(&mut reader([Ok(compressed)])),
            Err(ReadError::Frame(FrameError::Compressed))
        ));
    }
}
