//! `bodyRead(id)`: a promise of the request's whole body as a `Uint8Array`.
//!
//! The body is collected as fast as its sender allows and up to the Worker's limit. Where the reading fails the
//! promise is rejected, and whatever the handler makes of that, the caller is told what was wrong with the body.

use bytes::BytesMut;
use futures::{FutureExt as _, StreamExt as _};
use tenon_proto::failure::{Failure, FailureCode, Phase};

use super::invocation;
use crate::engine::RequestBody;
use crate::engine::invocation::InvocationId;
use crate::engine::state::{Settle, State};
use crate::engine::string::to_uint8_array;

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
        Some(RequestBody::Full(bytes)) if bytes.len() > limit => {
            settle(scope, &state, id, resolver, Err(too_large()));
        }
        Some(RequestBody::Full(bytes)) => settle(scope, &state, id, resolver, Ok(bytes.into())),
        Some(stream @ RequestBody::Stream(_)) => {
            let held = v8::Global::new(scope, resolver);
            let home = std::rc::Rc::downgrade(&state);
            let work = async move {
                let body = collect(stream, limit).await;
                let settle: Settle = Box::new(move |scope| {
                    let resolver = v8::Local::new(scope, &held);
                    settle(scope, &*home.upgrade()?, id, resolver, body);
                    Some(())
                });
                settle
            };
            if state.operate(id, |_| work.boxed_local()).is_none() {
                reject(scope, resolver, "The invocation has too much under way");
            }
        }
    }
}

async fn collect(body: RequestBody, limit: usize) -> Result<Vec<u8>, Failure> {
    let RequestBody::Stream(mut parts) = body else { return Ok(Vec::new()) };
    let mut body = BytesMut::new();
    while let Some(part) = parts.next().await.transpose()? {
        if body.len() + part.len() > limit {
            return Err(too_large());
        }
        body.extend_from_slice(&part);
    }
    Ok(body.into())
}

fn too_large() -> Failure {
    Failure::new(FailureCode::RequestTooLarge, Phase::Handler, "the request's body is over the Worker's limit")
}

fn settle(
    scope: &mut v8::PinScope<'_, '_>,
    state: &State,
    id: InvocationId,
    resolver: v8::Local<'_, v8::PromiseResolver>,
    body: Result<Vec<u8>, Failure>,
) {
    let bytes = match body {
        Ok(bytes) => bytes,
        Err(failure) => {
            reject(scope, resolver, &failure.message);
            return state.answer(id, Err(failure));
        }
    };
    v8::tc_scope!(let scope, scope);
    if let Some(array) = to_uint8_array(scope, bytes) {
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
