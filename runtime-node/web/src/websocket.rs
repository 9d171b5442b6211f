//! The native half of `websocket.js`. A socket is identified by the invocation that owns it and a
//! number.
//!
//! ```text
//!  socketServe ─► a number ─┬─► socketAccept ─► callback(kind, …), in turns
//!  fetchSend, serviceSend ──┤   socketSend, socketClose, socketBuffered, socketExtensions
//!                           ├─► socketSplice: the answer to a request
//!                           └─► socketDrop
//! ```

pub(crate) mod sockets;

use tenon_engine::collection::make_room;
use tenon_engine::ids::InvocationId;
use tenon_engine::state::State;
use tenon_engine::string::to_bytes;
use tenon_engine::thrown::Thrown;
use tenon_op::op;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data};

use crate::delivery::headers_of;
use crate::ops::{Argument, Arguments, HeaderList};
use crate::websocket::sockets::send_queue::{MESSAGE_OVERHEAD, Message, SendEntry, SendQueue};
use crate::websocket::sockets::splice::SpliceError;
use crate::websocket::sockets::{SocketId, Sockets, reader, splice};

/// The callback of a socket.
type SocketCallback<'s> = v8::Local<'s, v8::Function>;
/// The data that a socket sends: a string or a view.
type SocketData<'s> = v8::Local<'s, v8::Value>;

impl<'s> Argument<'s> for SocketId {
    fn take(
        scope: &mut v8::PinScope<'s, '_>,
        arguments: &mut Arguments<'s>,
    ) -> Result<Self, Thrown> {
        arguments.take(scope).map(Self::from_number)
    }
}

/// The results of `socketSend`, as `websocket.js` numbers them.
const QUEUED: u32 = 0;
const GONE: u32 = 1;
const FULL: u32 = 2;

/// The maximum length of a Close frame's reason, in bytes of UTF-8 (RFC 6455 §5.5). JavaScript
/// enforces this limit.
const MAX_REASON: usize = 123;

fn queue(
    scope: &v8::PinScope<'_, '_>,
    owner: InvocationId,
    socket: SocketId,
) -> Option<std::rc::Rc<SendQueue>> {
    let state = State::of(scope);
    let invocations = state.invocations.borrow();
    invocations.get(owner)?.attached::<Sockets>()?.queue(socket).cloned()
}

/// Answers the request of `invocation` with a new socket. Returns the socket's number, or 0 if the
/// client's handshake is invalid, which is reported to the client.
///
/// # Errors
/// Returns a `TypeError` if the socket cannot be created.
#[op]
pub(crate) fn socket_serve(
    scope: &mut v8::PinScope<'_, '_>,
    invocation: InvocationId,
    headers: HeaderList<'_>,
) -> Result<f64, Thrown> {
    let served = headers_of(scope, headers)
        .map_err(|refused| Thrown::type_error(refused.to_string()))
        .map(|(headers, size)| splice::serve(scope, invocation, headers, size))?;
    served.map(SocketId::to_number).or_else(|refused| refuse(scope, invocation, refused))
}

/// Answers the request of `invocation` with a socket of `owner`. Returns 1, or 0 if the client's
/// handshake is invalid, which is reported to the client.
///
/// # Errors
/// Returns a `TypeError` if the socket cannot be spliced.
#[op]
pub(crate) fn socket_splice(
    scope: &mut v8::PinScope<'_, '_>,
    invocation: InvocationId,
    headers: HeaderList<'_>,
    (owner, socket): (InvocationId, SocketId),
) -> Result<f64, Thrown> {
    let head =
        headers_of(scope, headers).map_err(|refused| Thrown::type_error(refused.to_string()))?;
    let spliced = splice::splice(scope, invocation, head, (owner, socket));
    spliced.map(|()| 1.0).or_else(|refused| refuse(scope, invocation, refused))
}

/// Answers a malformed handshake and returns 0.
fn refuse(
    scope: &mut v8::PinScope<'_, '_>,
    invocation: InvocationId,
    refused: SpliceError,
) -> Result<f64, Thrown> {
    match refused {
        SpliceError::Malformed(failure) => {
            State::of(scope).set_outcome(invocation, Err(failure));
            Ok(0.0)
        }
        other => Err(Thrown::type_error(other.to_string())),
    }
}

/// Accepts a socket. Returns whether the callback will be called from now on.
#[op]
pub(crate) fn socket_accept(
    scope: &mut v8::PinScope<'_, '_>,
    (owner, socket): (InvocationId, SocketId),
    callback: SocketCallback<'_>,
) -> bool {
    reader::accept(scope, owner, socket, callback).is_some()
}

/// Sends a string or a view. Returns the number of the result in `websocket.js`.
#[op]
pub(crate) fn socket_send(
    scope: &mut v8::PinScope<'_, '_>,
    (owner, socket): (InvocationId, SocketId),
    data: SocketData<'_>,
) -> u32 {
    let Some(queue) = queue(scope, owner, socket) else { return GONE };
    let kind = if data.is_string() { Data::Text } else { Data::Binary };
    let charge =
        make_room(scope, MESSAGE_OVERHEAD).and_then(|buffers| buffers.charge(MESSAGE_OVERHEAD));
    match charge.and_then(|charge| Some((charge, to_bytes(scope, data)?))) {
        Some((_charge, bytes)) => {
            queue.push(SendEntry::Message(Message { kind, bytes, _charge }));
            QUEUED
        }
        None => {
            queue.overflow();
            FULL
        }
    }
}

/// Closes a socket; a code of 0 means none. A reason that is longer than [`MAX_REASON`] is left
/// out.
#[op]
pub(crate) fn socket_close(
    scope: &mut v8::PinScope<'_, '_>,
    (owner, socket): (InvocationId, SocketId),
    code: u32,
    reason: Option<String>,
) {
    let Some(queue) = queue(scope, owner, socket) else { return };
    let code = code as u16;
    let reason = reason.filter(|reason| reason.len() <= MAX_REASON).unwrap_or_default();
    let frame =
        (code != 0).then(|| CloseFrame { code: CloseCode::from(code), reason: reason.into() });
    queue.push(SendEntry::Close(frame));
}

/// Returns the number of a socket's unsent bytes, or -1 if the socket has ended.
#[op]
pub(crate) fn socket_buffered(
    scope: &mut v8::PinScope<'_, '_>,
    (owner, socket): (InvocationId, SocketId),
) -> f64 {
    queue(scope, owner, socket).map_or(-1.0, |queue| queue.buffered() as f64)
}

/// Returns the extensions that both sides of a socket have agreed on, in the form of a header.
#[op]
pub(crate) fn socket_extensions(
    scope: &mut v8::PinScope<'_, '_>,
    (owner, socket): (InvocationId, SocketId),
) -> String {
    let state = State::of(scope);
    let invocations = state.invocations.borrow();
    let sockets = invocations.get(owner).and_then(|owner| owner.attached::<Sockets>());
    let deflate = sockets.and_then(|sockets| sockets.deflate(socket));
    deflate.map(|deflate| deflate.to_string()).unwrap_or_default()
}

/// Drops a socket.
#[op]
pub(crate) fn socket_drop(
    scope: &mut v8::PinScope<'_, '_>,
    (owner, socket): (InvocationId, SocketId),
) {
    // The socket is dropped after the borrow has ended, because its `Drop` may borrow again.
    let dropped = State::of(scope)
        .invocations
        .borrow_mut()
        .get_mut(owner)
        .and_then(|held| held.attached_mut::<Sockets>()?.remove(socket));
    drop(dropped);
}
