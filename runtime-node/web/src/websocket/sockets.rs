//! WebSockets with which a Worker answers a request, WebSockets that a Worker opens, and the time
//! for which they keep an invocation alive.
//!
//! ```text
//!  an upgrade request ─► socketServe ──────────┐
//!  fetch, new WebSocket ─► egress ─────────────┼─► socket id ─► socketAccept ─► Pump ─► turns
//!  a service binding ─► another Worker ────────┘       │
//!                                                      └─► socketSplice: bypasses JavaScript
//! ```
//!
//! JavaScript refers to a socket, like a stream, by its number and the invocation that owns it; any
//! code of the isolate may send over it. Until the socket is accepted, it is a [`Wire`] and nothing
//! is read. Then it is a [`Pump`], an operation that keeps its invocation alive like `waitUntil`.
//! Each received message begins a turn with a CPU and log budget of its own. Traffic on the socket
//! restarts the invocation's wall-clock limit, which therefore bounds how long a socket may be
//! idle. When an invocation is ended, its sockets close with code 1011, or with 1012 if its Worker
//! now runs elsewhere; when the node leaves, they close with 1001.
//!
//! - [`send_queue`]: messages queued for sending; [`pump`]: the protocol's states; [`keepalive`]:
//!   liveness of the peer; [`link`] and [`split`]: the transport of bytes; [`deflate`] and
//!   [`inflate`]: the compression of messages.
//! - [`reader`]: events from the pump to JavaScript; [`splice`]: sockets that are passed on.

pub(crate) mod deflate;
pub(crate) mod inflate;
mod keepalive;
pub(crate) mod link;
pub(crate) mod pump;
pub(crate) mod reader;
pub(crate) mod send_queue;
pub(crate) mod splice;
mod split;

use std::rc::Rc;

use rustc_hash::FxHashMap;
use tenon_egress::handshake::{Deflate, Key, Offer};
use tenon_engine::Attachment;
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::runtime::Header;
use tokio::sync::watch;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use link::Wire;
use send_queue::SendQueue;

/// The number of a socket within its invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SocketId(u32);

impl SocketId {
    pub(crate) fn to_number(self) -> f64 {
        self.0.into()
    }

    pub(crate) fn from_number(number: f64) -> Self {
        Self(number as u32)
    }
}

/// A socket that has not been accepted.
pub(crate) struct UnacceptedSocket {
    pub(crate) wire: Wire,
    pub(crate) role: Role,
    /// The agreement on the compression of messages, if there is one.
    pub(crate) deflate: Option<Deflate>,
}

struct Held {
    queue: Rc<SendQueue>,
    deflate: Option<Deflate>,
    /// `None` once the socket has been accepted.
    unaccepted: Option<UnacceptedSocket>,
}

impl Drop for Held {
    /// Sends a Close to a client whose socket was never accepted.
    fn drop(&mut self) {
        if let Some(UnacceptedSocket { wire, role: Role::Server, .. }) = &mut self.unaccepted {
            wire.send_close(self.queue.end_code());
        }
    }
}

/// The sockets of one invocation.
#[derive(Default)]
pub(crate) struct Sockets {
    /// The request's WebSocket handshake, until a response takes it.
    pub(crate) handshake: Option<Handshake>,
    held: FxHashMap<SocketId, Held>,
    last: u32,
}

impl Sockets {
    /// Creates the sockets of an invocation whose request begins with this handshake.
    pub(crate) fn with_handshake(handshake: Handshake) -> Self {
        Self { handshake: Some(handshake), ..Self::default() }
    }

    /// Adds a socket and returns its number.
    pub(crate) fn add(&mut self, socket: UnacceptedSocket) -> SocketId {
        self.last += 1;
        let id = SocketId(self.last);
        let deflate = socket.deflate;
        self.held.insert(id, Held { queue: Rc::default(), deflate, unaccepted: Some(socket) });
        id
    }

    /// Returns the agreement on the compression of a socket's messages, if there is one.
    pub(crate) fn deflate(&self, id: SocketId) -> Option<Deflate> {
        self.held.get(&id)?.deflate
    }

    /// Returns the socket's queue of outgoing messages, or `None` if the socket has ended.
    pub(crate) fn queue(&self, id: SocketId) -> Option<&Rc<SendQueue>> {
        self.held.get(&id).map(|held| &held.queue)
    }

    /// Takes the socket in order to accept it. Returns `None` if the socket has been accepted or
    /// has ended.
    pub(crate) fn accept(&mut self, id: SocketId) -> Option<(UnacceptedSocket, Rc<SendQueue>)> {
        let held = self.held.get_mut(&id)?;
        Some((held.unaccepted.take()?, Rc::clone(&held.queue)))
    }

    /// Removes a socket that has ended or is passed on. Returns its wire if it has not been
    /// accepted.
    pub(crate) fn remove(&mut self, id: SocketId) -> Option<UnacceptedSocket> {
        self.held.remove(&id)?.unaccepted.take()
    }
}

impl Attachment for Sockets {
    fn lingers(&self) -> bool {
        !self.held.is_empty()
    }

    /// Makes the sockets tell their peers to reconnect: close code 1012, service restart, of IANA's
    /// registry (RFC 6455 §11.7).
    fn end_with_restart(&self) {
        self.held.values().for_each(|held| held.queue.set_end_code(CloseCode::Restart));
    }
}

/// The fields of a request's WebSocket handshake.
pub(crate) struct Handshake {
    key: Option<Key>,
    is_version_13: bool,
    /// The client's acceptable offers to compress messages, in its order of preference.
    offers: Vec<Offer>,
}

/// The headers that confirm a handshake, and the agreement on the compression of messages.
pub(crate) struct Accepted {
    pub(crate) headers: Vec<Header>,
    pub(crate) deflate: Option<Deflate>,
}

impl Handshake {
    /// Reads the fields of the handshake from a request's headers.
    pub(crate) fn of(headers: &[Header]) -> Self {
        let named =
            |name: &str| headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        let key = named("sec-websocket-key").and_then(|header| Key::read(&header.value));
        let extensions = headers
            .iter()
            .filter(|header| header.name.eq_ignore_ascii_case("sec-websocket-extensions"));
        Self {
            key,
            offers: Offer::read_all(extensions.map(|header| &header.value[..])),
            is_version_13: named("sec-websocket-version")
                .is_some_and(|header| &header.value[..] == b"13"),
        }
    }

    /// Accepts the handshake for a socket of the Worker itself.
    ///
    /// # Errors
    /// Returns the failure for the client if the handshake violates the standard (RFC 6455 §4.2.1).
    pub(crate) fn accept(&self) -> Result<Accepted, Failure> {
        self.confirm(self.offers.first().map(|offer| (offer.accept(), *offer)))
    }

    /// Accepts the handshake for a socket that is passed on, with the agreement of its other side
    /// on compression. The result has the same agreement, or none if the client has not offered it.
    ///
    /// # Errors
    /// Returns the failure for the client if the handshake violates the standard (RFC 6455 §4.2.1).
    pub(crate) fn pass_on(&self, deflate: Option<Deflate>) -> Result<Accepted, Failure> {
        let offer = |deflate: Deflate| self.offers.iter().find(|offer| deflate.suits(**offer));
        self.confirm(deflate.and_then(|deflate| Some((deflate, *offer(deflate)?))))
    }

    fn confirm(&self, agreement: Option<(Deflate, Offer)>) -> Result<Accepted, Failure> {
        let refused = |code, why| Failure::new(code, Phase::Response, why);
        if !self.is_version_13 {
            let why = "Sec-WebSocket-Version must be 13";
            return Err(refused(FailureCode::UpgradeRequired, why));
        }
        let Some(key) = &self.key else {
            return Err(refused(
                FailureCode::BadRequest,
                "Sec-WebSocket-Key must be 16 bytes in base64",
            ));
        };
        let header =
            |name: &str, value: String| Header { name: name.to_owned(), value: value.into() };
        let extensions = agreement.map(|(deflate, offer)| deflate.response(offer));
        let extensions = extensions.map(|value| header("sec-websocket-extensions", value));
        let accept = header("sec-websocket-accept", key.accept());
        Ok(Accepted {
            headers: [accept].into_iter().chain(extensions).collect(),
            deflate: agreement.map(|(deflate, _)| deflate),
        })
    }
}

/// A signal to all sockets of an engine that the node is leaving.
#[derive(Clone)]
pub(crate) struct Leaving(Rc<watch::Sender<bool>>);

impl Default for Leaving {
    fn default() -> Self {
        Self(Rc::new(watch::Sender::new(false)))
    }
}

impl Leaving {
    /// Sends the signal.
    pub(crate) fn begin(&self) {
        self.0.send_replace(true);
    }

    /// Resolves when the node begins to leave.
    pub(crate) fn wait(&self) -> impl Future<Output = ()> + 'static {
        let mut leaving_rx = self.0.subscribe();
        async move {
            if leaving_rx.wait_for(|leaving| *leaving).await.is_err() {
                // The engine has been dropped, and can no longer send the signal.
                std::future::pending().await
            }
        }
    }
}
