//! Promises that were rejected and have no handler.
//!
//! ```text
//!  rejected ─┬─ a handler within the turn ─► nothing
//!            └─ the turn ends ─► `unhandledrejection` ─┬─ prevented ─► nothing
//!                                                      └─ the log
//!                  a handler after that ─► `rejectionhandled`
//! ```
//!
//! The events run a Worker's code, at the end of the turn and of its time; what that rejects in turn is seen to as well, a
//! few times over.

use super::exception::Exception;
use super::invocation::InvocationId;
use super::modules;
use super::report;
use super::state::State;

/// Rejections remembered per turn. A Worker may make a million of them in one.
const REJECTIONS: usize = 64;

/// How often the end of a turn looks for what the events have brought. What comes then is logged.
const ROUNDS: usize = 4;

/// What became of promises in the running turn.
#[derive(Default)]
pub(super) struct Rejections {
    /// Rejected, and nobody handles them yet.
    unhandled: Vec<Rejection>,
    /// Rejected before, and now somebody does.
    handled: Vec<Rejection>,
}

struct Rejection {
    promise: v8::Global<v8::Promise>,
    reason: v8::Global<v8::Value>,
    invocation: Option<InvocationId>,
}

impl Rejections {
    fn are_none(&self) -> bool {
        self.unhandled.is_empty() && self.handled.is_empty()
    }
}

/// Notes what V8 says of a promise.
pub(super) fn note(scope: &mut v8::PinScope<'_, '_>, message: &v8::PromiseRejectMessage<'_>) {
    let state = State::of(scope);
    let promise = message.get_promise();
    let rejection = |reason: v8::Local<'_, v8::Value>| Rejection {
        promise: v8::Global::new(scope, promise),
        reason: v8::Global::new(scope, reason),
        invocation: state.current(scope),
    };
    match message.get_event() {
        v8::PromiseRejectEvent::PromiseRejectWithNoHandler => {
            let Some(reason) = message.get_value() else { return };
            if state.rejections.borrow().unhandled.len() < REJECTIONS {
                let rejection = rejection(reason);
                state.rejections.borrow_mut().unhandled.push(rejection);
            }
        }
        v8::PromiseRejectEvent::PromiseHandlerAddedAfterReject => {
            let mut rejections = state.rejections.borrow_mut();
            let before = rejections.unhandled.len();
            rejections.unhandled.retain(|rejection| rejection.promise != promise);
            let was_reported = rejections.unhandled.len() == before;
            let has_room = rejections.handled.len() < REJECTIONS;
            drop(rejections);
            if was_reported && has_room {
                let rejection = rejection(promise.result(scope));
                state.rejections.borrow_mut().handled.push(rejection);
            }
        }
        v8::PromiseRejectEvent::PromiseRejectAfterResolved | v8::PromiseRejectEvent::PromiseResolveAfterResolved => {}
    }
}

/// Tells the Worker what has become of its promises, at the end of a turn, and the log what it does not take care of.
pub(super) fn report(scope: &mut v8::PinScope<'_, '_>, state: &State) {
    for round in 0..=ROUNDS {
        if state.rejections.borrow().are_none() {
            return;
        }
        let Rejections { unhandled, handled } = state.rejections.take();
        let asks = round < ROUNDS && !scope.is_execution_terminating();
        for rejection in handled.iter().filter(|_| asks) {
            tell(scope, rejection, true);
        }
        for rejection in unhandled {
            if asks && tell(scope, &rejection, false) {
                continue;
            }
            let reason = v8::Local::new(scope, &rejection.reason);
            let exception = Exception::describe(scope, reason);
            report::uncaught(state, rejection.invocation, "unhandled rejection", &exception);
        }
        if asks {
            scope.perform_microtask_checkpoint();
        }
    }
}

/// Has the event of a rejection delivered, on behalf of the invocation whose it is. Whether its default was prevented.
fn tell(scope: &mut v8::PinScope<'_, '_>, rejection: &Rejection, is_handled: bool) -> bool {
    let Some(realm) = modules::realm(scope) else { return false };
    v8::tc_scope!(let scope, scope);
    let before = scope.get_continuation_preserved_embedder_data();
    let owner = v8::Number::new(scope, rejection.invocation.map_or(0.0, InvocationId::to_number));
    scope.set_continuation_preserved_embedder_data(owner.into());
    let hook = v8::Local::new(scope, &realm.hooks.rejection);
    let promise = v8::Local::new(scope, &rejection.promise).into();
    let reason = v8::Local::new(scope, &rejection.reason);
    let is_handled = v8::Boolean::new(scope, is_handled).into();
    let undefined = v8::undefined(scope).into();
    let prevented = hook.call(scope, undefined, &[promise, reason, is_handled]);
    scope.set_continuation_preserved_embedder_data(before);
    prevented.is_some_and(|prevented| prevented.is_true())
}
