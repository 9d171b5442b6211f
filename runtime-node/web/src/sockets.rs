//! The native half of `sockets.js`: TCP connections of Workers. A connection is identified by a
//! number and by the invocation that owns it.
//!
//! ```text
//!  tcpConnect ─► number, promise ─┬─► tcpRead, tcpWrite, in any order
//!      ▲                          ├─► tcpFinish: no more writes
//!      │                          └─► tcpDrop
//!  tcpStartTls: the same connection under another number
//! ```
//!
//! JavaScript pulls: nothing is read from the network before a reader asks for it, and a write
//! settles when the kernel has accepted the bytes. Bytes that JavaScript does not read therefore
//! stay in the kernel's buffers, whose size is bounded (`tenon_egress`), and hold back the peer.

pub(crate) mod connection;
pub(crate) mod resolve;

use std::rc::Rc;

use futures::FutureExt as _;
use tenon_egress::{Authorities, EgressError, Endpoint};
use tenon_engine::bytes;
use tenon_engine::collection::make_room;
use tenon_engine::ids::InvocationId;
use tenon_engine::promise::promise;
use tenon_engine::state::State;
use tenon_engine::string::array_of;
use tenon_engine::thrown::{Thrown, out_of_memory};
use tenon_op::{Record, op};
use url::Host;

use crate::fetch::head::{self, Failed};
use crate::fetch::outbound::Outbound;
use crate::ops::{Argument, Arguments, Nullable, Promised, View};
use crate::sockets::connection::{
    CONNECTION_OVERHEAD, Connection, ConnectionError, ConnectionId, Connections,
};

/// The maximum length of a host name, in characters (RFC 1035 §2.3.4). An IP address is shorter.
const MAX_HOST: usize = 255;

/// The maximum length of authorities, in characters: more than the public authorities of a system.
const MAX_AUTHORITIES: usize = 512 * 1024;

/// The maximum number of bytes that are written within the caller's turn. More bytes are written
/// between turns, because encryption takes time.
const AT_ONCE: usize = 64 * 1024;

impl<'s> Argument<'s> for ConnectionId {
    fn take(
        scope: &mut v8::PinScope<'s, '_>,
        arguments: &mut Arguments<'s>,
    ) -> Result<Self, Thrown> {
        arguments.take(scope).map(Self::from_number)
    }
}

/// A connection that is being established.
#[derive(Record)]
pub(crate) struct Connecting<'s> {
    owner: InvocationId,
    number: f64,
    /// Resolves to the failure, or to null when the connection is open.
    outcome: Promised<'s, Nullable<Failed>>,
}

/// Returns the connection, which may have ended.
///
/// # Errors
/// Fails if the connection has been dropped, or if its invocation has ended.
fn find(
    state: &State,
    owner: InvocationId,
    number: ConnectionId,
) -> Result<Rc<Connection>, ConnectionError> {
    let invocations = state.invocations.borrow();
    let connections = invocations.get(owner).and_then(|held| held.attached::<Connections>());
    connections.and_then(|held| held.get(number)).ok_or(ConnectionError::Closed)
}

/// Removes the connection from its invocation.
fn remove(state: &State, owner: InvocationId, number: ConnectionId) -> Option<Rc<Connection>> {
    let mut invocations = state.invocations.borrow_mut();
    invocations.get_mut(owner)?.attached_mut::<Connections>()?.remove(number)
}

/// Begins to connect to a host.
///
/// # Errors
/// Returns a `TypeError` if the host is neither a name nor an address, if there is no such port, or
/// if no invocation is running, and a `RangeError` if there is not enough memory.
#[op]
pub(crate) fn tcp_connect<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    host: v8::Local<'s, v8::String>,
    port: u32,
    is_secure: bool,
) -> Result<Connecting<'s>, Thrown> {
    let host = host_text(scope, host)?;
    let valid = u16::try_from(port).ok().filter(|port| *port != 0);
    let port = valid.ok_or_else(|| not_a_port(port))?;
    let endpoint = Endpoint::new(&host, port).ok_or_else(|| not_a_host(&host))?;
    let (state, outbound) = (State::of(scope), Outbound::of(scope));
    let owner = state.current(scope).ok_or_else(not_current)?;
    let (number, connection) = reserve(scope, &state, owner)?;
    let context = outbound.egress_context(&state, owner);
    let client = Rc::clone(&outbound.client);
    let work = async move {
        let connecting = client.connect(&context, endpoint, is_secure);
        Ok(connection.open(connecting).await)
    };
    let outcome = promise(scope, work, outcome_value);
    Ok(Connecting { owner, number: number.to_number(), outcome: outcome.into() })
}

/// Begins TLS on an open connection, which JavaScript uses under a new number from now on. Reads
/// and writes under the old number fail.
///
/// # Arguments
/// * `host` - the host that the server's certificate must name, if it is not the one that was
///   connected to.
/// * `authorities` - the certificates of the authorities to trust in place of the node's, in PEM.
///
/// # Errors
/// Returns a `TypeError` if the connection is not open or an argument is not valid, and a
/// `RangeError` if there is not enough memory.
#[op]
pub(crate) fn tcp_start_tls<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    (owner, number): (InvocationId, ConnectionId),
    host: Option<v8::Local<'s, v8::String>>,
    authorities: Option<v8::Local<'s, v8::String>>,
) -> Result<Connecting<'s>, Thrown> {
    let host = host.map(|host| {
        let host = host_text(scope, host)?;
        Host::parse(&host).map_err(|_| not_a_host(&host))
    });
    let host = host.transpose()?;
    let authorities = authorities.map(|pem| trusted(scope, pem)).transpose()?;
    let (state, outbound) = (State::of(scope), Outbound::of(scope));
    let plain = remove(&state, owner, number).ok_or(ConnectionError::Closed)?;
    let socket = plain.take().ok_or(ConnectionError::Closed)?;
    let (number, connection) = reserve(scope, &state, owner)?;
    let client = Rc::clone(&outbound.client);
    let work =
        async move { Ok(connection.open(client.start_tls(socket, host, authorities)).await) };
    let outcome = promise(scope, work, outcome_value);
    Ok(Connecting { owner, number: number.to_number(), outcome: outcome.into() })
}

/// Adds a connection that is not open yet to the invocation.
fn reserve(
    scope: &mut v8::PinScope<'_, '_>,
    state: &State,
    owner: InvocationId,
) -> Result<(ConnectionId, Rc<Connection>), Thrown> {
    let room = make_room(scope, CONNECTION_OVERHEAD)
        .and_then(|buffers| buffers.charge(CONNECTION_OVERHEAD));
    let charge = room.ok_or_else(out_of_memory)?;
    let mut invocations = state.invocations.borrow_mut();
    let invocation = invocations.get_mut(owner).ok_or(ConnectionError::Closed)?;
    Ok(invocation.attach::<Connections>().add(charge))
}

fn host_text(
    scope: &mut v8::PinScope<'_, '_>,
    host: v8::Local<'_, v8::String>,
) -> Result<String, Thrown> {
    if host.length() > MAX_HOST {
        return Err(Thrown::type_error(format!("A host has at most {MAX_HOST} characters")));
    }
    Ok(host.to_rust_string_lossy(scope))
}

fn trusted(
    scope: &mut v8::PinScope<'_, '_>,
    pem: v8::Local<'_, v8::String>,
) -> Result<Authorities, Thrown> {
    if pem.length() > MAX_AUTHORITIES {
        let why = format!("The authorities have at most {MAX_AUTHORITIES} characters of PEM");
        return Err(Thrown::type_error(why));
    }
    Authorities::from_pem(pem.to_rust_string_lossy(scope).as_bytes())
        .ok_or_else(|| Thrown::type_error("The authorities are not certificates in PEM"))
}

fn not_current() -> Thrown {
    Thrown::type_error("A socket can be opened only while an event is handled")
}

fn not_a_host(host: &str) -> Thrown {
    Thrown::type_error(format!("'{host}' is neither the name of a host nor an IP address"))
}

fn not_a_port(port: u32) -> Thrown {
    Thrown::type_error(format!("{port} is not a port to connect to; ports are 1 to 65535"))
}

fn outcome_value<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    failure: Option<EgressError>,
) -> Result<v8::Local<'s, v8::Value>, Thrown> {
    match failure {
        Some(error) => head::failure(scope, error.stage().as_str(), &error.to_string()),
        None => Ok(v8::null(scope).into()),
    }
}

/// Waits for bytes from the peer. Returns a promise of them, or of null if the peer has ended its
/// direction.
///
/// # Errors
/// Returns a `TypeError` if the connection has been closed.
#[op]
pub(crate) fn tcp_read<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    (owner, number): (InvocationId, ConnectionId),
) -> Result<Promised<'s, Nullable<v8::Uint8Array>>, Thrown> {
    let state = State::of(scope);
    let connection = find(&state, owner, number)?;
    let buffers = state.buffers.clone();
    let work = async move { Ok(connection.read(|| buffers.piece()).await?) };
    let promise = promise(scope, work, |scope, bytes| {
        if bytes.is_empty() {
            return Ok(v8::null(scope).into());
        }
        let counted = make_room(scope, bytes.len()).and_then(|buffers| buffers.count(bytes));
        let array = counted.and_then(|counted| array_of(scope, counted));
        array.map(v8::Local::from).ok_or_else(out_of_memory)
    });
    Ok(promise.into())
}

/// Sends bytes to the peer. Returns `undefined` if the kernel has accepted all of them, otherwise a
/// promise that settles when it has.
///
/// # Errors
/// Returns a `TypeError` if the connection has been closed, a `NetworkError` if it has been lost,
/// and a `RangeError` if there is not enough memory.
#[op]
pub(crate) fn tcp_write<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    (owner, number): (InvocationId, ConnectionId),
    bytes: View<'s>,
) -> Result<Option<Promised<'s, ()>>, Thrown> {
    let length = bytes.byte_length();
    let buffers = make_room(scope, length).ok_or_else(out_of_memory)?;
    let lent = buffers.lend(length, || bytes::read(bytes, <[u8]>::to_vec));
    let piece = lent.ok_or_else(out_of_memory)?;
    let connection = find(&State::of(scope), owner, number)?;
    let mut writing = async move { connection.write(piece).await }.boxed_local();
    if length <= AT_ONCE
        && let Some(written) = (&mut writing).now_or_never()
    {
        return Ok(written.map(|()| None)?);
    }
    let work = async { Ok(writing.await?) };
    let promise = promise(scope, work, |scope, ()| Ok(v8::undefined(scope).into()));
    Ok(Some(promise.into()))
}

/// Ends the direction to the peer: nothing is written afterwards. Returns a promise that settles
/// when the end has been sent.
///
/// # Errors
/// Returns a `TypeError` if the connection has been closed.
#[op]
pub(crate) fn tcp_finish<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    (owner, number): (InvocationId, ConnectionId),
) -> Result<Promised<'s, ()>, Thrown> {
    let connection = find(&State::of(scope), owner, number)?;
    let work = async move { Ok(connection.finish().await?) };
    Ok(promise(scope, work, |scope, ()| Ok(v8::undefined(scope).into())).into())
}

/// Closes a connection in both directions, or stops the attempt to open it.
#[op]
pub(crate) fn tcp_drop(
    scope: &mut v8::PinScope<'_, '_>,
    (owner, number): (InvocationId, ConnectionId),
) {
    if let Some(connection) = remove(&State::of(scope), owner, number) {
        connection.end();
    }
}
