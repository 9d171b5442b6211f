//! The native half of `websocket.js`. A socket is identified by the invocation that owns it and a
//! number.
//!
//! ```text
//!  socketServe ─► a number ─┬─► socketAccept ─► callback(kind, …), in turns
//!  fetchSend, serviceSend ──┤   socketSend, socketClose, socketBuffered
//!                           ├─► socketSplice: the answer to a request
//!                           └─► socketDrop
//! ```

pub(crate) mod sockets;

use tenon_engine::collection::make_room;
use tenon_engine::ids::InvocationId;
use tenon_engine::state::State;
use tenon_engine::string::to_bytes;
use tenon_engine::thrown::Thrown;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data};

use crate::delivery::headers_of;
use crate::ops::invocation;
use crate::websocket::sockets::line::{Line, MESSAGE, Message, Said};
use crate::websocket::sockets::splice::Refused;
use crate::websocket::sockets::{SocketId, Sockets, attend, splice};

crate::ops::native! {
    "socketServe(invocation: number, headers: string[]): number" => serve,
    "socketSplice(invocation: number, headers: string[], owner: number, socket: number): number" => splice,
    "socketAccept(owner: number, socket: number, callback: Heard): boolean" => accept,
    "socketSend(owner: number, socket: number, data: string | View): number" => send,
    "socketClose(owner: number, socket: number, code: number, reason: string): void" => close,
    "socketBuffered(owner: number, socket: number): number" => buffered,
    "socketDrop(owner: number, socket: number): void" => forget,
}

/// The results of `socketSend`, as `websocket.js` numbers them.
const SAID: u32 = 0;
const GONE: u32 = 1;
const FULL: u32 = 2;

/// The longest reason of a Close frame, in bytes of UTF-8 (RFC 6455 §5.5); JavaScript enforces it.
const REASON: usize = 123;

fn socket(
    scope: &v8::PinScope<'_, '_>,
    owner: v8::Local<'_, v8::Value>,
    number: v8::Local<'_, v8::Value>,
) -> (InvocationId, SocketId) {
    (
        invocation(scope, owner),
        SocketId::from_number(number.number_value(scope).unwrap_or_default()),
    )
}

fn line(
    scope: &v8::PinScope<'_, '_>,
    args: &v8::FunctionCallbackArguments<'_>,
) -> Option<std::rc::Rc<Line>> {
    let (owner, number) = socket(scope, args.get(0), args.get(1));
    let state = State::of(scope);
    let invocations = state.invocations.borrow();
    invocations.get(owner)?.attached::<Sockets>()?.line(number).cloned()
}

/// `socketServe(id, headers)`: returns the number of the socket that answers the request, or 0 if
/// the client's handshake is invalid and it is told so. Throws if the socket cannot be created.
pub(crate) fn serve(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut rv: v8::ReturnValue<'_>,
) {
    let id = invocation(scope, args.get(0));
    let served = match headers_of(scope, args.get(1)) {
        Ok((headers, size)) => splice::serve(scope, id, headers, size),
        Err(refused) => return Thrown::type_error(refused.to_string()).throw(scope),
    };
    match served {
        Ok(number) => rv.set_double(number.to_number()),
        Err(refused) => refuse(scope, id, refused, rv),
    }
}

/// `socketSplice(id, headers, owner, number)`: answers the request with that socket, and returns 1;
/// fails as `socketServe` does.
pub(crate) fn splice(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut rv: v8::ReturnValue<'_>,
) {
    let id = invocation(scope, args.get(0));
    let head = match headers_of(scope, args.get(1)) {
        Ok(head) => head,
        Err(refused) => return Thrown::type_error(refused.to_string()).throw(scope),
    };
    let spliced = socket(scope, args.get(2), args.get(3));
    match splice::splice(scope, id, head, spliced) {
        Ok(()) => rv.set_double(1.0),
        Err(refused) => refuse(scope, id, refused, rv),
    }
}

fn refuse(
    scope: &mut v8::PinScope<'_, '_>,
    id: InvocationId,
    refused: Refused,
    mut rv: v8::ReturnValue<'_>,
) {
    match refused {
        Refused::Malformed(failure) => {
            State::of(scope).answer(id, Err(failure));
            rv.set_double(0.0);
        }
        other => Thrown::type_error(other.to_string()).throw(scope),
    }
}

/// `socketAccept(owner, number, callback)`: returns whether the callback will be called from now
/// on.
pub(crate) fn accept(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut rv: v8::ReturnValue<'_>,
) {
    let (owner, number) = socket(scope, args.get(0), args.get(1));
    let Ok(callback) = args.get(2).try_cast::<v8::Function>() else { return };
    let accepted = attend::accept(scope, owner, number, callback);
    rv.set_bool(accepted.is_some());
}

/// `socketSend(owner, number, data)`: sends a string or a view; returns the message's fate.
pub(crate) fn send(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut rv: v8::ReturnValue<'_>,
) {
    let Some(line) = line(scope, &args) else { return rv.set_uint32(GONE) };
    let data = args.get(2);
    let kind = if data.is_string() { Data::Text } else { Data::Binary };
    let charge = make_room(scope, MESSAGE).and_then(|buffers| buffers.charge(MESSAGE));
    match charge.and_then(|charge| Some((charge, to_bytes(scope, data)?))) {
        Some((_charge, bytes)) => {
            line.say(Said::Message(Message { kind, bytes, _charge }));
            rv.set_uint32(SAID);
        }
        None => {
            line.overflow();
            rv.set_uint32(FULL);
        }
    }
}

/// `socketClose(owner, number, code, reason)`: closes the socket; a code of 0 means none.
pub(crate) fn close(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    _: v8::ReturnValue<'_>,
) {
    let Some(line) = line(scope, &args) else { return };
    let code = args.get(2).uint32_value(scope).unwrap_or_default() as u16;
    let reason =
        args.get(3).try_cast::<v8::String>().ok().map(|reason| reason.to_rust_string_lossy(scope));
    let reason = reason.filter(|reason| reason.len() <= REASON).unwrap_or_default();
    let frame =
        (code != 0).then(|| CloseFrame { code: CloseCode::from(code), reason: reason.into() });
    line.say(Said::Close(frame));
}

/// `socketBuffered(owner, number)`: returns the number of unsent bytes, or -1 if the socket has
/// ended.
pub(crate) fn buffered(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut rv: v8::ReturnValue<'_>,
) {
    rv.set_double(line(scope, &args).map_or(-1.0, |line| line.buffered() as f64));
}

/// `socketDrop(owner, number)`: drops the socket.
pub(crate) fn forget(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    _: v8::ReturnValue<'_>,
) {
    let (owner, number) = socket(scope, args.get(0), args.get(1));
    // Dropped after the borrow has ended, because its destructor may borrow again.
    let dropped = State::of(scope)
        .invocations
        .borrow_mut()
        .get_mut(owner)
        .and_then(|held| held.attached_mut::<Sockets>()?.remove(number));
    drop(dropped);
}
