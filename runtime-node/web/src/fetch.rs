//! The native half of `fetch.js`.
//!
//! ```text
//!  fetchSend ─► the shard's client ─► a turn: the head as an array, the body as a numbered stream
//!      ▲             ▲
//!  fetchNumber   fetchAbort, at any time: aborts the request, or later the body
//! ```

pub(crate) mod find;
pub(crate) mod outbound;

use bytes::Bytes;
use data_url::DataUrl;
use futures::StreamExt as _;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use tenon_egress::handshake;
use tenon_egress::{EgressError, Opened, Outgoing, RedirectMode, Request, Response, Tunnel};
use tenon_engine::collection::make_room;
use tenon_engine::ids::InvocationId;
use tenon_engine::promise::promise;
use tenon_engine::state::State;
use tenon_engine::streams::{Body, Incoming};
use tenon_engine::string::{array_of, from_headers, from_name, from_octets, to_bytes, to_octets};
use tenon_engine::thrown::{Thrown, out_of_memory};
use tokio_tungstenite::tungstenite::protocol::Role;
use url::{Position, Url};

use crate::fetch::outbound::{Abortee, Outbound, received};
use crate::ops::stream;
use crate::websocket::sockets::Sockets;
use crate::websocket::sockets::link::Wire;

crate::ops::native! {
    "invocationNow(): number" => invocation_now,
    "fetchNumber(): number" => number,
    "fetchSend(number: number, method: string, url: string, headers: string[], redirect: string, \
     body: Body, owner: number | undefined, stream: number | undefined): Promise<Outcome>" => send,
    "fetchAbort(number: number): void" => abort,
    "fetchIsOver(number: number): boolean" => is_over,
    "dataUrl(url: string): [type: string, bytes: Uint8Array, url: string] | null" => data_url,
}

/// The limit on a request's headers, in bytes. Common servers accept less.
const HEADERS: usize = 64 * 1024;

/// Limits on a method and on a URL, in characters. HTTP's are lower.
const METHOD: usize = 64;
const URL: usize = 64 * 1024;

/// The limit on a `data:` URL, in characters: a few milliseconds to decode.
const DATA: usize = 2 << 20;

/// The outcome of a request.
enum Outcome {
    Response(Response, Option<Abortee>),
    /// The requested WebSocket, with the response that opened it.
    Socket(Response, Tunnel),
    Failed(EgressError),
    /// JavaScript knows the reason.
    Aborted,
}

/// A response for JavaScript, without its headers.
pub(crate) struct Fetched<'a> {
    pub(crate) status: u16,
    pub(crate) reason: Bytes,
    pub(crate) url: &'a str,
    pub(crate) redirected: bool,
    pub(crate) body: Option<Body>,
    /// The WebSocket that takes the body's place.
    pub(crate) socket: Option<(Wire, Role)>,
}

/// `invocationNow()`: returns the number of the invocation on whose behalf JavaScript is running,
/// or 0.
pub(crate) fn invocation_now(
    scope: &mut v8::PinScope<'_, '_>,
    _: v8::FunctionCallbackArguments<'_>,
    mut rv: v8::ReturnValue<'_>,
) {
    rv.set_double(State::of(scope).current(scope).map_or(0.0, InvocationId::to_number));
}

/// `fetchNumber()`: returns a number with which a request can be aborted.
pub(crate) fn number(
    scope: &mut v8::PinScope<'_, '_>,
    _: v8::FunctionCallbackArguments<'_>,
    mut rv: v8::ReturnValue<'_>,
) {
    rv.set_uint32(Outbound::of(scope).aborts.next());
}

/// `fetchAbort(number)`: aborts the request or its body.
pub(crate) fn abort(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    _: v8::ReturnValue<'_>,
) {
    let number = args.get(0).uint32_value(scope).unwrap_or_default();
    Outbound::of(scope).aborts.abort(number);
}

/// `fetchIsOver(number)`: returns whether there is nothing left to abort.
pub(crate) fn is_over(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut rv: v8::ReturnValue<'_>,
) {
    let number = args.get(0).uint32_value(scope).unwrap_or_default();
    rv.set_bool(Outbound::of(scope).aborts.is_over(number));
}

/// `fetchSend(number, method, url, headers, redirect, body, owner, stream)`: the number is 0 for a
/// request that is never aborted; the body is a string, a view, null, or `undefined` for a stream
/// of the invocation `owner`.
///
/// Returns a promise of `[status, statusText, url, redirected, headers, owner, stream]`, the last
/// two null if there is no body, followed by a socket's owner and number if a WebSocket was
/// requested and opened; or of `[stage, message]`; or of null if the request was aborted.
pub(crate) fn send(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut rv: v8::ReturnValue<'_>,
) {
    let state = State::of(scope);
    let outbound = Outbound::of(scope);
    let Some(invocation) = state.current(scope) else {
        return Thrown::type_error("Cannot fetch: the invocation has ended").throw(scope);
    };
    let request = match request(scope, &args) {
        Ok(request) => request,
        Err(thrown) => return thrown.throw(scope),
    };
    let number = args.get(0).uint32_value(scope).unwrap_or_default();
    let abortee = (number != 0).then(|| outbound.aborts.enter(number));
    let account = outbound.account(&state, invocation);
    let client = outbound.client.clone();
    let fetching = async move {
        if handshake::is_asked(&request.method, &request.headers) {
            let Opened { response, tunnel } = client.upgrade(&account, request).await?;
            Ok((response, tunnel))
        } else {
            Ok((client.fetch(&account, request).await?, None))
        }
    };
    // Abortable from here on, before the request is first polled.
    let fetching = match abortee {
        Some(abortee) => Ok((abortee.follow(fetching), abortee)),
        None => Err(fetching),
    };
    let work = async move {
        let (fetched, abortee) = match fetching {
            Ok((fetching, abortee)) => (fetching.await.ok(), Some(abortee)),
            Err(fetching) => (Some(fetching.await), None),
        };
        Ok(match fetched {
            Some(Ok((response, Some(tunnel)))) => Outcome::Socket(response, tunnel),
            Some(Ok((response, None))) => Outcome::Response(response, abortee),
            Some(Err(error)) => Outcome::Failed(error),
            None => Outcome::Aborted,
        })
    };
    let promise = promise(scope, work, move |scope, fetched| match fetched {
        Outcome::Response(response, abortee) => {
            response_head(scope, invocation, response, abortee, None)
        }
        Outcome::Socket(response, tunnel) => response_head(
            scope,
            invocation,
            response,
            None,
            Some((Wire::Tunnel(tunnel), Role::Client)),
        ),
        Outcome::Failed(error) => failure(scope, error.stage().as_str(), &error.to_string()),
        Outcome::Aborted => Ok(v8::null(scope).into()),
    });
    promise.into_iter().for_each(|promise| rv.set(promise.into()));
}

pub(crate) fn request(
    scope: &mut v8::PinScope<'_, '_>,
    args: &v8::FunctionCallbackArguments<'_>,
) -> Result<Request, Thrown> {
    let method = text(scope, args.get(1), METHOD, "method")?;
    let method = Method::from_bytes(method.as_bytes())
        .map_err(|_| Thrown::type_error("The request has no valid HTTP method"))?;
    let url = Url::parse(&text(scope, args.get(2), URL, "URL")?)
        .map_err(|_| Thrown::type_error("The request has no valid URL"))?;
    let headers = headers(scope, args.get(3))?;
    let redirect = match args.get(4).to_rust_string_lossy(scope).as_str() {
        "error" => RedirectMode::Error,
        "manual" => RedirectMode::Manual,
        _ => RedirectMode::Follow,
    };
    let body = args.get(5);
    let body = if body.is_null() {
        Outgoing::Empty
    } else if body.is_undefined() {
        let (owner, number) = stream(scope, args.get(6), args.get(7));
        let taken = State::of(scope).take_stream(owner, number);
        let gone = "The body can no longer be read: its invocation has ended";
        outgoing(taken.ok_or_else(|| Thrown::type_error(gone))?, &headers)
    } else {
        Outgoing::Full(to_bytes(scope, body).ok_or_else(out_of_memory)?)
    };
    Ok(Request { method, url, headers, body, redirect })
}

/// Returns the string, if it is not too long.
fn text(
    scope: &v8::PinScope<'_, '_>,
    value: v8::Local<'_, v8::Value>,
    longest: usize,
    what: &str,
) -> Result<String, Thrown> {
    let string = value.try_cast::<v8::String>().ok().filter(|string| string.length() <= longest);
    let too_long =
        || Thrown::type_error(format!("The request's {what} is longer than {longest} characters"));
    string.map(|string| string.to_rust_string_lossy(scope)).ok_or_else(too_long)
}

/// Converts a stream to a request body. Its length is the request's Content-Length, if there is
/// one: a longer stream is cut off, and a shorter one breaks the request off.
fn outgoing(incoming: Incoming, headers: &HeaderMap) -> Outgoing {
    let stream = match Body::from(incoming) {
        Body::Full(bytes) => return Outgoing::Full(bytes),
        Body::Stream(stream) => stream,
    };
    let length =
        headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let bytes = stream
        .map(|piece| piece.map_err(|broken| EgressError::Upload(broken.to_string())))
        .boxed_local();
    Outgoing::Stream { bytes, length }
}

/// Validates each header again: a Worker can get hold of the list (see `respond`).
pub(crate) fn headers(
    scope: &mut v8::PinScope<'_, '_>,
    list: v8::Local<'_, v8::Value>,
) -> Result<HeaderMap, Thrown> {
    let malformed = || Thrown::type_error("The headers are not valid in HTTP");
    let Ok(list) = list.try_cast::<v8::Array>() else { return Ok(HeaderMap::new()) };
    let string = |index| list.get_index(scope, index)?.try_cast::<v8::String>().ok();
    let mut left = HEADERS;
    let mut headers = HeaderMap::with_capacity((list.length() / 2).min(16) as usize);
    for pair in 0..list.length() / 2 {
        let (name, value) = string(2 * pair).zip(string(2 * pair + 1)).ok_or_else(malformed)?;
        let too_large =
            || Thrown::type_error(format!("The headers are larger than {HEADERS} bytes"));
        left = left.checked_sub(name.length() + value.length() + 32).ok_or_else(too_large)?;
        let name = HeaderName::from_bytes(&to_octets(scope, name)).map_err(|_| malformed())?;
        let value =
            HeaderValue::from_maybe_shared(to_octets(scope, value)).map_err(|_| malformed())?;
        headers.append(name, value);
    }
    Ok(headers)
}

fn response_head<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    invocation: InvocationId,
    response: Response,
    abortee: Option<Abortee>,
    socket: Option<(Wire, Role)>,
) -> Result<v8::Local<'s, v8::Value>, Thrown> {
    let Response { status, reason, headers, url, redirected, body } = response;
    let body = body.map(|body| Body::Stream(received(body, abortee)));
    let reason = reason.chars().map(|character| character as u8).collect();
    let strings =
        from_headers(scope, headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())));
    head(
        scope,
        invocation,
        Fetched {
            status: status.as_u16(),
            reason,
            url: &url[..Position::AfterQuery],
            redirected,
            body,
            socket,
        },
        strings,
    )
}

/// Returns the response's head for JavaScript, and adds its body to the invocation's streams.
///
/// # Arguments
/// * `headers` - name, value, name, value, …; `None` if there was not enough memory for them.
pub(crate) fn head<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    invocation: InvocationId,
    response: Fetched<'_>,
    headers: Option<Vec<v8::Local<'s, v8::Value>>>,
) -> Result<v8::Local<'s, v8::Value>, Thrown> {
    let Fetched { status, reason, url, redirected, body, socket } = response;
    let stream = body.and_then(|body| {
        let state = State::of(scope);
        let mut invocations = state.invocations.borrow_mut();
        Some(invocations.get_mut(invocation)?.streams.add(body))
    });
    let nothing: v8::Local<'_, v8::Value> = v8::null(scope).into();
    let (owner, number) = match stream {
        Some(number) => (
            v8::Number::new(scope, invocation.to_number()).into(),
            v8::Number::new(scope, number.to_number()).into(),
        ),
        None => (nothing, nothing),
    };
    let headers = headers.ok_or_else(out_of_memory)?;
    let list = v8::Array::new_with_elements(scope, &headers);
    let mut parts: Vec<v8::Local<'_, v8::Value>> = vec![
        v8::Integer::new(scope, status.into()).into(),
        from_octets(scope, &reason).ok_or_else(out_of_memory)?.into(),
        from_octets(scope, url.as_bytes()).ok_or_else(out_of_memory)?.into(),
        v8::Boolean::new(scope, redirected).into(),
        list.into(),
        owner,
        number,
    ];
    if let Some((wire, role)) = socket {
        let state = State::of(scope);
        let mut invocations = state.invocations.borrow_mut();
        let ended = || Thrown::type_error("The invocation has ended");
        let number =
            invocations.get_mut(invocation).ok_or_else(ended)?.attach::<Sockets>().add(wire, role);
        parts.push(v8::Number::new(scope, invocation.to_number()).into());
        parts.push(v8::Number::new(scope, number.to_number()).into());
    }
    Ok(plain_array(scope, &parts))
}

/// Creates an array without a prototype: resolving a promise with it cannot call a `then` of the
/// Worker's.
fn plain_array<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    elements: &[v8::Local<'s, v8::Value>],
) -> v8::Local<'s, v8::Value> {
    let array = v8::Array::new_with_elements(scope, elements);
    let nothing = v8::null(scope).into();
    array.set_prototype(scope, nothing);
    array.into()
}

/// Returns `[stage, message]`.
pub(crate) fn failure<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    stage: &str,
    message: &str,
) -> Result<v8::Local<'s, v8::Value>, Thrown> {
    let stage = from_name(scope, stage).ok_or_else(out_of_memory)?;
    let message = v8::String::new(scope, message).ok_or_else(out_of_memory)?;
    Ok(plain_array(scope, &[stage.into(), message.into()]))
}

/// `dataUrl(url)`: returns `[type, bytes, url]` of a `data:` URL (Fetch §6), the last without its
/// fragment, or null if it is not one.
pub(crate) fn data_url(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut rv: v8::ReturnValue<'_>,
) {
    rv.set_null();
    let Ok(url) = args.get(0).try_cast::<v8::String>() else { return };
    if url.length() > DATA {
        let why =
            format!("A data: URL may have at most {DATA} characters; serve larger data over HTTP");
        return Thrown::type_error(why).throw(scope);
    }
    let url = url.to_rust_string_lossy(scope);
    let Ok(parsed) = DataUrl::process(&url) else { return };
    let Ok((bytes, _fragment)) = parsed.decode_to_vec() else { return };
    let counted = make_room(scope, bytes.len()).and_then(|buffers| buffers.count(bytes));
    let Some(counted) = counted else { return out_of_memory().throw(scope) };
    let kind = parsed.mime_type().to_string();
    let plain = url.split('#').next().unwrap_or_default();
    let Some(kind) = from_octets(scope, kind.as_bytes()) else { return };
    let Some(plain) = from_octets(scope, plain.as_bytes()) else { return };
    if let Some(array) = array_of(scope, counted) {
        rv.set(
            v8::Array::new_with_elements(scope, &[kind.into(), array.into(), plain.into()]).into(),
        );
    }
}
