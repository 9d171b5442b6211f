//! The native half of `cache.js`.

pub mod store;

use bytes::Bytes;
use futures::StreamExt as _;
use http::StatusCode;
use tenon_engine::byte_stream::ByteStream;
use tenon_engine::heap::Counted;
use tenon_engine::promise::promise;
use tenon_engine::state::State;
use tenon_engine::streams::Body;
use tenon_engine::string::{from_headers, to_bytes, to_octets};
use tenon_engine::thrown::{Thrown, out_of_memory};

use crate::cache::store::{Answer, Asked, Key, LARGEST, ResponseCache};
use crate::fetch::{Fetched, head, headers};
use crate::ops::stream;

crate::ops::native! {
    "cacheMatch(name: string, url: string, headers: string[]): Fetched | null" => look_up,
    "cachePut(name: string, url: string, asked: string[], status: number, statusText: string, \
     headers: string[], body: Body, owner: number | undefined, \
     stream: number | undefined): Promise<void>" => put,
    "cacheDelete(name: string, url: string): boolean" => delete,
}

type Shared = std::sync::Arc<ResponseCache>;

/// Limits on a cache's name and on a URL, in characters.
const NAME: usize = 256;
const URL: usize = 64 * 1024;

fn cache(scope: &v8::PinScope<'_, '_>) -> Shared {
    Shared::clone(
        scope.get_slot::<Shared>().expect("every isolate gets its node's when it is made"),
    )
}

/// Builds the key of a cache's name and a URL.
fn key(
    scope: &v8::PinScope<'_, '_>,
    name: v8::Local<'_, v8::Value>,
    url: v8::Local<'_, v8::Value>,
) -> Result<Key, Thrown> {
    let text = |value: v8::Local<'_, v8::Value>, longest| {
        let string =
            value.try_cast::<v8::String>().ok().filter(|string| string.length() <= longest);
        string.map(|string| string.to_rust_string_lossy(scope))
    };
    let name = text(name, NAME).ok_or_else(|| {
        Thrown::type_error(format!("A cache name may have at most {NAME} characters"))
    })?;
    let url = text(url, URL).ok_or_else(|| {
        Thrown::type_error(format!(
            "The URL of a cached response may have at most {URL} characters"
        ))
    })?;
    Ok(Key::new(&State::of(scope).revision.worker, &name, &url))
}

/// `cacheMatch(name, url, headers)`: returns null, or the response in the form of `fetchSend`.
pub(crate) fn look_up(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut rv: v8::ReturnValue<'_>,
) {
    match found(scope, &args) {
        Ok(value) => rv.set(value),
        Err(thrown) => thrown.throw(scope),
    }
}

fn found<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    args: &v8::FunctionCallbackArguments<'_>,
) -> Result<v8::Local<'s, v8::Value>, Thrown> {
    let key = key(scope, args.get(0), args.get(1))?;
    let asked = Asked { headers: headers(scope, args.get(2))? };
    let Some((answer, body)) = cache(scope).look_up(&key, &asked) else {
        return Ok(v8::null(scope).into());
    };
    let invocation = State::of(scope)
        .current(scope)
        .ok_or_else(|| Thrown::type_error("The invocation has ended"))?;
    let strings = from_headers(
        scope,
        answer.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())),
    );
    let body = (!body.is_empty()).then_some(Body::Full(body));
    let (status, reason) = (answer.status.as_u16(), answer.reason);
    head(
        scope,
        invocation,
        Fetched { status, reason, url: "", redirected: false, body, socket: None },
        strings,
    )
}

/// `cacheDelete(name, url)`: returns whether there was an entry.
pub(crate) fn delete(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut rv: v8::ReturnValue<'_>,
) {
    match key(scope, args.get(0), args.get(1)) {
        Ok(key) => rv.set_bool(cache(scope).remove(&key)),
        Err(thrown) => thrown.throw(scope),
    }
}

/// `cachePut(name, url, requestHeaders, status, statusText, headers, body, owner, stream)`: the
/// body is a string, a view, null, or `undefined` for a stream. Returns a promise of undefined that
/// resolves when the body has been read.
pub(crate) fn put(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut rv: v8::ReturnValue<'_>,
) {
    let (key, asked, answer) = match parts(scope, &args) {
        Ok(parts) => parts,
        Err(thrown) => return thrown.throw(scope),
    };
    let body = args.get(6);
    let body = if body.is_undefined() {
        let (owner, number) = stream(scope, args.get(7), args.get(8));
        match State::of(scope).take_stream(owner, number) {
            Some(incoming) => incoming.into(),
            None => {
                return Thrown::type_error("The response's body can no longer be read")
                    .throw(scope);
            }
        }
    } else if body.is_null() {
        Body::Full(Bytes::new())
    } else {
        match to_bytes(scope, body) {
            // A copy, because the entry outlives the isolate whose memory these bytes are charged
            // to.
            Some(bytes) => Body::Full(Bytes::copy_from_slice(&bytes)),
            None => return out_of_memory().throw(scope),
        }
    };
    let (cache, held) = (cache(scope), State::of(scope).buffers.count_pieces());
    let keep = async move {
        let body = match body {
            Body::Full(bytes) => Some(bytes),
            Body::Stream(pieces) => collect(pieces, held).await?,
        };
        if let Some(body) = body {
            cache.put(key, &asked, answer, body);
        }
        Ok(())
    };
    let promise = promise(scope, keep, |scope, ()| Ok(v8::undefined(scope).into()));
    promise.into_iter().for_each(|promise| rv.set(promise.into()));
}

fn parts(
    scope: &mut v8::PinScope<'_, '_>,
    args: &v8::FunctionCallbackArguments<'_>,
) -> Result<(Key, Asked, Answer), Thrown> {
    let key = key(scope, args.get(0), args.get(1))?;
    let asked = Asked { headers: headers(scope, args.get(2))? };
    let status =
        args.get(3).uint32_value(scope).and_then(|status| StatusCode::from_u16(status as u16).ok());
    let status = status
        .ok_or_else(|| Thrown::type_error("The response's status is not a valid HTTP status"))?;
    let reason = args
        .get(4)
        .try_cast::<v8::String>()
        .map(|reason| to_octets(scope, reason))
        .unwrap_or_default();
    Ok((key, asked, Answer { status, reason, headers: headers(scope, args.get(5))? }))
}

/// Collects the whole body. Returns `None` if it is too large for the cache.
async fn collect(mut pieces: ByteStream, mut held: Counted) -> Result<Option<Bytes>, Thrown> {
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|broken| Thrown::type_error(broken.to_string()))?;
        if held.len() + piece.len() > LARGEST {
            return Ok(None);
        }
        held.push(&piece, LARGEST).map_err(|_| out_of_memory())?;
    }
    Ok(Some(Bytes::copy_from_slice(held.as_ref())))
}
