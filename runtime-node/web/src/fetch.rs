//! The native half of `fetch.js`.
//!
//! ```text
//!  fetchSend ─► the shard's client ─► a turn: the head as an object, the body as a numbered stream
//!      ▲             ▲
//!  fetchNumber   fetchAbort, at any time: aborts the request, or later the body
//! ```

pub(crate) mod find;
pub(crate) mod head;
pub(crate) mod outbound;
pub(crate) mod request;

use ::data_url::DataUrl;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use tenon_egress::handshake::{self, Deflate};
use tenon_egress::{
    EgressError, RedirectMode, Request, Response, ResponseBody, Tunnel, UpgradeResponse,
};
use tenon_engine::collection::make_room;
use tenon_engine::ids::InvocationId;
use tenon_engine::promise::promise;
use tenon_engine::state::State;
use tenon_engine::streams::Body;
use tenon_engine::string::{array_of, from_octets};
use tenon_engine::thrown::{Thrown, out_of_memory};
use tenon_op::{Record, op};
use tenon_proto::runtime::Header;
use tokio_tungstenite::tungstenite::protocol::Role;
use url::{Position, Url};

use crate::fetch::head::{Outcome, Received};
use crate::fetch::outbound::{AbortEntry, Outbound, received};
use crate::fetch::request::Sent;
use crate::ops::{Nullable, Promised};
use crate::websocket::sockets::UnacceptedSocket;
use crate::websocket::sockets::link::Wire;

/// The limit on a `data:` URL, in characters. Decoding such a URL takes a few milliseconds.
const MAX_DATA_URL: usize = 2 << 20;

/// The outcome of a request.
enum Arrival {
    Response(Response, Option<AbortEntry>),
    /// The requested WebSocket, with the response that opened it and the agreement on the
    /// compression of messages, if there is one.
    Socket(Response, Tunnel, Option<Deflate>),
    Failed(EgressError),
    /// JavaScript aborted the request, and itself keeps the reason.
    Aborted,
}

/// Returns the number of the invocation on whose behalf JavaScript is running, or 0.
#[op]
pub(crate) fn invocation_now(scope: &mut v8::PinScope<'_, '_>) -> f64 {
    State::of(scope).current(scope).map_or(0.0, InvocationId::to_number)
}

/// Returns a number with which a request can be aborted.
#[op]
pub(crate) fn fetch_number(scope: &mut v8::PinScope<'_, '_>) -> u32 {
    Outbound::of(scope).aborts.next()
}

/// Aborts the request with this number, or its body.
#[op]
pub(crate) fn fetch_abort(scope: &mut v8::PinScope<'_, '_>, number: u32) {
    Outbound::of(scope).aborts.abort(number);
}

/// Returns whether there is nothing left to abort under this number.
#[op]
pub(crate) fn fetch_is_over(scope: &mut v8::PinScope<'_, '_>, number: u32) -> bool {
    Outbound::of(scope).aborts.is_over(number)
}

/// Sends a request and returns a promise of its outcome: a response, a failure, or null if the
/// request was aborted.
///
/// # Arguments
/// * `number` - a number with which the request can be aborted; 0 if it is never aborted.
///
/// # Errors
/// Returns a `TypeError` if the invocation has ended.
#[op]
pub(crate) fn fetch_send<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    number: u32,
    method: Method,
    url: Url,
    headers: HeaderMap,
    redirect: RedirectMode,
    body: Sent,
) -> Result<Promised<'s, Outcome>, Thrown> {
    let (state, outbound) = (State::of(scope), Outbound::of(scope));
    let Some(invocation) = state.current(scope) else {
        return Err(Thrown::type_error("Cannot fetch: the invocation has ended"));
    };
    let body = body.outgoing(&headers);
    let request = Request { method, url, headers, body, redirect };
    let entry = (number != 0).then(|| outbound.aborts.enter(number));
    let context = outbound.egress_context(&state, invocation);
    let client = outbound.client.clone();
    let fetching = async move {
        if handshake::is_requested(&request.method, &request.headers) {
            let upgraded = client.upgrade(&context, request).await?;
            let UpgradeResponse { response, tunnel, deflate } = upgraded;
            Ok((response, tunnel.map(|tunnel| (tunnel, deflate))))
        } else {
            Ok((client.fetch(&context, request).await?, None))
        }
    };
    // From here on, the request can be aborted, even before it is first polled.
    let fetching = match entry {
        Some(entry) => Ok((entry.follow(fetching), entry)),
        None => Err(fetching),
    };
    let work = async move {
        let (fetched, entry) = match fetching {
            Ok((fetching, entry)) => (fetching.await.ok(), Some(entry)),
            Err(fetching) => (Some(fetching.await), None),
        };
        Ok(match fetched {
            Some(Ok((response, Some((tunnel, deflate))))) => {
                Arrival::Socket(response, tunnel, deflate)
            }
            Some(Ok((response, None))) => Arrival::Response(response, entry),
            Some(Err(error)) => Arrival::Failed(error),
            None => Arrival::Aborted,
        })
    };
    let promise = promise(scope, work, move |scope, fetched| match fetched {
        Arrival::Response(response, entry) => respond(scope, invocation, response, entry, None),
        Arrival::Socket(response, tunnel, deflate) => {
            let socket =
                UnacceptedSocket { wire: Wire::Tunnel(tunnel), role: Role::Client, deflate };
            respond(scope, invocation, response, None, Some(socket))
        }
        Arrival::Failed(error) => head::failure(scope, error.stage().as_str(), &error.to_string()),
        Arrival::Aborted => Ok(v8::null(scope).into()),
    });
    Ok(promise.into())
}

/// Converts a response for JavaScript.
fn respond<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    invocation: InvocationId,
    response: Response,
    entry: Option<AbortEntry>,
    socket: Option<UnacceptedSocket>,
) -> Result<v8::Local<'s, v8::Value>, Thrown> {
    let Response { status, reason, headers, url, redirected, body } = response;
    let body = body.map(|body| match body {
        ResponseBody::Empty => Body::Full(Bytes::new()),
        ResponseBody::Stream { bytes, trailers } => {
            let trailers = Box::new(move || fields(&trailers()));
            Body::Trailed(received(bytes, entry), trailers)
        }
    });
    let received = Received {
        status: status.as_u16(),
        reason: reason.chars().map(|character| character as u8).collect(),
        url: &url[..Position::AfterQuery],
        redirected,
        body,
        socket,
    };
    let headers = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    received.into_value(scope, invocation, headers)
}

/// Converts the trailers of a response for the receiver of its body.
fn fields(trailers: &HeaderMap) -> Vec<Header> {
    let field = |(name, value): (&HeaderName, &HeaderValue)| Header {
        name: name.as_str().to_owned(),
        value: Bytes::copy_from_slice(value.as_bytes()),
    };
    trailers.iter().map(field).collect()
}

/// A `data:` URL and its content.
#[derive(Record)]
pub(crate) struct DataUrlContent<'s> {
    /// The MIME type.
    kind: v8::Local<'s, v8::String>,
    bytes: v8::Local<'s, v8::Uint8Array>,
    /// The URL without its fragment.
    url: v8::Local<'s, v8::String>,
}

/// Decodes a `data:` URL (Fetch §6). Returns null if the URL is not a valid `data:` URL.
///
/// # Errors
/// Fails if the URL is too long, or if there is not enough memory.
#[op]
pub(crate) fn data_url<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    url: v8::Local<'s, v8::String>,
) -> Result<Nullable<DataUrlContent<'s>>, Thrown> {
    if url.length() > MAX_DATA_URL {
        let why = format!(
            "A data: URL may have at most {MAX_DATA_URL} characters; serve larger data over HTTP"
        );
        return Err(Thrown::type_error(why));
    }
    let url = url.to_rust_string_lossy(scope);
    let Ok(parsed) = DataUrl::process(&url) else { return Ok(Nullable(None)) };
    let Ok((bytes, _fragment)) = parsed.decode_to_vec() else { return Ok(Nullable(None)) };
    let counted = make_room(scope, bytes.len()).and_then(|buffers| buffers.count(bytes));
    let counted = counted.ok_or_else(out_of_memory)?;
    let kind = parsed.mime_type().to_string();
    let kind = from_octets(scope, kind.as_bytes()).ok_or_else(out_of_memory)?;
    let plain = url.split('#').next().unwrap_or_default();
    let url = from_octets(scope, plain.as_bytes()).ok_or_else(out_of_memory)?;
    let bytes = array_of(scope, counted).ok_or_else(out_of_memory)?;
    Ok(Nullable(Some(DataUrlContent { kind, bytes, url })))
}
