//! Delivers unhandled rejections to the Worker as events. Writes the rejections that the Worker
//! does not cancel, and uncaught exceptions, to the Worker's log.
//!
//! ```text
//!  a promise is rejected ─┬─ a handler within the turn ─► nothing
//!                         └─ the turn ends ─► `unhandledrejection` ─┬─ prevented ─► nothing
//!                                                                   └─ the log
//!                               a handler after that ─► `rejectionhandled`
//!  a callback of a FinalizationRegistry throws ─► the log
//! ```
//!
//! The events run the Worker's code at the end of the turn, and the turn's CPU limit includes that
//! code. Rejections that the code causes are processed as well, for up to `ROUNDS` rounds.

use super::exception::Exception;
use super::ids::InvocationId;
use super::realm::Realm;
use super::rejections::{Rejection, Rejections};
use super::state::State;

/// Maximum number of rounds at the end of a turn that deliver events. Rejections after the last
/// round are only logged.
const ROUNDS: usize = 4;

/// Records a rejection, or a late handler, that V8 reports.
pub(crate) fn record(scope: &mut v8::PinScope<'_, '_>, message: &v8::PromiseRejectMessage<'_>) {
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
            if state.rejections.borrow().have_room() {
                let rejection = rejection(reason);
                state.rejections.borrow_mut().add(rejection);
            }
        }
        v8::PromiseRejectEvent::PromiseHandlerAddedAfterReject => {
            let is_late = state.rejections.borrow_mut().forget(promise);
            if is_late && state.rejections.borrow().have_room_for_handled() {
                let rejection = rejection(promise.result(scope));
                state.rejections.borrow_mut().add_handled(rejection);
            }
        }
        v8::PromiseRejectEvent::PromiseRejectAfterResolved
        | v8::PromiseRejectEvent::PromiseResolveAfterResolved => {}
    }
}

/// Delivers the events of a turn's rejections to the Worker, at the end of the turn, and logs the
/// rejections whose events the Worker does not cancel.
pub(crate) fn report(scope: &mut v8::PinScope<'_, '_>, state: &State) {
    for round in 0..=ROUNDS {
        if state.rejections.borrow().is_empty() {
            return;
        }
        let Rejections { unhandled, handled } = state.rejections.take();
        let delivers = round < ROUNDS && !scope.is_execution_terminating();
        for rejection in handled.iter().filter(|_| delivers) {
            dispatch(scope, rejection, true);
        }
        for rejection in unhandled {
            if delivers && dispatch(scope, &rejection, false) {
                continue;
            }
            let reason = v8::Local::new(scope, &rejection.reason);
            let exception = Exception::describe(scope, reason);
            state.log_uncaught(rejection.invocation, "unhandled rejection", &exception);
        }
        if delivers {
            scope.perform_microtask_checkpoint();
        }
    }
}

/// Delivers the event of a rejection on behalf of the rejection's invocation. Returns whether the
/// Worker prevented the event's default action.
fn dispatch(scope: &mut v8::PinScope<'_, '_>, rejection: &Rejection, is_handled: bool) -> bool {
    let Some(realm) = Realm::current(scope) else { return false };
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

/// Logs an exception from a callback of a `FinalizationRegistry`; V8 runs such callbacks by itself.
/// Without this listener, V8 would print the exception.
pub(crate) fn log<'s>(scope: &mut v8::PinScope<'s, '_>, value: v8::Local<'s, v8::Value>) {
    let state = State::of(scope);
    let exception = Exception::describe(scope, value);
    state.log_uncaught(state.current(scope), "uncaught", &exception);
}
