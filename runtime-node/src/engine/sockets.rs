//! WebSockets: those that a Worker answers a request with, those that it opens, and how long they keep its invocation.
//!
//! ```text
//!  a request that asks for one ─► socketServe ──┐
//!  fetch, new WebSocket ─► egress ──────────────┼─► a number of an invocation ─► socketAccept ─► Pump ─► turns
//!  a service binding ─► another Worker ─────────┘            │
//!                                                            └─► socketSplice: past JavaScript, byte for byte
//! ```
//!
//! JavaScript knows a socket by its number and the invocation that has it, as it knows streams; any code of the isolate may
//! speak over it. Until it is accepted it is a [`Wire`] and nothing is read; then it is a [`Pump`], an operation of its
//! invocation that it keeps like `waitUntil`. Each message that comes begins a turn with CPU time and a log of its own; the
//! invocation's wall limit begins anew with whatever goes over the socket, so that it is the time for which one may be idle.
//! An invocation that is ended takes its sockets with it, which say so with code 1011, or with 1012 where its Worker runs elsewhere
//! from now on; a node that leaves says 1001.
//!
//! - [`line`]: what is said and not yet sent; [`pump`]: the protocol's states; [`vigil`]: whether the other side is there;
//!   [`link`] and [`split`]: the bytes beneath.
//! - [`attend`]: from the pump to JavaScript; [`splice`]: sockets that are handed on.

pub(super) mod attend;
pub(super) mod line;
pub(super) mod link;
pub(super) mod pump;
pub(super) mod splice;
mod split;
mod vigil;

use std::rc::Rc;

use rustc_hash::FxHashMap;
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::runtime::Header;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::invocation::InvocationId;
use super::state::State;
use crate::handshake::Key;
use line::Line;
use link::Wire;

/// Names a socket of one invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SocketId(u32);

impl SocketId {
    pub(super) fn to_number(self) -> f64 {
        self.0.into()
    }

    pub(super) fn from_number(number: f64) -> Self {
        Self(number as u32)
    }
}

/// One that nobody has accepted.
pub(super) struct Raw {
    pub(super) wire: Wire,
    pub(super) role: Role,
}

struct Held {
    line: Rc<Line>,
    /// `None` once it is accepted.
    raw: Option<Raw>,
}

impl Drop for Held {
    /// A client to whom nobody has listened is told that nobody will.
    fn drop(&mut self) {
        if let Some(Raw { wire, role: Role::Server }) = &mut self.raw {
            wire.say_close(self.line.farewell());
        }
    }
}

/// Those of one invocation.
#[derive(Default)]
pub(super) struct Sockets {
    held: FxHashMap<SocketId, Held>,
    made: u32,
}

impl Sockets {
    /// Gives it a number.
    pub(super) fn add(&mut self, wire: Wire, role: Role) -> SocketId {
        self.made += 1;
        let id = SocketId(self.made);
        self.held.insert(id, Held { line: Rc::default(), raw: Some(Raw { wire, role }) });
        id
    }

    /// What is said over it goes here. `None` when it has ended.
    pub(super) fn line(&self, id: SocketId) -> Option<&Rc<Line>> {
        self.held.get(&id).map(|held| &held.line)
    }

    /// Takes it for whoever accepts it, once.
    pub(super) fn accept(&mut self, id: SocketId) -> Option<(Raw, Rc<Line>)> {
        let held = self.held.get_mut(&id)?;
        Some((held.raw.take()?, Rc::clone(&held.line)))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// If their invocation is ended, the other sides are told to connect again (RFC 6455 §7.4.2: 1012, service restart).
    pub(super) fn end_with_restart(&self) {
        self.held.values().for_each(|held| held.line.end_with(CloseCode::Restart));
    }

    /// It has ended, or is handed on.
    pub(super) fn remove(&mut self, id: SocketId) -> Option<Raw> {
        self.held.remove(&id)?.raw.take()
    }
}

/// What a request says that asks for a WebSocket.
pub(super) struct Opening {
    key: Option<Key>,
    is_version: bool,
}

impl Opening {
    pub(super) fn of(headers: &[Header]) -> Self {
        let named = |name: &str| headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        let key = named("sec-websocket-key").and_then(|header| Key::read(&header.value));
        Self { key, is_version: named("sec-websocket-version").is_some_and(|header| &header.value[..] == b"13") }
    }

    /// What shows the client that it was understood.
    ///
    /// # Errors
    /// What the client is told where it has not asked as the standard wants it (RFC 6455 §4.2.1).
    pub(super) fn accept(&self) -> Result<Header, Failure> {
        let refused = |code, why| Failure::new(code, Phase::Response, why);
        if !self.is_version {
            let why = "The WebSocket's version is 13; Sec-WebSocket-Version is to say so.";
            return Err(refused(FailureCode::UpgradeRequired, why));
        }
        let Some(key) = &self.key else {
            return Err(refused(FailureCode::BadRequest, "Sec-WebSocket-Key is to be 16 bytes in base64."));
        };
        Ok(Header { name: "sec-websocket-accept".to_owned(), value: key.accept().into() })
    }
}

/// Of an engine whose node goes on for now.
#[derive(Clone)]
pub(super) struct Leaving(Rc<watch::Sender<bool>>);

impl Default for Leaving {
    fn default() -> Self {
        Self(Rc::new(watch::Sender::new(false)))
    }
}

impl Leaving {
    pub(super) fn begin(&self) {
        self.0.send_replace(true);
    }

    /// Resolves when it begins.
    pub(super) fn begun(&self) -> impl Future<Output = ()> + 'static {
        let mut leaving_rx = self.0.subscribe();
        async move {
            if leaving_rx.wait_for(|leaving| *leaving).await.is_err() {
                // The engine has gone, and with it whoever could leave.
                std::future::pending().await
            }
        }
    }
}

impl State {
    /// Something has gone over a socket of the invocation.
    pub(super) fn moved(&self, id: InvocationId) {
        if let Some(invocation) = self.invocations.borrow_mut().get_mut(id) {
            invocation.moved = Some(Instant::now());
        }
    }
}
