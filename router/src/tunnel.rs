//! Carries the bytes of a WebSocket between a client and its node, in both directions and without
//! interpreting them.
//!
//! ```text
//!            ┌──────────────────── Upload ◄── FromClient ◄──┐
//!  node ◄────┘   (reads when the node has room)             ├── the client's connection
//!  node ─────────► Rest ─► Open::carry ─────────────────────┘
//!                   (reads when the client has taken the last piece)
//! ```
//!
//! After the head of the response, the bodies of the request and of the response are the two
//! directions of the tunnel. The tunnel therefore uses the same streams as any request, and the
//! flow control of these streams is the tunnel's only buffer. Before the head of the response, the
//! body of the request is pending; if the Worker does not accept, this body is empty.
//!
//! - [`slots`]: counts a thread's tunnels, and ends them.
//! - [`closing`]: the Close frame of a tunnel that ends early.
//!
//! This module depends on `upstream` and `meters`, its submodules on neither. A tunnel belongs to
//! one thread.

pub(crate) mod closing;
pub(crate) mod slots;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tenon_clients::quota::Hold;
use tenon_proto::failure::{Failure, FailureCode};
use tenon_proto::runtime::invoke_response::Part;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::task::spawn_local;

use crate::meters::{Direction, Meters};
use crate::tunnel::closing::{Code, Frames};
use crate::tunnel::slots::TunnelSlot;
use crate::upstream::exchange::{Reply, Rest, SLOW_CLIENT};
use crate::upstream::retry::AttemptError;
use crate::upstream::upload::{Source, Upload, broken};

/// The maximum size of one read from a client, in bytes.
const PIECE: usize = 16 * 1024;

/// The timeout for a client to receive the end of the tunnel, and to disconnect.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

type Connection = TokioIo<Upgraded>;

/// A tunnel that has been requested.
pub(crate) struct Tunnel {
    upgrade: OnUpgrade,
    client: ClientHandle,
    slot: TunnelSlot,
}

impl Tunnel {
    /// Creates a tunnel that is not open yet.
    ///
    /// # Arguments
    /// * `upgrade` - resolves to the client's connection, once the response's head has been sent.
    /// * `slot` - held for as long as the tunnel exists.
    pub(crate) fn new(upgrade: OnUpgrade, slot: TunnelSlot, meters: Rc<Meters>) -> Self {
        let client = ClientHandle(Rc::new(Shared {
            state: RefCell::default(),
            reader: Cell::default(),
            meters,
        }));
        Self { upgrade, client, slot }
    }

    /// Returns the data from the client, as a body without a size limit. The body is empty if the
    /// tunnel is dropped without being opened.
    pub(crate) fn upload(&self) -> Upload {
        Upload::new(Box::new(FromClient(self.client.0.clone())), u64::MAX, 0, None)
    }

    /// Opens the tunnel after the Worker has accepted. A task of its own carries the data, once the
    /// client has received the response.
    pub(crate) fn open(self, reply: Reply) {
        let Self { upgrade, client, slot } = self;
        let Reply { head, mut rest } = reply;
        rest.release_permit();
        let rest = head.more_body.then_some(rest);
        let backlog = Backlog { client: slot.client(), memory: None };
        let open = Open { client, first: head.body, rest, frames: Frames::default(), backlog };
        spawn_local(open.run(upgrade, slot));
    }
}

/// The state shared by the task of a tunnel and the body of the request to its node.
struct Shared {
    state: RefCell<State>,
    /// The waker of the request's body.
    reader: Cell<Option<Waker>>,
    meters: Rc<Meters>,
}

#[derive(Default)]
enum State {
    /// The Worker has not responded, or the client has not received the response.
    #[default]
    Pending,
    Open(Connection),
    Over,
}

/// The tunnel task's handle to its client. Dropping the handle ends the tunnel.
struct ClientHandle(Rc<Shared>);

impl ClientHandle {
    fn open(&self, connection: Connection) {
        self.0.replace_state(State::Open(connection));
    }

    /// Stops reading from the client, and returns the connection, if there was one.
    fn close(&self) -> Option<Connection> {
        match self.0.replace_state(State::Over) {
            State::Open(connection) => Some(connection),
            State::Pending | State::Over => None,
        }
    }

    /// Writes a part of a piece, and returns its length in bytes.
    async fn write(&self, piece: &[u8]) -> io::Result<usize> {
        let written = poll_fn(|cx| match &mut *self.0.state.borrow_mut() {
            State::Open(connection) => Pin::new(connection).poll_write(cx, piece),
            State::Pending | State::Over => Poll::Ready(Ok(0)),
        });
        match written.await? {
            0 => Err(io::ErrorKind::WriteZero.into()),
            written => {
                self.0.meters.count_carried(Direction::ToClient, written);
                Ok(written)
            }
        }
    }
}

impl Drop for ClientHandle {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn replace_state(&self, state: State) -> State {
        let before = self.state.replace(state);
        self.reader.take().into_iter().for_each(Waker::wake);
        before
    }
}

/// The data that a client sends, as the body of the request to its node.
struct FromClient(Rc<Shared>);

impl Source for FromClient {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        self.0.reader.set(Some(cx.waker().clone()));
        match &mut *self.0.state.borrow_mut() {
            State::Pending => Poll::Pending,
            State::Over => Poll::Ready(None),
            State::Open(connection) => {
                let Ok(piece) = ready!(poll_read(connection, cx)) else {
                    return Poll::Ready(Some(Err(broken())));
                };
                self.0.meters.count_carried(Direction::FromClient, piece.len());
                Poll::Ready((!piece.is_empty()).then_some(Ok(piece)))
            }
        }
    }
}

/// Reads the available bytes, or none at the end of the stream. The bytes are copied to a buffer of
/// their exact length, so that buffered data takes no more memory than its size, and an idle tunnel
/// takes none.
fn poll_read(connection: &mut Connection, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
    let mut space = [const { MaybeUninit::uninit() }; PIECE];
    let mut buffer = ReadBuf::uninit(&mut space);
    ready!(Pin::new(connection).poll_read(cx, &mut buffer))?;
    Poll::Ready(Ok(Bytes::copy_from_slice(buffer.filled())))
}

/// An open tunnel.
struct Open {
    client: ClientHandle,
    /// The data to send first.
    first: Bytes,
    /// The rest of the response, if there is more.
    rest: Option<Rest>,
    /// The frames that go to the client.
    frames: Frames,
    backlog: Backlog,
}

/// The memory, charged to a client, for data that waits because the client reads more slowly than
/// its Worker sends.
struct Backlog {
    client: Option<Arc<tenon_clients::Client>>,
    memory: Option<Hold>,
}

impl Backlog {
    /// Takes the memory. Returns `false` if there is not enough.
    fn begin(&mut self) -> bool {
        if self.memory.is_none() {
            self.memory = self.client.as_ref().and_then(|client| client.memory(SLOW_CLIENT));
        }
        self.memory.is_some() || self.client.is_none()
    }

    fn end(&mut self) {
        self.memory = None;
    }
}

/// The reason why a tunnel has ended.
enum Ended {
    /// The node has sent everything.
    Whole,
    /// The client is unreachable, or there is no memory for data that it does not read.
    Client,
    Node(AttemptError),
    /// The router ends the tunnel.
    Leaving,
}

impl Open {
    async fn run(mut self, upgrade: OnUpgrade, mut slot: TunnelSlot) {
        let ended = tokio::select! {
            biased;
            ended = self.carry(upgrade) => ended,
            () = slot.ended() => Ended::Leaving,
        };
        // Further data from the node is discarded. If the node has not ended the stream, the drop
        // cancels the stream.
        self.rest = None;
        let Some(connection) = self.client.close() else { return };
        let close_frame =
            close_frame(&ended).filter(|_| self.frames.may_close()).unwrap_or_default();
        if !matches!(ended, Ended::Client) {
            // A client that does not accept even the Close frame before the timeout is
            // disconnected.
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, disconnect(connection, close_frame)).await;
        }
    }

    /// Writes a part of a piece. Returns `None` if the client is unreachable, or accepts nothing
    /// and there is no memory.
    async fn write(&mut self, piece: &[u8]) -> Option<usize> {
        let mut write = pin!(self.client.write(piece));
        let written = match futures::poll!(write.as_mut()) {
            Poll::Ready(written) => written,
            // The node keeps sending until a window is full.
            Poll::Pending if self.backlog.begin() => write.await,
            Poll::Pending => return None,
        };
        written.ok()
    }

    async fn carry(&mut self, upgrade: OnUpgrade) -> Ended {
        match upgrade.await {
            Ok(connection) => self.client.open(TokioIo::new(connection)),
            Err(_) => return Ended::Client,
        }
        let mut piece = std::mem::take(&mut self.first);
        loop {
            while !piece.is_empty() {
                let Some(written) = self.write(&piece).await else { return Ended::Client };
                self.frames.pass(&piece[..written]);
                piece.advance(written);
            }
            let Some(rest) = &mut self.rest else { return Ended::Whole };
            let backlog = &mut self.backlog;
            let next = poll_fn(|cx| {
                let next = rest.poll_next(cx);
                if next.is_pending() {
                    backlog.end();
                }
                next
            });
            piece = match next.await {
                Ok(Some(Part::Body(piece))) => piece,
                Ok(Some(Part::Head(_) | Part::Trailers(_))) => {
                    let error = "a message that is not a part of a tunnel";
                    return Ended::Node(AttemptError::ProtocolViolation(error.into()));
                }
                Ok(None) => return Ended::Whole,
                Err(error) => return Ended::Node(error),
            };
        }
    }
}

/// Returns the Close frame for a client whose Worker has sent none, or `None` if the client needs
/// none.
fn close_frame(ended: &Ended) -> Option<Bytes> {
    match ended {
        Ended::Whole | Ended::Client => None,
        Ended::Leaving => Some(closing::frame(Code::GoingAway, FailureCode::Draining.as_str())),
        Ended::Node(error) => Some(closing::frame(Code::Unexpected, error.reason())),
    }
}

/// Sends the Close frame, and disconnects after the client has disconnected. Otherwise the kernel
/// would answer data that the client sends in the meantime with a reset, and the client could lose
/// data that it has not read yet.
async fn disconnect(mut connection: Connection, close_frame: Bytes) -> io::Result<()> {
    connection.write_all(&close_frame).await?;
    connection.flush().await?;
    connection.shutdown().await?;
    let mut space = [0; 1024];
    while connection.read(&mut space).await? > 0 {}
    Ok(())
}
