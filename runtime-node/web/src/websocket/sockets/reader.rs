//! Delivers a socket's events to JavaScript: each event is a turn of the invocation that owns the
//! socket.
//!
//! ```text
//!  accept ─► poll the pump ─► event ─► turn: callback(kind, …) ─┬─► poll the pump …
//!                                                               └─ closed ─► the operation ends
//! ```

use std::future::poll_fn;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use tenon_engine::collection::make_room;
use tenon_engine::continuation;
use tenon_engine::heap::Charge;
use tenon_engine::ids::{InvocationId, OperationId};
use tenon_engine::operations::Settle;
use tenon_engine::state::State;
use tenon_engine::string::array_of;

use super::pump::{Closed, Event, Pump, SOCKET_MEMORY};
use super::{SocketId, Sockets};
use crate::websocket::sockets::Leaving;

/// The kinds of events, as in `websocket.js`.
const TEXT: i32 = 0;
const BINARY: i32 = 1;
const CLOSING: i32 = 2;
const CLOSED: i32 = 3;

struct Reader {
    owner: InvocationId,
    number: SocketId,
    pump: Pump,
    /// A built-in function (`websocket.js`), which catches exceptions of a Worker's listeners.
    callback: v8::Global<v8::Function>,
    /// Charges for the protocol's buffers and for the operation.
    _charges: [Charge; 2],
}

/// Begins to read from the socket. Its invocation stays alive until the socket has closed. Returns
/// `None` if the invocation has ended or has too many operations in flight, if there is no memory
/// for the socket, or if the socket has been accepted before.
///
/// # Arguments
/// * `callback` - `callback(kind, …)` is called for each event: with a string, with a `Uint8Array`,
///   without a value when the peer begins to close, and finally with the code, the reason, whether
///   the close was clean, whether the socket failed, and how many bytes were not sent.
pub(crate) fn accept(
    scope: &mut v8::PinScope<'_, '_>,
    owner: InvocationId,
    number: SocketId,
    callback: v8::Local<'_, v8::Function>,
) -> Option<()> {
    let state = State::of(scope);
    let buffers = make_room(scope, SOCKET_MEMORY)?.charge(SOCKET_MEMORY)?;
    let (socket, queue) =
        state.invocations.borrow_mut().get_mut(owner)?.attached_mut::<Sockets>()?.accept(number)?;
    let leaving = scope
        .get_slot::<Leaving>()
        .expect("every isolate has the signal that its node is leaving")
        .wait()
        .boxed_local();
    let pump = Pump::new(socket, queue, leaving, (owner, &state));
    let callback = v8::Global::new(scope, callback);
    state.operate(scope, owner, |operation, charge| {
        read_next(operation, Reader { owner, number, pump, callback, _charges: [buffers, charge] })
    })?;
    state.invocations.borrow_mut().wait_until(owner).then_some(())
}

fn read_next(operation: OperationId, mut reader: Reader) -> LocalBoxFuture<'static, Settle> {
    async move {
        let event = poll_fn(|cx| reader.pump.poll(cx)).await;
        let settle: Settle = Box::new(move |scope| reader.deliver(scope, operation, event));
        settle
    }
    .boxed_local()
}

impl Reader {
    fn deliver(
        mut self,
        scope: &mut v8::PinScope<'_, '_>,
        operation: OperationId,
        event: Event,
    ) -> Option<()> {
        let state = State::of(scope);
        let callback = v8::Local::new(scope, &self.callback);
        let undefined: v8::Local<'_, v8::Value> = v8::undefined(scope).into();
        match event {
            Event::Closed(closed) => {
                let (owner, number) = (self.owner, self.number);
                let ended = state.invocations.borrow_mut().get_mut(owner).and_then(|invocation| {
                    let sockets = invocation.attached_mut::<Sockets>()?;
                    let buffered = sockets.queue(number).map(|queue| queue.buffered());
                    sockets.remove(number);
                    buffered
                });
                drop(self);
                let called = call_closed(scope, callback, closed, ended.unwrap_or_default());
                state.promise_settled(owner);
                called
            }
            Event::Shortage(wanted) => {
                if make_room(scope, wanted).is_none() || !self.pump.retry_charge() {
                    self.pump.refuse();
                }
                self.poll_again(scope, operation);
                Some(())
            }
            Event::Closing => {
                self.poll_again(scope, operation);
                let kind = v8::Integer::new(scope, CLOSING).into();
                callback.call(scope, undefined, &[kind]).map(drop)
            }
            Event::Text(text) => {
                self.pump.release_charge();
                let value = text_of(scope, text.as_str());
                self.hand_over(scope, operation, TEXT, value)
            }
            Event::Binary(bytes) => {
                self.pump.release_charge();
                let value = bytes_of(scope, bytes);
                self.hand_over(scope, operation, BINARY, value)
            }
        }
    }

    /// Passes a message to JavaScript. Refuses the message if there was no memory for its `value`.
    fn hand_over(
        mut self,
        scope: &mut v8::PinScope<'_, '_>,
        operation: OperationId,
        kind: i32,
        value: Option<v8::Local<'_, v8::Value>>,
    ) -> Option<()> {
        let callback = v8::Local::new(scope, &self.callback);
        if value.is_none() {
            self.pump.refuse();
        }
        self.poll_again(scope, operation);
        let Some(value) = value else { return Some(()) };
        let kind = v8::Integer::new(scope, kind).into();
        let undefined = v8::undefined(scope).into();
        callback.call(scope, undefined, &[kind, value]).map(drop)
    }

    /// Polls the pump again after this turn.
    fn poll_again(self, scope: &v8::PinScope<'_, '_>, operation: OperationId) {
        let owner = self.owner;
        let next = continuation::keep(scope, owner, read_next(operation, self));
        State::of(scope).operate_as(owner, operation, next);
    }
}

fn text_of<'s>(scope: &v8::PinScope<'s, '_>, text: &str) -> Option<v8::Local<'s, v8::Value>> {
    v8::String::new(scope, text).map(v8::Local::from)
}

fn bytes_of<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    bytes: Bytes,
) -> Option<v8::Local<'s, v8::Value>> {
    let counted = make_room(scope, bytes.len())?.count(bytes.into())?;
    array_of(scope, counted).map(v8::Local::from)
}

fn call_closed(
    scope: &mut v8::PinScope<'_, '_>,
    callback: v8::Local<'_, v8::Function>,
    closed: Closed,
    buffered: usize,
) -> Option<()> {
    let Closed { code, reason, was_clean, has_failed } = closed;
    let parts: [v8::Local<'_, v8::Value>; 6] = [
        v8::Integer::new(scope, CLOSED).into(),
        v8::Integer::new(scope, code.into()).into(),
        v8::String::new(scope, &reason)?.into(),
        v8::Boolean::new(scope, was_clean).into(),
        v8::Boolean::new(scope, has_failed).into(),
        v8::Number::new(scope, buffered as f64).into(),
    ];
    let undefined = v8::undefined(scope).into();
    callback.call(scope, undefined, &parts).map(drop)
}
