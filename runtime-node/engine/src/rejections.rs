//! Rejected promises without a handler.
//!
//! ```text
//!  rejected ─┬─ a handler within the turn ─► nothing
//!            └─ the turn ends ─► `unhandledrejection` ─┬─ prevented ─► nothing
//!                                                      └─ the log
//!                  a handler after that ─► `rejectionhandled`
//! ```
//!
//! The events run a Worker's code at the end of the turn, on its CPU time. Rejections that this
//! code causes are processed as well, for a few rounds.

use super::exception::Exception;
use super::invocation::InvocationId;
use super::modules;
use super::report;
use super::state::State;

/// The most rejections remembered per turn, of each kind. A Worker may cause a million in one turn.
const REJECTIONS: usize = 64;

/// The number of rounds at the end of a turn that deliver events. Later rejections are only logged.
const ROUNDS: usize = 4;

/// The rejections of the running turn.
#[derive(Default)]
pub(crate) struct Rejections {
    /// Promises that were rejected and have no handler yet.
    unhandled: Vec<Rejection>,
    /// Promises that were rejected in an earlier turn and have a handler now.
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

/// Records V8's message about a promise.
pub(crate) fn note(scope: &mut v8::PinScope<'_, '_>, message: &v8::PromiseRejectMessage<'_>) {
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

/// Delivers the events of a turn's rejections to the Worker, at the end of the turn, and logs those
/// that it does not handle.
pub(crate) fn report(scope: &mut v8::PinScope<'_, '_>, state: &State) {
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

/// Delivers the event of a rejection on behalf of its invocation. Returns whether its default was
/// prevented.
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
