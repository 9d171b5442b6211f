//! The native half of `cache.js`: ops that find, store and remove responses in the process's cache.

pub mod store;

use bytes::Bytes;
use futures::StreamExt as _;
use http::{HeaderMap, StatusCode};
use tenon_engine::byte_stream::ByteStream;
use tenon_engine::heap::CountedBytes;
use tenon_engine::promise::promise;
use tenon_engine::state::State;
use tenon_engine::streams::Body;
use tenon_engine::string::to_octets;
use tenon_engine::thrown::{Thrown, out_of_memory};
use tenon_op::op;

use crate::cache::store::{CacheRequest, CacheResponse, Key, MAX_BODY, ResponseCache};
use crate::fetch::head::{Fetched, Received};
use crate::fetch::request::Sent;
use crate::ops::{Argument, Arguments, Nullable, Promised};

type Shared = std::sync::Arc<ResponseCache>;

/// Limits on a cache's name and on a URL, in UTF-16 code units.
const MAX_NAME: usize = 256;
const MAX_URL: usize = 64 * 1024;

fn cache(scope: &v8::PinScope<'_, '_>) -> Shared {
    Shared::clone(
        scope.get_slot::<Shared>().expect("every isolate is created with its process's cache"),
    )
}

/// Takes two arguments: the name of a cache and a URL.
impl<'s> Argument<'s> for Key {
    fn take(
        scope: &mut v8::PinScope<'s, '_>,
        arguments: &mut Arguments<'s>,
    ) -> Result<Self, Thrown> {
        let name: v8::Local<'_, v8::String> = arguments.take(scope)?;
        if name.length() > MAX_NAME {
            let why = format!("A cache name may have at most {MAX_NAME} characters");
            return Err(Thrown::type_error(why));
        }
        let url: v8::Local<'_, v8::String> = arguments.take(scope)?;
        if url.length() > MAX_URL {
            let why = format!("The URL of a cached response may have at most {MAX_URL} characters");
            return Err(Thrown::type_error(why));
        }
        let (name, url) = (name.to_rust_string_lossy(scope), url.to_rust_string_lossy(scope));
        Ok(Self::new(&State::of(scope).revision.worker, &name, &url))
    }
}

/// Returns the stored response to a request with these headers, or null.
#[op]
pub(crate) fn cache_match<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    key: Key,
    headers: HeaderMap,
) -> Result<Nullable<Fetched<'s>>, Thrown> {
    let Some((answer, body)) = cache(scope).look_up(&key, &CacheRequest { headers }) else {
        return Ok(Nullable(None));
    };
    let invocation = State::of(scope)
        .current(scope)
        .ok_or_else(|| Thrown::type_error("The invocation has ended"))?;
    let received = Received {
        status: answer.status.as_u16(),
        reason: answer.reason,
        url: "",
        redirected: false,
        body: (!body.is_empty()).then_some(Body::Full(body)),
        socket: None,
    };
    let headers = answer.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    received.fetched(scope, invocation, headers).map(|fetched| Nullable(Some(fetched)))
}

/// Removes a stored response. Returns whether there was one.
#[op]
pub(crate) fn cache_delete(scope: &mut v8::PinScope<'_, '_>, key: Key) -> bool {
    cache(scope).remove(&key)
}

/// Stores the response to a request with these headers. Returns a promise that resolves when the
/// body has been read; the cache may refuse the response.
#[op]
pub(crate) fn cache_put<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    key: Key,
    request_headers: HeaderMap,
    status: u32,
    status_text: v8::Local<'s, v8::String>,
    headers: HeaderMap,
    body: Sent,
) -> Result<Promised<'s, ()>, Thrown> {
    let request = CacheRequest { headers: request_headers };
    let status = u16::try_from(status).ok().and_then(|status| StatusCode::from_u16(status).ok());
    let status = status
        .ok_or_else(|| Thrown::type_error("The response's status is not a valid HTTP status"))?;
    let response = CacheResponse { status, reason: to_octets(scope, status_text), headers };
    let body = match body {
        Sent::Nothing => Body::Full(Bytes::new()),
        // The bytes are copied, because the entry outlives the isolate to whose memory they are
        // charged.
        Sent::Bytes(bytes) => Body::Full(Bytes::copy_from_slice(&bytes)),
        Sent::Stream(incoming) => incoming.into(),
    };
    let (cache, held) = (cache(scope), State::of(scope).buffers.count_pieces());
    let keep = async move {
        let body = match body {
            Body::Full(bytes) => Some(bytes),
            other => collect(other.into_stream(), held).await?,
        };
        if let Some(body) = body {
            cache.put(key, &request, response, body);
        }
        Ok(())
    };
    let promise = promise(scope, keep, |scope, ()| Ok(v8::undefined(scope).into()));
    Ok(promise.into())
}

/// Collects the whole body. Returns `None` if it is too large for the cache.
async fn collect(mut pieces: ByteStream, mut held: CountedBytes) -> Result<Option<Bytes>, Thrown> {
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| Thrown::type_error(error.to_string()))?;
        if held.len() + piece.len() > MAX_BODY {
            return Ok(None);
        }
        held.push(&piece, MAX_BODY).map_err(|_| out_of_memory())?;
    }
    Ok(Some(Bytes::copy_from_slice(held.as_ref())))
}
