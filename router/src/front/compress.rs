//! Compresses a Worker's response for a client that accepts a content coding, unless the Worker has
//! encoded the response, or forbids the transformation.
//!
//! ```text
//!  reply ─► is the content compressible? ─► Vary ─► which coding? ─► Content-Encoding, weak ETag
//! ```
//!
//! The decision is pure. A cache may keep the response, so a response that would be compressed for
//! another client has the same `Vary`.

use std::rc::Rc;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};
use tenon_assets::content_type;
use tenon_clients::Client;
use tenon_clients::quota::Peer;
use tenon_compression::turns::TURN;
use tenon_compression::{Coding, Compression, ORDER};
use tenon_proto::frame::INLINE_BODY;

use crate::front::accept_encoding;
use crate::front::compressed::CompressedBody;
use crate::front::fields::members;
use crate::front::response::ResponseBody;

/// The minimum length of content that is worth compressing, in bytes. Shorter content fits into one
/// packet anyway.
const SHORTEST: usize = 1024;

// Every body that a node sends in one message can be compressed in one turn of the event loop.
const _: () = assert!(TURN >= INLINE_BODY);

/// Headers with a digest of the content (RFC 9530, and its predecessors), which would not match the
/// compressed content.
const DIGESTS: [HeaderName; 4] = [
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("content-md5"),
];

/// Compresses a response, if the client accepts it and the response permits it.
///
/// # Arguments
/// * `peer` - the client address whose share of the thread's compression the response takes.
pub(crate) fn compress(
    compression: &Rc<Compression>,
    request: &Parts,
    response: Response<ResponseBody>,
    peer: Peer,
    client: &Client,
) -> Response<ResponseBody> {
    if response.status() == StatusCode::NOT_MODIFIED {
        return unchanged(&request.headers, response);
    }
    if !is_compressible(&request.method, &response) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    add_vary(&mut parts.headers);
    let Some(coding) = accept_encoding::preferred(&request.headers, ORDER)
        .filter(|_| !forbids_transformation(&request.headers))
    else {
        return Response::from_parts(parts, body);
    };
    let (body, is_compressed) = match body {
        // The response to HEAD has the headers of the response to GET.
        ResponseBody::Full(None) => (ResponseBody::Full(None), true),
        ResponseBody::Full(Some(content)) => whole(compression, content, coding),
        ResponseBody::Streaming(content) => match compression.stream(coding, peer, client) {
            Some(stream) => {
                let body = CompressedBody::stream(compression, content, stream);
                (ResponseBody::Compressed(body), true)
            }
            None => (ResponseBody::Streaming(content), false),
        },
        other => (other, false),
    };
    if is_compressed {
        mark(&mut parts.headers, coding);
    }
    Response::from_parts(parts, body)
}

/// Compresses complete content, now or in a later turn of the event loop. Also returns whether the
/// content is compressed.
fn whole(compression: &Rc<Compression>, content: Bytes, coding: Coding) -> (ResponseBody, bool) {
    if content.len() > TURN {
        return (ResponseBody::Full(Some(content)), false);
    }
    if !compression.turns.take(content.len()) {
        let body = CompressedBody::whole(compression, content, coding);
        return (ResponseBody::Compressed(body), true);
    }
    match compression.compress(&content, coding) {
        Ok(compressed) => (ResponseBody::Full(Some(compressed)), true),
        Err(error) => {
            tracing::warn!(%error, "cannot compress a response");
            (ResponseBody::Full(Some(content)), false)
        }
    }
}

/// Returns whether a response may be compressed for a client that accepts it.
fn is_compressible(method: &Method, response: &Response<ResponseBody>) -> bool {
    let headers = response.headers();
    let has_type = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .is_some_and(is_compressible_type);
    if !has_type || headers.contains_key(header::CONTENT_ENCODING) {
        return false;
    }
    let declared = || headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok();
    let length: Option<u64> = match response.body() {
        ResponseBody::Full(None) if *method == Method::HEAD => declared(),
        ResponseBody::Full(content) => Some(content.as_ref().map_or(0, Bytes::len) as u64),
        ResponseBody::Streaming(_) => declared(),
        ResponseBody::File(_) | ResponseBody::Compressed(_) => return false,
    };
    let is_partial = response.status() == StatusCode::PARTIAL_CONTENT
        || headers.contains_key(header::CONTENT_RANGE);
    length.is_none_or(|length| length >= SHORTEST as u64)
        && !is_partial
        && !matches!(response.status(), StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT)
        && !forbids_transformation(headers)
        && !DIGESTS.iter().any(|digest| headers.contains_key(digest))
}

/// Returns whether content of this type is compressed. Events are not: a stream of events may stay
/// open for days, and would keep its encoder although its events are short.
fn is_compressible_type(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    content_type::is_compressible(essence) && !essence.eq_ignore_ascii_case("text/event-stream")
}

/// Returns whether a sender forbids the transformation of its message, or of the response to it
/// (RFC 9111, sections 5.2.1.6 and 5.2.2.6).
fn forbids_transformation(headers: &HeaderMap) -> bool {
    members(headers, &header::CACHE_CONTROL)
        .any(|directive| directive.eq_ignore_ascii_case("no-transform"))
}

/// States that the response depends on `Accept-Encoding`.
fn add_vary(headers: &mut HeaderMap) {
    const NAME: HeaderValue = HeaderValue::from_static("accept-encoding");
    let is_stated = |name: &str| name == "*" || name.eq_ignore_ascii_case("accept-encoding");
    if members(headers, &header::VARY).any(is_stated) {
        return;
    }
    let mut stated: Vec<&str> = members(headers, &header::VARY).collect();
    let value = if stated.is_empty() {
        NAME
    } else {
        stated.push("accept-encoding");
        HeaderValue::try_from(stated.join(", ")).unwrap_or(NAME)
    };
    headers.insert(header::VARY, value);
}

/// Changes the headers of a response so that they describe its content in a coding.
fn mark(headers: &mut HeaderMap, coding: Coding) {
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding.as_str()));
    // The declared length, and the positions of ranges, are those of the uncompressed content.
    headers.remove(header::CONTENT_LENGTH);
    headers.remove(header::ACCEPT_RANGES);
    weaken_tag(headers);
}

/// Makes a strong entity tag weak: the content is equivalent, but not the same bytes (RFC 9110,
/// section 8.8.1).
fn weaken_tag(headers: &mut HeaderMap) {
    let weak = headers.get(header::ETAG).filter(|tag| tag.as_bytes().starts_with(b"\""));
    let weak = weak.and_then(|tag| HeaderValue::try_from([b"W/", tag.as_bytes()].concat()).ok());
    if let Some(weak) = weak {
        headers.insert(header::ETAG, weak);
    }
}

/// Returns a 304 with the entity tag of the content that the client has: the weak one, if the
/// client has compressed content. A cache finds its stored response by this tag (RFC 9111, section
/// 4.3.4).
fn unchanged(request: &HeaderMap, mut response: Response<ResponseBody>) -> Response<ResponseBody> {
    let tag = response.headers().get(header::ETAG).and_then(|tag| tag.to_str().ok());
    let has_weak = tag.is_some_and(|tag| {
        let mut known = members(request, &header::IF_NONE_MATCH);
        known.any(|known| known.strip_prefix("W/") == Some(tag))
    });
    if has_weak {
        weaken_tag(response.headers_mut());
    }
    response
}

#[cfg(test)]
mod tests;
