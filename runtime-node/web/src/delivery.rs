//! The functions with which `dispatch.js` starts a Worker and delivers requests to it.

pub(crate) mod stack;

use tenon_engine::collection::make_room;
use tenon_engine::exception::Exception;
use tenon_engine::ids::InvocationId;
use tenon_engine::log::Severity;
use tenon_engine::modules;
use tenon_engine::state::State;
use tenon_engine::streams::Incoming;
use tenon_engine::string::{from_headers, to_body, to_octets};
use tenon_engine::{Body, FetchResponse, Piece, ResponseBody};
use tenon_proto::failure::FailureCode;
use tenon_proto::runtime::Header;

use crate::ops::{invocation, stream};

crate::ops::native! {
    "done(invocation: number): void" => done,
    "respond(invocation: number, status: number, headers: string[], body: string | View | null): void" => respond,
    "respondStream(invocation: number, status: number, headers: string[], owner: number, \
     stream: number): void" => respond_stream,
    "fail(invocation: number, error: unknown): void" => fail,
    "waitUntil(invocation: number): boolean" => wait_until,
    "waitOver(invocation: number): void" => wait_over,
    "onCallerLeft(invocation: number, callback: () => void): void" => on_caller_left,
    "requestHeaders(invocation: number): string[]" => request_headers,
    "evaluateModule(specifier: string, referrer: string, \
     attributes: object): [evaluation: Promise<unknown>, namespace: object]" => evaluate_module,
}

/// The limit on a response's headers, in bytes as HTTP/2 counts them: as much as the most
/// permissive of the common proxies accepts, and far below the capacity of a header map.
const HEADERS: usize = 128 * 1024;

/// The overhead of a header beside its name and its value, in bytes (RFC 9113 §6.5.2).
const HEADER: usize = 32;

/// `done(id)`: reports that the Worker can take events, or has handled one that expects no
/// response.
pub(crate) fn done(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    _: v8::ReturnValue<'_>,
) {
    let id = invocation(scope, args.get(0));
    let nothing = FetchResponse {
        status: 0,
        headers: Vec::new(),
        body: ResponseBody::Full(Piece::default()),
    };
    State::of(scope).answer(id, Ok(nothing));
}

/// `respond(id, status, headers, body)`: sends a response. The headers are name, value, name,
/// value, …; the body is a string, a view or null.
pub(crate) fn respond(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    _: v8::ReturnValue<'_>,
) {
    respond_with(scope, &args, |scope, _, size| {
        Ok(to_body(scope, args.get(3), size).map(ResponseBody::Full))
    });
}

/// `respondStream(id, status, headers, owner, number)`: sends a response whose body is a stream of
/// the invocation `owner`.
pub(crate) fn respond_stream(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    _: v8::ReturnValue<'_>,
) {
    respond_with(scope, &args, |scope, id, size| {
        let state = State::of(scope);
        let (owner, number) = stream(scope, args.get(3), args.get(4));
        let taken = state.take_stream(owner, number).ok_or(Refused::NoBody)?;
        let Some(head) = make_room(scope, size).and_then(|buffers| buffers.charge(size)) else {
            return Ok(None);
        };
        Ok(Some(match taken {
            Incoming::Body(Body::Full(bytes)) => ResponseBody::Full(Piece::with(bytes, head)),
            Incoming::Body(Body::Stream(stream)) => {
                ResponseBody::Stream(state.send(id, stream, false, head))
            }
            Incoming::Pipe(reader) => {
                ResponseBody::Stream(state.send(id, Box::pin(reader), true, head))
            }
        }))
    });
}

/// Sends a response.
///
/// # Arguments
/// * `body` - creates the body; `None` means that there is not enough memory. Receives the size of
///   the headers in bytes, which is charged with it.
fn respond_with(
    scope: &mut v8::PinScope<'_, '_>,
    args: &v8::FunctionCallbackArguments<'_>,
    body: impl FnOnce(
        &mut v8::PinScope<'_, '_>,
        InvocationId,
        usize,
    ) -> Result<Option<ResponseBody>, Refused>,
) {
    let id = invocation(scope, args.get(0));
    let status = args.get(1).uint32_value(scope).unwrap_or_default() as u16;
    let made = headers_of(scope, args.get(2))
        .and_then(|(headers, size)| Ok((headers, body(scope, id, size)?)));
    let state = State::of(scope);
    match made {
        Ok((headers, Some(body))) => state.answer(id, Ok(FetchResponse { status, headers, body })),
        Ok((_, None)) => state.fail(id, FailureCode::MemoryLimitExceeded),
        Err(refused) => {
            state.log(Some(id), Severity::Error, &refused.to_string());
            state.fail(id, FailureCode::WorkerException);
        }
    }
}

/// The reason why a response cannot be sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    #[error("the response has headers that are not valid in HTTP")]
    Malformed,
    #[error("the response's headers are larger than {HEADERS} bytes")]
    TooLarge,
    #[error(
        "the response's body can no longer be read: it has been taken, or its invocation has ended"
    )]
    NoBody,
}

/// Returns a response's headers and their size in bytes. Validates each again, although
/// `headers.js` has done so: a Worker that defines a setter for `0` on `Array.prototype` can get
/// hold of the list that the built-in JavaScript keeps.
pub(crate) fn headers_of(
    scope: &mut v8::PinScope<'_, '_>,
    list: v8::Local<'_, v8::Value>,
) -> Result<(Vec<Header>, usize), Refused> {
    let Ok(list) = list.try_cast::<v8::Array>() else { return Ok((Vec::new(), 0)) };
    let string = |index| list.get_index(scope, index)?.try_cast::<v8::String>().ok();
    let mut left = HEADERS;
    let mut headers = Vec::with_capacity((list.length() / 2).min(16) as usize);
    for pair in 0..list.length() / 2 {
        let (name, value) = string(2 * pair).zip(string(2 * pair + 1)).ok_or(Refused::Malformed)?;
        let size = name.length() + value.length() + HEADER;
        left = left.checked_sub(size).ok_or(Refused::TooLarge)?;
        let header =
            Header { name: name.to_rust_string_lossy(scope), value: to_octets(scope, value) };
        if !is_name(&header.name) || !is_value(&header.value) {
            return Err(Refused::Malformed);
        }
        headers.push(header);
    }
    Ok((headers, HEADERS - left))
}

/// Returns whether the name is a token (RFC 9110 §5.6.2) in lower case.
fn is_name(name: &str) -> bool {
    let is_token =
        |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9') || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(is_token)
}

/// Returns whether the value contains no character that would end it (RFC 9110 §5.5).
fn is_value(value: &[u8]) -> bool {
    !value.iter().any(|byte| matches!(byte, b'\0' | b'\r' | b'\n'))
}

/// `fail(id, error)`: reports that the invocation threw. The exception goes to the log; the caller
/// receives a failure code.
pub(crate) fn fail<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    args: v8::FunctionCallbackArguments<'s>,
    _: v8::ReturnValue<'s>,
) {
    let id = invocation(scope, args.get(0));
    let state = State::of(scope);
    let exception = Exception::describe(scope, args.get(1));
    state.threw(id, &exception);
}

/// `waitUntil(id)`: keeps the invocation alive; returns whether it still exists.
pub(crate) fn wait_until(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut rv: v8::ReturnValue<'_>,
) {
    let id = invocation(scope, args.get(0));
    rv.set_bool(State::of(scope).invocations.borrow_mut().wait_until(id));
}

/// `waitOver(id)`: releases one `waitUntil`.
pub(crate) fn wait_over(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    _: v8::ReturnValue<'_>,
) {
    let id = invocation(scope, args.get(0));
    State::of(scope).wait_over(id);
}

/// `onCallerLeft(id, callback)`: registers a callback for when the client disconnects before the
/// whole response has been sent.
pub(crate) fn on_caller_left(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    _: v8::ReturnValue<'_>,
) {
    let id = invocation(scope, args.get(0));
    let Ok(callback) = args.get(1).try_cast() else { return };
    let callback = v8::Global::new(scope, callback);
    State::of(scope).on_caller_left(id, callback);
}

/// `requestHeaders(id)`: returns the request's header list, or an empty one on later calls.
pub(crate) fn request_headers(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut rv: v8::ReturnValue<'_>,
) {
    let id = invocation(scope, args.get(0));
    let state = State::of(scope);
    let headers = state
        .invocations
        .borrow_mut()
        .get_mut(id)
        .map(|invocation| std::mem::take(&mut invocation.headers));
    let headers = headers.unwrap_or_default();
    let headers = headers.iter().map(|header| (header.name.as_str(), &header.value[..]));
    let Some(strings) = from_headers(scope, headers) else { return };
    rv.set(v8::Array::new_with_elements(scope, &strings).into());
}

/// `evaluateModule(specifier, referrer, attributes)`: returns the promise of the module's
/// evaluation, and its namespace. Throws if there is no such module.
pub(crate) fn evaluate_module<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    args: v8::FunctionCallbackArguments<'s>,
    mut rv: v8::ReturnValue<'_>,
) {
    let Ok(specifier) = args.get(0).try_cast() else { return };
    let referrer = args.get(1).to_rust_string_lossy(scope);
    if let Some((evaluation, namespace)) = modules::import(scope, specifier, &referrer, args.get(2))
    {
        rv.set(v8::Array::new_with_elements(scope, &[evaluation, namespace]).into());
    }
}
