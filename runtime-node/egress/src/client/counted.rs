//! A connection whose bytes belong to the Worker, because it is not HTTP or no longer is.

use std::any::Any;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use prometheus::IntCounter;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::super::concurrency::Open;
use super::super::connection::GaugeGuard;
use crate::metrics::EgressMetrics;

/// A byte stream that counts its bytes in the shard's metrics. Until it is dropped, it counts as an
/// open connection and an open response, and holds its memory.
pub struct CountedStream<S> {
    pub(super) stream: S,
    pub(super) sent: IntCounter,
    pub(super) received: IntCounter,
    pub(super) _open: Open,
    pub(super) _memory: Box<dyn Any>,
    pub(super) _counted: GaugeGuard,
}

impl<S> CountedStream<S> {
    pub(super) fn new(
        stream: S,
        metrics: &EgressMetrics,
        open: Open,
        memory: Box<dyn Any>,
    ) -> Self {
        Self {
            stream,
            sent: metrics.sent.clone(),
            received: metrics.received.clone(),
            _open: open,
            _memory: memory,
            _counted: GaugeGuard::new(&metrics.open),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CountedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.received.inc_by((buffer.filled().len() - before) as u64);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CountedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if let Poll::Ready(Ok(bytes)) = written {
            self.sent.inc_by(bytes as u64);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
