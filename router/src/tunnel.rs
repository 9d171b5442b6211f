//! A WebSocket between a client and its node: bytes both ways, of which the router understands nothing.
//!
//! ```text
//!            ┌──────────────────── Upload ◄── FromClient ◄──┐
//!  node ◄────┘   (asks when the node has room)              ├── the client's connection
//!  node ─────────► Rest ─► Open::carry ─────────────────────┘
//!                   (asks when the client has taken the last piece)
//! ```
//!
//! The request's body and the answer's are what the two sides send each other from the answer's head on; so the tunnel goes
//! by the same streams as any request, and has their flow control for its only buffer. Until then the body is silent, and
//! should the Worker not agree, empty.
//!
//! Belongs to one thread.

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
use http::{HeaderMap, StatusCode};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tenon_proto::failure::FailureCode;
use tenon_proto::runtime::invoke_response::Part;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::task::spawn_local;

use crate::answer::BEHIND;
use crate::clients;
use crate::closing::{self, Code, Frames};
use crate::exchange::{Reply, Rest};
use crate::handshake::Handshake;
use crate::metrics::{Meters, Way};
use crate::quota::Hold;
use crate::retry::Mishap;
use crate::tunnels::Place;

/// The most that is read of a client at a time, in bytes.
const PIECE: usize = 16 * 1024;

/// How long a client may take to hear that the tunnel is over, and to hang up.
const FAREWELL: Duration = Duration::from_secs(2);

type Connection = TokioIo<Upgraded>;

/// A tunnel that is asked for.
pub(crate) struct Tunnel {
    handshake: Handshake,
    upgrade: OnUpgrade,
    client: Client,
    place: Place,
}

impl Tunnel {
    /// # Arguments
    /// * `upgrade` - the client's connection, once the answer's head has gone out.
    /// * `place` - held as long as the tunnel is.
    pub(crate) fn new(handshake: Handshake, upgrade: OnUpgrade, place: Place, meters: Rc<Meters>) -> Self {
        let client = Client(Rc::new(Shared { state: RefCell::default(), reader: Cell::default(), meters }));
        Self { handshake, upgrade, client, place }
    }

    pub(crate) fn handshake(&self) -> &Handshake {
        &self.handshake
    }

    /// What the client will send, which is nothing if the tunnel is dropped and not opened.
    pub(crate) fn upstream(&self) -> FromClient {
        FromClient(self.client.0.clone())
    }

    /// The Worker has agreed: the tunnel is open as soon as its client has been told, and from then on by itself.
    ///
    /// # Arguments
    /// * `headers` - of the answer, which become what the client is told.
    pub(crate) fn open(self, reply: Reply, headers: &mut HeaderMap) -> StatusCode {
        let Self { handshake, upgrade, client, place } = self;
        let Reply { head, mut rest } = reply;
        rest.leave_berth();
        let rest = head.more_body.then_some(rest);
        let waits = Waits { of: place.client(), memory: None };
        let open = Open { client, first: head.body, rest, frames: Frames::default(), waits };
        spawn_local(open.run(upgrade, place));
        handshake.agree(headers)
    }
}

/// What the task of a tunnel and the body of the request to its node have in common.
struct Shared {
    state: RefCell<State>,
    /// Of the request's body.
    reader: Cell<Option<Waker>>,
    meters: Rc<Meters>,
}

#[derive(Default)]
enum State {
    /// The Worker has not answered, or the client not heard it.
    #[default]
    Silent,
    Open(Connection),
    Over,
}

/// The tunnel's own hold of its client: it is over without.
struct Client(Rc<Shared>);

impl Client {
    fn connected(&self, connection: Connection) {
        self.0.turn(State::Open(connection));
    }

    /// Nothing is read from now on. The connection, if there has been one.
    fn over(&self) -> Option<Connection> {
        match self.0.turn(State::Over) {
            State::Open(connection) => Some(connection),
            State::Silent | State::Over => None,
        }
    }

    /// Sends some of what there is.
    async fn write(&self, piece: &[u8]) -> io::Result<usize> {
        let written = poll_fn(|cx| match &mut *self.0.state.borrow_mut() {
            State::Open(connection) => Pin::new(connection).poll_write(cx, piece),
            State::Silent | State::Over => Poll::Ready(Ok(0)),
        });
        match written.await? {
            0 => Err(io::ErrorKind::WriteZero.into()),
            written => {
                self.0.meters.carried(Way::ToClient, written);
                Ok(written)
            }
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.over();
    }
}

impl Shared {
    fn turn(&self, state: State) -> State {
        let before = self.state.replace(state);
        self.reader.take().into_iter().for_each(Waker::wake);
        before
    }
}

/// What a client sends, as the body of the request to its node.
pub(crate) struct FromClient(Rc<Shared>);

impl FromClient {
    /// The next bytes; `None` at the end.
    ///
    /// # Errors
    /// When the client's connection has broken.
    pub(crate) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        self.0.reader.set(Some(cx.waker().clone()));
        match &mut *self.0.state.borrow_mut() {
            State::Silent => Poll::Pending,
            State::Over => Poll::Ready(None),
            State::Open(connection) => {
                let piece = ready!(poll_read(connection, cx))?;
                self.0.meters.carried(Way::FromClient, piece.len());
                Poll::Ready((!piece.is_empty()).then_some(Ok(piece)))
            }
        }
    }
}

/// Reads what there is, and nothing at the end. Copied to its length, for what waits is to take no more than it is, and
/// who waits nothing at all.
fn poll_read(connection: &mut Connection, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
    let mut space = [const { MaybeUninit::uninit() }; PIECE];
    let mut buffer = ReadBuf::uninit(&mut space);
    ready!(Pin::new(connection).poll_read(cx, &mut buffer))?;
    Poll::Ready(Ok(Bytes::copy_from_slice(buffer.filled())))
}

/// A tunnel at work.
struct Open {
    client: Client,
    /// Goes out first.
    first: Bytes,
    /// What of the answer is to come, if anything is.
    rest: Option<Rest>,
    /// Those that go to the client.
    frames: Frames,
    waits: Waits,
}

/// What waits for a client that reads more slowly than its Worker speaks, counted as that client's.
struct Waits {
    of: Option<Arc<clients::Client>>,
    memory: Option<Hold>,
}

impl Waits {
    /// Whether there is memory for it.
    fn begin(&mut self) -> bool {
        if self.memory.is_none() {
            self.memory = self.of.as_ref().and_then(|client| client.memory(BEHIND));
        }
        self.memory.is_some() || self.of.is_none()
    }

    fn end(&mut self) {
        self.memory = None;
    }
}

/// Why a tunnel is over.
enum Ended {
    /// The node has said all.
    Whole,
    /// The client cannot be reached any more, or what it does not read has no place.
    Client,
    Node(Mishap),
    /// The router will not carry it any further.
    Leaving,
}

impl Open {
    async fn run(mut self, upgrade: OnUpgrade, mut place: Place) {
        let ended = tokio::select! {
            biased;
            ended = self.carry(upgrade) => ended,
            () = place.ended() => Ended::Leaving,
        };
        // What the node still sends is for nobody; if it has not ended, it hears of that by this.
        self.rest = None;
        let Some(connection) = self.client.over() else { return };
        let goodbye = goodbye(&ended).filter(|_| self.frames.may_close());
        if !matches!(ended, Ended::Client) {
            // A client that does not even hear this is left without.
            let _ = tokio::time::timeout(FAREWELL, part(connection, goodbye.unwrap_or_default())).await;
        }
    }

    /// Sends some of what there is; none when the client is not to be reached, or takes nothing and there is no memory.
    async fn write(&mut self, piece: &[u8]) -> Option<usize> {
        let mut write = pin!(self.client.write(piece));
        let written = match futures::poll!(write.as_mut()) {
            Poll::Ready(written) => written,
            // Its node goes on until a window is full.
            Poll::Pending if self.waits.begin() => write.await,
            Poll::Pending => return None,
        };
        written.ok()
    }

    async fn carry(&mut self, upgrade: OnUpgrade) -> Ended {
        match upgrade.await {
            Ok(connection) => self.client.connected(TokioIo::new(connection)),
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
            let waits = &mut self.waits;
            let next = poll_fn(|cx| {
                let next = rest.poll_next(cx);
                if next.is_pending() {
                    waits.end();
                }
                next
            });
            piece = match next.await {
                Ok(Some(Part::Body(piece))) => piece,
                Ok(Some(Part::Head(_))) => return Ended::Node(Mishap::Nonsense("a second head".into())),
                Ok(None) => return Ended::Whole,
                Err(mishap) => return Ended::Node(mishap),
            };
        }
    }
}

/// What a client is told that has not been told by its Worker.
fn goodbye(ended: &Ended) -> Option<Bytes> {
    match ended {
        Ended::Whole | Ended::Client => None,
        Ended::Leaving => Some(closing::frame(Code::GoingAway, FailureCode::Draining.as_str())),
        Ended::Node(mishap) => Some(closing::frame(Code::Unexpected, mishap.reason())),
    }
}

/// Says goodbye and hangs up, but not before the client has: what it sends until then would be answered by a reset, on which
/// it may lose what it has not read yet.
async fn part(mut connection: Connection, goodbye: Bytes) -> io::Result<()> {
    connection.write_all(&goodbye).await?;
    connection.flush().await?;
    connection.shutdown().await?;
    let mut space = [0; 1024];
    while connection.read(&mut space).await? > 0 {}
    Ok(())
}
