//! What `dispatch.js` calls while it starts a Worker and delivers requests to it.

use bytes::Bytes;
use tenon_proto::runtime::Header;

use super::invocation;
use crate::engine::FetchResponse;
use crate::engine::exception::Exception;
use crate::engine::state::State;
use crate::engine::string::{from_name, from_octets, to_bytes, to_octets};

super::ops! {
    "started" => started,
    "respond" => respond,
    "fail" => fail,
    "waitUntil" => wait_until,
    "waitOver" => wait_over,
    "requestHeaders" => request_headers,
}

/// `started(id)`: the Worker can take events.
fn started(scope: &mut v8::PinScope<'_, '_>, args: v8::FunctionCallbackArguments<'_>, _: v8::ReturnValue<'_>) {
    let id = invocation(scope, args.get(0));
    let nothing = FetchResponse { status: 0, headers: Vec::new(), body: Bytes::new() };
    State::of(scope).answer(id, Ok(nothing));
}

/// `respond(id, status, headers, body)`: headers as name, value, name, value, …; the body a string, a view or null.
fn respond(scope: &mut v8::PinScope<'_, '_>, args: v8::FunctionCallbackArguments<'_>, _: v8::ReturnValue<'_>) {
    let id = invocation(scope, args.get(0));
    let status = args.get(1).uint32_value(scope).unwrap_or_default() as u16;
    let headers = headers_of(scope, args.get(2));
    let body = to_bytes(scope, args.get(3));
    State::of(scope).answer(id, Ok(FetchResponse { status, headers, body }));
}

fn headers_of(scope: &mut v8::PinScope<'_, '_>, list: v8::Local<'_, v8::Value>) -> Vec<Header> {
    let Ok(list) = list.try_cast::<v8::Array>() else { return Vec::new() };
    let string = |index| list.get_index(scope, index)?.try_cast::<v8::String>().ok();
    let pairs = (0..list.length() / 2).filter_map(|pair| string(2 * pair).zip(string(2 * pair + 1)));
    pairs
        .map(|(name, value)| Header { name: name.to_rust_string_lossy(scope), value: to_octets(scope, value) })
        .collect()
}

/// `fail(id, error)`: the invocation threw. The log gets the exception, the caller a code.
fn fail<'s>(scope: &mut v8::PinScope<'s, '_>, args: v8::FunctionCallbackArguments<'s>, _: v8::ReturnValue<'s>) {
    let id = invocation(scope, args.get(0));
    let state = State::of(scope);
    let exception = Exception::describe(scope, args.get(1));
    state.threw(id, &exception);
}

/// `waitUntil(id)`: whether there is still an invocation to keep.
fn wait_until(scope: &mut v8::PinScope<'_, '_>, args: v8::FunctionCallbackArguments<'_>, mut rv: v8::ReturnValue<'_>) {
    let id = invocation(scope, args.get(0));
    rv.set_bool(State::of(scope).invocations.borrow_mut().wait_until(id));
}

/// `waitOver(id)`
fn wait_over(scope: &mut v8::PinScope<'_, '_>, args: v8::FunctionCallbackArguments<'_>, _: v8::ReturnValue<'_>) {
    let id = invocation(scope, args.get(0));
    State::of(scope).invocations.borrow_mut().wait_over(id);
}

/// `requestHeaders(id)`: the request's header list; empty when it was had before.
fn request_headers(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut rv: v8::ReturnValue<'_>,
) {
    let id = invocation(scope, args.get(0));
    let state = State::of(scope);
    let headers = state.invocations.borrow_mut().get_mut(id).map(|invocation| std::mem::take(&mut invocation.headers));
    let headers = headers.unwrap_or_default();
    let strings = headers.iter().flat_map(|header| {
        [from_name(scope, &header.name).map(v8::Local::from), from_octets(scope, &header.value).map(v8::Local::from)]
    });
    let Some(strings) = strings.collect::<Option<Vec<v8::Local<'_, v8::Value>>>>() else { return };
    rv.set(v8::Array::new_with_elements(scope, &strings).into());
}
