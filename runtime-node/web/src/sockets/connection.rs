//! The connections of an invocation. A read and a write of a connection may be in progress at once.
//!
//! ```text
//!  opening ──► open ──┬─ end ────────────────────────────► closed
//!     └─ end ─────────┴─ take: the socket starts TLS ────────▲
//! ```
//!
//! A read or a write that is in progress when the connection ends fails immediately. When an
//! invocation ends, so do its connections, even if another invocation of the isolate is using them.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use rustc_hash::FxHashMap;
use tenon_egress::{EgressError, Socket};
use tenon_engine::Attachment;
use tenon_engine::heap::Charge;
use tenon_engine::thrown::Thrown;
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio_util::sync::CancellationToken;

/// The memory of a connection that is not open yet, in bytes. The memory of an open connection is
/// charged by `tenon_egress`.
pub(crate) const CONNECTION_OVERHEAD: usize = 512;

/// The maximum number of bytes that one call to the kernel reads: the length of a TLS record.
const READ_SIZE: usize = 16 * 1024;

/// The number of bytes that are written before other tasks of the thread may run.
const WRITE_SIZE: usize = 256 * 1024;

/// The reason why bytes cannot be read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConnectionError {
    #[error("The socket is closed, or the invocation that opened it has ended")]
    Closed,
    #[error("The connection was lost: {0}")]
    Lost(String),
}

impl From<ConnectionError> for Thrown {
    fn from(error: ConnectionError) -> Self {
        match error {
            ConnectionError::Closed => Self::type_error(error.to_string()),
            ConnectionError::Lost(_) => Self::dom("NetworkError", error.to_string()),
        }
    }
}

impl From<io::Error> for ConnectionError {
    fn from(error: io::Error) -> Self {
        Self::Lost(error.to_string())
    }
}

/// The number of a connection within its invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ConnectionId(u32);

impl ConnectionId {
    pub(crate) fn to_number(self) -> f64 {
        self.0.into()
    }

    pub(crate) fn from_number(number: f64) -> Self {
        Self(number as u32)
    }
}

/// A connection to a TCP server, with or without TLS.
pub(crate) struct Connection {
    /// `None` before the connection is open, and after its end.
    socket: RefCell<Option<Socket>>,
    over: CancellationToken,
    _charge: Charge,
}

impl Connection {
    /// Waits until the connection is open, unless it ends first. Returns the failure, if any.
    pub(crate) async fn open(
        &self,
        opening: impl Future<Output = Result<Socket, EgressError>>,
    ) -> Option<EgressError> {
        match self.over.run_until_cancelled(opening).await {
            Some(Ok(socket)) => {
                self.socket.replace(Some(socket));
                None
            }
            Some(Err(error)) => Some(error),
            // JavaScript closed the connection itself, and expects no outcome.
            None => None,
        }
    }

    /// Ends the connection and returns its socket if it is open.
    pub(crate) fn take(&self) -> Option<Socket> {
        let socket = self.socket.take();
        self.over.cancel();
        socket
    }

    /// Closes the connection.
    pub(crate) fn end(&self) {
        drop(self.take());
    }

    /// Waits for bytes, and returns those that have arrived. Returns an empty vector if the peer
    /// has finished sending.
    ///
    /// # Arguments
    /// * `most` - returns the maximum number of bytes, which is not zero.
    ///
    /// # Errors
    /// Fails if the connection is lost, or ends meanwhile.
    pub(crate) async fn read(&self, most: impl Fn() -> usize) -> Result<Vec<u8>, ConnectionError> {
        let read = poll_fn(|cx| self.poll_read(cx, most()));
        self.over.run_until_cancelled(read).await.unwrap_or(Err(ConnectionError::Closed))
    }

    fn poll_read(
        &self,
        cx: &mut Context<'_>,
        most: usize,
    ) -> Poll<Result<Vec<u8>, ConnectionError>> {
        let mut socket = self.socket.borrow_mut();
        let Some(socket) = &mut *socket else { return Poll::Ready(Err(ConnectionError::Closed)) };
        // While there is nothing to read, a read holds no buffer.
        let mut buffer = [MaybeUninit::uninit(); READ_SIZE];
        let mut bytes = Vec::new();
        while bytes.len() < most {
            let room = READ_SIZE.min(most - bytes.len());
            let mut buffer = ReadBuf::uninit(&mut buffer[..room]);
            match Pin::new(&mut *socket).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) if buffer.filled().is_empty() => break,
                // Many servers close a connection without the alert that ends TLS.
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => break,
                Poll::Ready(Ok(())) => bytes.extend_from_slice(buffer.filled()),
                // The next read reports the failure, or waits.
                Poll::Ready(Err(_)) | Poll::Pending if !bytes.is_empty() => break,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(bytes))
    }

    /// Writes the bytes, and waits until the kernel has accepted them.
    ///
    /// # Errors
    /// Fails if the connection is lost, or ends meanwhile.
    pub(crate) async fn write(&self, bytes: Bytes) -> Result<(), ConnectionError> {
        let write = async {
            for part in bytes.chunks(WRITE_SIZE) {
                self.write_part(part).await?;
                if part.len() == WRITE_SIZE {
                    tokio::task::yield_now().await;
                }
            }
            self.with_socket(|socket, cx| socket.poll_flush(cx)).await
        };
        self.over.run_until_cancelled(write).await.unwrap_or(Err(ConnectionError::Closed))
    }

    async fn write_part(&self, mut part: &[u8]) -> Result<(), ConnectionError> {
        while !part.is_empty() {
            let written = self.with_socket(|socket, cx| socket.poll_write(cx, part)).await?;
            if written == 0 {
                return Err(io::Error::from(io::ErrorKind::WriteZero).into());
            }
            part = &part[written..];
        }
        Ok(())
    }

    /// Finishes sending. The peer may continue to send.
    ///
    /// # Errors
    /// Fails if the connection is lost, or ends meanwhile.
    pub(crate) async fn finish(&self) -> Result<(), ConnectionError> {
        let shutdown = self.with_socket(|socket, cx| socket.poll_shutdown(cx));
        self.over.run_until_cancelled(shutdown).await.unwrap_or(Err(ConnectionError::Closed))
    }

    /// Polls the socket until it is ready.
    async fn with_socket<T>(
        &self,
        mut poll: impl FnMut(Pin<&mut Socket>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Result<T, ConnectionError> {
        poll_fn(|cx| {
            let mut socket = self.socket.borrow_mut();
            let Some(socket) = &mut *socket else {
                return Poll::Ready(Err(ConnectionError::Closed));
            };
            Poll::Ready(Ok(ready!(poll(Pin::new(socket), cx))?))
        })
        .await
    }
}

/// The connections of one invocation.
#[derive(Default)]
pub(crate) struct Connections {
    held: FxHashMap<ConnectionId, Rc<Connection>>,
    last: u32,
}

impl Connections {
    /// Adds a connection that is not open yet.
    pub(crate) fn add(&mut self, charge: Charge) -> (ConnectionId, Rc<Connection>) {
        self.last += 1;
        let id = ConnectionId(self.last);
        let connection = Rc::new(Connection {
            socket: RefCell::default(),
            over: CancellationToken::new(),
            _charge: charge,
        });
        self.held.insert(id, Rc::clone(&connection));
        (id, connection)
    }

    pub(crate) fn get(&self, id: ConnectionId) -> Option<Rc<Connection>> {
        self.held.get(&id).cloned()
    }

    pub(crate) fn remove(&mut self, id: ConnectionId) -> Option<Rc<Connection>> {
        self.held.remove(&id)
    }
}

impl Attachment for Connections {}

impl Drop for Connections {
    /// Closes the connections, which operations of other invocations may be using.
    fn drop(&mut self) {
        self.held.values().for_each(|connection| connection.end());
    }
}
