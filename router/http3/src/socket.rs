//! The socket of one thread, as its endpoint sees it: the datagrams of the thread's own
//! connections, from the kernel and from other threads.
//!
//! The kernel may deliver many datagrams of a client as one message. Each datagram is copied out of
//! the message here, because the endpoint would otherwise keep all of them in memory for as long as
//! it keeps a byte of one of them.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};
use tokio::sync::mpsc;

use crate::handover::{Datagram, Destination, Handover};
use crate::metrics::ThreadMetrics;

/// The maximum number of messages that are received at once, each with up to [`MESSAGE`] bytes.
const MESSAGES: usize = 4;
/// The maximum size of a message from the kernel, in bytes.
const MESSAGE: usize = 64 * 1024;
/// The maximum number of successive reads of the socket that yield only datagrams of other threads,
/// before the other tasks of this thread run.
const ROUNDS: usize = 8;

/// The socket of one thread, which receives only the datagrams of the thread's own connections.
pub(crate) struct ThreadSocket {
    socket: Arc<dyn AsyncUdpSocket>,
    handover: Handover,
    metrics: ThreadMetrics,
    /// Only the thread's endpoint receives, so the lock is never contended.
    incoming: Mutex<Incoming>,
}

struct Incoming {
    given_rx: mpsc::Receiver<Datagram>,
    buffer: Box<[u8]>,
    /// Metadata of the messages in the buffer, of which the first `received` are valid.
    messages: [RecvMeta; MESSAGES],
    received: usize,
    /// The current message, and the position of the next datagram in it.
    message: usize,
    position: usize,
}

impl ThreadSocket {
    pub(crate) fn new(
        socket: Arc<dyn AsyncUdpSocket>,
        handover: Handover,
        given_rx: mpsc::Receiver<Datagram>,
        metrics: ThreadMetrics,
    ) -> Self {
        let incoming = Incoming {
            given_rx,
            buffer: vec![0; MESSAGES * MESSAGE].into(),
            messages: [RecvMeta::default(); MESSAGES],
            received: 0,
            message: 0,
            position: 0,
        };
        Self { socket, handover, metrics, incoming: Mutex::new(incoming) }
    }
}

impl Incoming {
    /// Returns the next datagram in the buffer.
    fn next(&mut self) -> Option<(&[u8], RecvMeta)> {
        while self.message < self.received {
            let meta = self.messages[self.message];
            if self.position >= meta.len.min(MESSAGE) {
                (self.message, self.position) = (self.message + 1, 0);
                continue;
            }
            let start = self.message * MESSAGE + self.position;
            let length = meta.stride.max(1).min(meta.len - self.position);
            self.position += length;
            return Some((&self.buffer[start..start + length], meta));
        }
        None
    }

    /// Fills the buffer, whose datagrams have been passed on.
    fn poll_fill(
        &mut self,
        socket: &dyn AsyncUdpSocket,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let mut pieces = self.buffer.chunks_mut(MESSAGE).map(IoSliceMut::new);
        let mut pieces: [IoSliceMut<'_>; MESSAGES] =
            std::array::from_fn(|_| pieces.next().expect("the buffer is too short"));
        socket.poll_recv(cx, &mut pieces, &mut self.messages).map_ok(|received| {
            (self.received, self.message, self.position) = (received, 0, 0);
        })
    }
}

/// The space of the endpoint for datagrams.
struct Space<'a, 'b> {
    pieces: &'a mut [IoSliceMut<'b>],
    metas: &'a mut [RecvMeta],
    filled: usize,
}

impl Space<'_, '_> {
    fn capacity(&self) -> usize {
        self.pieces.len().min(self.metas.len())
    }

    /// Adds a datagram. A datagram that is larger than those that the endpoint accepts is dropped.
    fn add(&mut self, bytes: &[u8], meta: RecvMeta) {
        if let Some(space) = self.pieces[self.filled].get_mut(..bytes.len()) {
            space.copy_from_slice(bytes);
            self.metas[self.filled] = RecvMeta { len: bytes.len(), stride: bytes.len(), ..meta };
            self.filled += 1;
        }
    }
}

impl AsyncUdpSocket for ThreadSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        self.socket.clone().create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.socket.try_send(transmit)
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        pieces: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let incoming = &mut *self.incoming.lock().unwrap_or_else(PoisonError::into_inner);
        let mut space = Space { pieces, metas, filled: 0 };
        // Datagrams of other threads may take half of the space. The other half is for datagrams
        // from the kernel.
        while space.filled < space.capacity() / 2
            && let Poll::Ready(Some(given)) = incoming.given_rx.poll_recv(cx)
        {
            let Datagram { bytes, source, destination, ecn } = given;
            let meta = RecvMeta { addr: source, dst_ip: destination, ecn, ..RecvMeta::default() };
            space.add(&bytes, meta);
        }
        for _ in 0..ROUNDS {
            while space.filled < space.capacity()
                && let Some((bytes, meta)) = incoming.next()
            {
                match self.handover.route(bytes, &meta) {
                    Destination::Own => space.add(bytes, meta),
                    Destination::Other => self.metrics.handed_over.inc(),
                    Destination::Lost => self.metrics.lost.inc(),
                }
            }
            if space.filled > 0 {
                return Poll::Ready(Ok(space.filled));
            }
            match incoming.poll_fill(&*self.socket, cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.socket.max_transmit_segments()
    }

    fn may_fragment(&self) -> bool {
        self.socket.may_fragment()
    }
}

impl fmt::Debug for ThreadSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadSocket").field("socket", &self.socket).finish_non_exhaustive()
    }
}
