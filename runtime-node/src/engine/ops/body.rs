//! `bodyRead(id)`: a promise of the request's whole body as a `Uint8Array`.
//!
//! ```text
//!  read ─► arrive ── all of it ──────────────► settle
//!            ▲  └─── no room for the next part ─► a turn: is some of the memory garbage? ── no ─► settle
//!            └─────────────────────────────────────── yes ──┘
//! ```
//!
//! The body is collected as fast as its sender allows and up to the Worker's limit, counted against the isolate's
//! memory part by part. One that nobody reads is not collected: of it there is what came with the request's head, and
//! what HTTP/2's flow control let the sender send ahead.
//!
//! Where the reading fails the promise is rejected, and whatever the handler makes of that, the caller is told what was
//! wrong with the body.

use std::pin::Pin;

use bytes::Bytes;
use futures::future::LocalBoxFuture;
use futures::{FutureExt as _, Stream, StreamExt as _};
use tenon_proto::failure::{Failure, FailureCode, Phase};

use super::invocation;
use crate::engine::RequestBody;
use crate::engine::collection::make_room;
use crate::engine::heap::{Charge, Counted};
use crate::engine::invocation::{InvocationId, OperationId};
use crate::engine::state::{Settle, State};
use crate::engine::string::array_of;

/// A body that arrives.
struct Reading {
    invocation: InvocationId,
    resolver: v8::Global<v8::PromiseResolver>,
    parts: Pin<Box<dyn Stream<Item = Result<Bytes, Failure>>>>,
    body: Counted,
    limit: usize,
    _charge: Charge,
}

/// Why a body has not arrived.
enum Halt {
    Failed(Failure),
    /// There must be so many bytes more for the next part.
    NoRoom {
        part: Bytes,
        wanted: usize,
    },
}

pub(super) fn read(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut rv: v8::ReturnValue<'_>,
) {
    let id = invocation(scope, args.get(0));
    let state = State::of(scope);
    let Some(resolver) = v8::PromiseResolver::new(scope) else { return };
    rv.set(resolver.get_promise(scope).into());
    let body = state.invocations.borrow_mut().get_mut(id).and_then(|invocation| invocation.body.take());
    let limit = state.revision.limits.request_body_mib as usize * (1 << 20);
    match body {
        None => reject(scope, resolver, "The request's body cannot be read any more"),
        Some(RequestBody::Full(bytes)) => {
            let body = if bytes.len() > limit {
                Err(too_large())
            } else {
                let room = make_room(scope, bytes.len());
                room.and_then(|buffers| buffers.count(bytes.into())).ok_or_else(out_of_memory)
            };
            settle(scope, &state, id, resolver, body);
        }
        Some(RequestBody::Stream(parts)) => {
            let held = v8::Global::new(scope, resolver);
            let body = state.buffers.count_pieces();
            let begun = state.operate(scope, id, |operation, charge| {
                arrive(operation, Reading { invocation: id, resolver: held, parts, body, limit, _charge: charge })
            });
            if begun.is_none() {
                reject(scope, resolver, "The invocation has too much under way");
            }
        }
    }
}

fn arrive(operation: OperationId, mut reading: Reading) -> LocalBoxFuture<'static, Settle> {
    async move {
        let arrived = reading.rest().await;
        let settle: Settle = Box::new(move |scope| {
            let state = State::of(scope);
            let body = match arrived {
                Ok(()) => Ok(reading.body),
                Err(Halt::Failed(failure)) => Err(failure),
                Err(Halt::NoRoom { part, wanted }) => {
                    if make_room(scope, wanted).is_some() && reading.take(part).is_ok() {
                        state.operate_as(reading.invocation, operation, arrive(operation, reading));
                        return Some(());
                    }
                    Err(out_of_memory())
                }
            };
            let resolver = v8::Local::new(scope, &reading.resolver);
            settle(scope, &state, reading.invocation, resolver, body);
            Some(())
        });
        settle
    }
    .boxed_local()
}

impl Reading {
    /// Takes what is still to come.
    async fn rest(&mut self) -> Result<(), Halt> {
        while let Some(part) = self.parts.next().await.transpose().map_err(Halt::Failed)? {
            self.take(part)?;
        }
        Ok(())
    }

    fn take(&mut self, part: Bytes) -> Result<(), Halt> {
        if self.body.len() + part.len() > self.limit {
            return Err(Halt::Failed(too_large()));
        }
        self.body.push(&part, self.limit).map_err(|wanted| Halt::NoRoom { part, wanted })
    }
}

fn out_of_memory() -> Failure {
    let why = "the request's body does not fit into the Worker's memory";
    Failure::new(FailureCode::MemoryLimitExceeded, Phase::Handler, why)
}

fn too_large() -> Failure {
    Failure::new(FailureCode::RequestTooLarge, Phase::Handler, "the request's body is over the Worker's limit")
}

fn settle(
    scope: &mut v8::PinScope<'_, '_>,
    state: &State,
    id: InvocationId,
    resolver: v8::Local<'_, v8::PromiseResolver>,
    body: Result<Counted, Failure>,
) {
    let body = match body {
        Ok(body) => body,
        Err(failure) => {
            reject(scope, resolver, &failure.message);
            return state.answer(id, Err(failure));
        }
    };
    v8::tc_scope!(let scope, scope);
    if let Some(array) = array_of(scope, body) {
        resolver.resolve(scope, array.into());
    } else if let Some(exception) = scope.exception() {
        scope.reset();
        resolver.reject(scope, exception);
    }
}

fn reject(scope: &mut v8::PinScope<'_, '_>, resolver: v8::Local<'_, v8::PromiseResolver>, message: &str) {
    if let Some(message) = v8::String::new(scope, message) {
        let error = v8::Exception::type_error(scope, message);
        resolver.reject(scope, error);
    }
}
