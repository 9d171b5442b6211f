//! The ops with which `dispatch.js` starts a Worker and delivers requests to it.

pub(crate) mod stack;

use bytes::Bytes;
use tenon_engine::collection::make_room;
use tenon_engine::exception::Exception;
use tenon_engine::ids::InvocationId;
use tenon_engine::log::Severity;
use tenon_engine::modules;
use tenon_engine::state::State;
use tenon_engine::streams::{Incoming, StreamId};
use tenon_engine::string::{append_octets, from_headers, to_body};
use tenon_engine::{Body, FetchResponse, Piece, ResponseBody};
use tenon_op::{Record, op};
use tenon_proto::failure::FailureCode;
use tenon_proto::runtime::Header;

use crate::ops::{Callback, HeaderList, Maybe};

/// The limit on a response's headers, in bytes as HTTP/2 counts them: as much as the most
/// permissive of the common proxies accepts, and far below the capacity of a header map.
const MAX_HEADERS: usize = 128 * 1024;

/// The overhead of a header besides its name and its value, in bytes (RFC 9113 §6.5.2).
pub(crate) const HEADER_OVERHEAD: usize = 32;

/// The body of a response: a string, a view or null.
type Content<'s> = v8::Local<'s, v8::Value>;

/// Reports that the Worker can receive events, or that it has handled an event that expects no
/// response.
#[op]
pub(crate) fn done(scope: &mut v8::PinScope<'_, '_>, invocation: InvocationId) {
    let nothing = FetchResponse {
        status: 0,
        headers: Vec::new(),
        body: ResponseBody::Full(Piece::default()),
    };
    State::of(scope).set_outcome(invocation, Ok(nothing));
}

/// Sends a response.
#[op]
pub(crate) fn respond(
    scope: &mut v8::PinScope<'_, '_>,
    invocation: InvocationId,
    status: u32,
    headers: HeaderList<'_>,
    body: Content<'_>,
) {
    let made = headers_of(scope, headers).map(|(headers, size)| {
        let body = to_body(scope, body, size).map(ResponseBody::Full);
        (headers, body)
    });
    send_response(scope, invocation, status, made);
}

/// Sends a response whose body is a stream of the invocation `owner`.
#[op]
pub(crate) fn respond_stream(
    scope: &mut v8::PinScope<'_, '_>,
    invocation: InvocationId,
    status: u32,
    headers: HeaderList<'_>,
    (owner, stream): (InvocationId, StreamId),
) {
    let made = headers_of(scope, headers).and_then(|(headers, size)| {
        let state = State::of(scope);
        let taken = state.take_stream(owner, stream).ok_or(ResponseError::NoBody)?;
        let head = make_room(scope, size).and_then(|buffers| buffers.charge(size));
        let body = head.map(|head| match taken {
            Incoming::Body(Body::Full(bytes)) => ResponseBody::Full(Piece::with(bytes, head)),
            Incoming::Pipe(reader) => {
                ResponseBody::Stream(state.send(invocation, Box::pin(reader), true, head))
            }
            other => {
                let (stream, trailers) = match Body::from(other) {
                    Body::Trailed(stream, trailers) => (stream, Some(trailers)),
                    other => (other.into_stream(), None),
                };
                let sending = state.send(invocation, stream, false, head);
                ResponseBody::Stream(match trailers {
                    Some(trailers) => sending.with_trailers(trailers),
                    None => sending,
                })
            }
        });
        Ok((headers, body))
    });
    send_response(scope, invocation, status, made);
}

/// Sends the response to a request.
///
/// # Arguments
/// * `made` - the headers and the body, or the reason why they cannot be sent. The body is `None`
///   if there is not enough memory for it.
fn send_response(
    scope: &v8::PinScope<'_, '_>,
    invocation: InvocationId,
    status: u32,
    made: Result<(Vec<Header>, Option<ResponseBody>), ResponseError>,
) {
    let state = State::of(scope);
    match made {
        Ok((headers, Some(body))) => {
            state.set_outcome(
                invocation,
                Ok(FetchResponse { status: status as u16, headers, body }),
            );
        }
        Ok((_, None)) => state.fail(invocation, FailureCode::MemoryLimitExceeded),
        Err(refused) => {
            state.log(Some(invocation), Severity::Error, &refused.to_string());
            state.fail(invocation, FailureCode::WorkerException);
        }
    }
}

/// The reason why a response cannot be sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ResponseError {
    #[error("the response has headers that are not valid in HTTP")]
    Malformed,
    #[error("the response's headers are larger than {MAX_HEADERS} bytes")]
    TooLarge,
    #[error(
        "the response's body can no longer be read: it has been taken, or its invocation has ended"
    )]
    NoBody,
}

/// Returns a response's headers and their size in bytes. Validates each header again, although
/// `headers.js` has done so: a Worker that defines a setter for `0` on `Array.prototype` can obtain
/// the list that the built-in JavaScript keeps.
pub(crate) fn headers_of(
    scope: &mut v8::PinScope<'_, '_>,
    list: HeaderList<'_>,
) -> Result<(Vec<Header>, usize), ResponseError> {
    let string = |index| list.get_index(scope, index)?.try_cast::<v8::String>().ok();
    let mut left = MAX_HEADERS;
    let mut names = Vec::with_capacity((list.length() / 2).min(16) as usize);
    // All values are written to one buffer. Each header value is then a slice of this buffer.
    let mut values = Vec::new();
    for pair in 0..list.length() / 2 {
        let (name, value) =
            string(2 * pair).zip(string(2 * pair + 1)).ok_or(ResponseError::Malformed)?;
        let size = name.length() + value.length() + HEADER_OVERHEAD;
        left = left.checked_sub(size).ok_or(ResponseError::TooLarge)?;
        let (name, len) = (name.to_rust_string_lossy(scope), value.length());
        if !is_name(&name) || !is_value(append_octets(scope, value, &mut values)) {
            return Err(ResponseError::Malformed);
        }
        names.push((name, len));
    }
    let mut values = Bytes::from(values);
    let headers = names.into_iter().map(|(name, len)| Header { name, value: values.split_to(len) });
    Ok((headers.collect(), MAX_HEADERS - left))
}

/// Returns whether the name is a token (RFC 9110 §5.6.2) in lower case.
fn is_name(name: &str) -> bool {
    let is_token =
        |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9') || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(is_token)
}

/// Returns whether the value contains none of the characters that RFC 9110 §5.5 calls dangerous.
fn is_value(value: &[u8]) -> bool {
    !value.iter().any(|byte| matches!(byte, b'\0' | b'\r' | b'\n'))
}

/// Reports that the invocation threw. The exception goes to the log; the caller receives a failure
/// code.
#[op]
pub(crate) fn fail<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    invocation: InvocationId,
    error: v8::Local<'s, v8::Value>,
) {
    let exception = Exception::describe(scope, error);
    State::of(scope).threw(invocation, &exception);
}

/// Keeps the invocation alive until a call of `wait_over`. Returns whether the invocation still
/// exists.
#[op]
pub(crate) fn wait_until(scope: &mut v8::PinScope<'_, '_>, invocation: InvocationId) -> bool {
    State::of(scope).invocations.borrow_mut().wait_until(invocation)
}

/// Revokes one call of `wait_until`.
#[op]
pub(crate) fn wait_over(scope: &mut v8::PinScope<'_, '_>, invocation: InvocationId) {
    State::of(scope).promise_settled(invocation);
}

/// Registers a callback that is called if the client disconnects before the whole response has been
/// sent.
#[op]
pub(crate) fn on_client_left(
    scope: &mut v8::PinScope<'_, '_>,
    invocation: InvocationId,
    callback: Callback<'_>,
) {
    let callback = v8::Global::new(scope, callback);
    State::of(scope).on_client_left(invocation, callback);
}

/// Returns the request's headers on the first call, and an empty list on later calls.
#[op]
pub(crate) fn request_headers<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    invocation: InvocationId,
) -> Maybe<HeaderList<'s>> {
    let state = State::of(scope);
    let headers = state
        .invocations
        .borrow_mut()
        .get_mut(invocation)
        .map(|invocation| std::mem::take(&mut invocation.headers));
    let headers = headers.unwrap_or_default();
    let headers = headers.iter().map(|header| (header.name.as_str(), &header.value[..]));
    let strings = from_headers(scope, headers);
    Maybe(strings.map(|strings| v8::Array::new_with_elements(scope, &strings)))
}

/// A promise that settles when a module has been evaluated.
type Evaluation<'s> = v8::Local<'s, v8::Value>;

/// A module that is being evaluated.
#[derive(Record)]
pub(crate) struct Evaluated<'s> {
    evaluation: Evaluation<'s>,
    namespace: v8::Local<'s, v8::Value>,
}

/// Evaluates a module. Throws if there is no such module.
#[op]
pub(crate) fn evaluate_module<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    specifier: v8::Local<'s, v8::String>,
    referrer: String,
    attributes: v8::Local<'s, v8::Value>,
) -> Maybe<Evaluated<'s>> {
    let module = modules::import(scope, specifier, &referrer, attributes);
    Maybe(module.map(|(evaluation, namespace)| Evaluated { evaluation, namespace }))
}
