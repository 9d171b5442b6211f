//! The native half of `websocket.js`: sockets by the invocation that has them and their number.
//!
//! ```text
//!  socketServe ─► a number ─┬─► socketAccept ─► callback(kind, …), in turns
//!  fetchSend, serviceSend ──┤   socketSend, socketClose, socketBuffered
//!                           ├─► socketSplice: the answer to a request
//!                           └─► socketDrop
//! ```

use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data};

use super::dispatch::headers_of;
use super::invocation;
use super::promise::Thrown;
use crate::engine::collection::make_room;
use crate::engine::invocation::InvocationId;
use crate::engine::sockets::line::{Line, MESSAGE, Message, Said};
use crate::engine::sockets::splice::Refused;
use crate::engine::sockets::{SocketId, attend, splice};
use crate::engine::state::State;
use crate::engine::string::to_bytes;

/// What has become of a message, as `websocket.js` knows it.
const SAID: u32 = 0;
const GONE: u32 = 1;
const FULL: u32 = 2;

/// The longest reason for which a socket is closed, in bytes of UTF-8 (RFC 6455 §5.5): JavaScript sees to that.
const REASON: usize = 123;

fn socket(
    scope: &v8::PinScope<'_, '_>,
    owner: v8::Local<'_, v8::Value>,
    number: v8::Local<'_, v8::Value>,
) -> (InvocationId, SocketId) {
    (invocation(scope, owner), SocketId::from_number(number.number_value(scope).unwrap_or_default()))
}

fn line(scope: &v8::PinScope<'_, '_>, args: &v8::FunctionCallbackArguments<'_>) -> Option<std::rc::Rc<Line>> {
    let (owner, number) = socket(scope, args.get(0), args.get(1));
    let state = State::of(scope);
    let invocations = state.invocations.borrow();
    invocations.get(owner)?.sockets.line(number).cloned()
}

/// `socketServe(id, headers)` → the number of the socket that the request is answered with; 0 where the client is told that it
/// has not asked rightly. Throws where there is none.
pub(super) fn serve(
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

/// `socketSplice(id, headers, owner, number)` → whether the request is answered with that socket, as for `socketServe`.
pub(super) fn splice(
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

fn refuse(scope: &mut v8::PinScope<'_, '_>, id: InvocationId, refused: Refused, mut rv: v8::ReturnValue<'_>) {
    match refused {
        Refused::Malformed(failure) => {
            State::of(scope).answer(id, Err(failure));
            rv.set_double(0.0);
        }
        other => Thrown::type_error(other.to_string()).throw(scope),
    }
}

/// `socketAccept(owner, number, callback)` → whether it calls back from now on.
pub(super) fn accept(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut rv: v8::ReturnValue<'_>,
) {
    let (owner, number) = socket(scope, args.get(0), args.get(1));
    let Ok(callback) = args.get(2).try_cast::<v8::Function>() else { return };
    let accepted = attend::accept(scope, owner, number, callback);
    rv.set_bool(accepted.is_some());
}

/// `socketSend(owner, number, data)`: a string or a view → what has become of it.
pub(super) fn send(
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

/// `socketClose(owner, number, code, reason)`: the code 0 for none.
pub(super) fn close(scope: &mut v8::PinScope<'_, '_>, args: v8::FunctionCallbackArguments<'_>, _: v8::ReturnValue<'_>) {
    let Some(line) = line(scope, &args) else { return };
    let code = args.get(2).uint32_value(scope).unwrap_or_default() as u16;
    let reason = args.get(3).try_cast::<v8::String>().ok().map(|reason| reason.to_rust_string_lossy(scope));
    let reason = reason.filter(|reason| reason.len() <= REASON).unwrap_or_default();
    let frame = (code != 0).then(|| CloseFrame { code: CloseCode::from(code), reason: reason.into() });
    line.say(Said::Close(frame));
}

/// `socketBuffered(owner, number)` → how many bytes have not been sent; -1 when the socket has ended.
pub(super) fn buffered(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut rv: v8::ReturnValue<'_>,
) {
    rv.set_double(line(scope, &args).map_or(-1.0, |line| line.buffered() as f64));
}

/// `socketDrop(owner, number)`: nobody wants it.
pub(super) fn forget(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    _: v8::ReturnValue<'_>,
) {
    let (owner, number) = socket(scope, args.get(0), args.get(1));
    // Dropped after the borrow: it may hold anything.
    let dropped = State::of(scope).invocations.borrow_mut().get_mut(owner).and_then(|held| held.sockets.remove(number));
    drop(dropped);
}
