//! Decides from the first bytes of a connection which implementation its peer needs.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

use crate::frame::{HEADER, Head, Kind, PREFACE};
use crate::settings::Settings;

/// The maximum length of a hop peer's settings, in bytes.
const MAX_SETTINGS: usize = 512;

/// A peer whose first bytes have been read.
pub enum Peer<S> {
    /// The peer keeps to the hop protocol.
    Hop(Opening<S>),
    /// Any other peer. The stream first returns the bytes that have already been read.
    Other(Replay<S>),
}

/// A connection whose preface has been read.
pub struct Opening<S> {
    pub(crate) stream: S,
    pub(crate) inbox: BytesMut,
}

/// A stream whose first bytes have been read, and which returns them once more.
pub struct Replay<S> {
    first: Bytes,
    stream: S,
}

/// Reads until the kind of the peer is known.
///
/// # Errors
/// Fails if the stream breaks.
pub async fn sniff<S: AsyncRead + Unpin>(mut stream: S) -> io::Result<Peer<S>> {
    let mut inbox = BytesMut::with_capacity(4096);
    loop {
        match is_hop(&inbox) {
            Some(true) => {
                inbox.advance(PREFACE.len());
                return Ok(Peer::Hop(Opening { stream, inbox }));
            }
            None if stream.read_buf(&mut inbox).await? > 0 => {}
            Some(false) | None => {
                return Ok(Peer::Other(Replay { first: inbox.freeze(), stream }));
            }
        }
    }
}

/// Returns whether these are the first bytes of a hop peer, or `None` if there are too few.
fn is_hop(bytes: &[u8]) -> Option<bool> {
    let preface = PREFACE.len().min(bytes.len());
    if bytes[..preface] != PREFACE[..preface] {
        return Some(false);
    }
    let frame = bytes.get(PREFACE.len()..)?;
    let head = Head::parse(frame.first_chunk()?);
    if head.kind != Kind::Settings || head.len > MAX_SETTINGS {
        return Some(false);
    }
    let payload = frame.get(HEADER..HEADER + head.len)?;
    Some(Settings::parse(payload).is_ok_and(|settings| settings.is_hop))
}

impl<S: AsyncRead + Unpin> AsyncRead for Replay<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.first.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        let len = self.first.len().min(buf.remaining());
        buf.put_slice(&self.first.split_to(len));
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Replay<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::put_settings;
    use crate::settings::ours;

    fn first_bytes(settings: &[(u16, u32)]) -> BytesMut {
        let mut bytes = BytesMut::from(PREFACE);
        put_settings(&mut bytes, settings);
        bytes
    }

    #[test]
    fn a_hop_peer_is_recognized_once_its_settings_have_arrived() {
        let bytes = first_bytes(&ours(1, 1));
        for len in 0..bytes.len() {
            assert_eq!(is_hop(&bytes[..len]), None, "{len} bytes");
        }
        assert_eq!(is_hop(&bytes), Some(true));
    }

    #[test]
    fn other_peers_are_recognized_as_early_as_possible() {
        assert_eq!(is_hop(b"GET"), Some(false));
        assert_eq!(is_hop(&first_bytes(&[(3, 100)])), Some(false));
    }

    #[tokio::test]
    async fn another_peer_is_read_from_its_first_byte() {
        let stream: &[u8] = b"GET / HTTP/1.1\r\n\r\n";
        let Peer::Other(mut replay) = sniff(stream).await.unwrap() else {
            panic!("the peer was recognized as a hop peer")
        };
        let mut read = Vec::new();
        replay.read_to_end(&mut read).await.unwrap();
        assert_eq!(read, stream);
    }
}
