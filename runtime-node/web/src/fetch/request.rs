//! The parts of a request that JavaScript passes.

use bytes::Bytes;
use futures::StreamExt as _;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use tenon_egress::{EgressError, RedirectMode, RequestBody, Trailers};
use tenon_engine::state::State;
use tenon_engine::streams::{Body, Incoming};
use tenon_engine::string::{to_bytes, to_octets};
use tenon_engine::thrown::{Thrown, out_of_memory};
use tenon_proto::runtime::Header;
use url::Url;

use crate::delivery::HEADER_OVERHEAD;
use crate::ops::{Argument, Arguments};

/// The limit on a request's headers, in bytes as HTTP/2 counts them. Common servers accept less.
const MAX_HEADERS: usize = 64 * 1024;

/// The limit on a method, in UTF-16 units.
const MAX_METHOD: usize = 64;
/// The limit on a URL, in UTF-16 units. Common servers accept less.
const MAX_URL: usize = 64 * 1024;

impl<'s> Argument<'s> for Method {
    fn take(
        scope: &mut v8::PinScope<'s, '_>,
        arguments: &mut Arguments<'s>,
    ) -> Result<Self, Thrown> {
        let method = short(arguments, scope, MAX_METHOD, "method")?;
        Self::from_bytes(method.as_bytes())
            .map_err(|_| Thrown::type_error("The request has no valid HTTP method"))
    }
}

impl<'s> Argument<'s> for Url {
    fn take(
        scope: &mut v8::PinScope<'s, '_>,
        arguments: &mut Arguments<'s>,
    ) -> Result<Self, Thrown> {
        let url = short(arguments, scope, MAX_URL, "URL")?;
        Self::parse(&url).map_err(|_| Thrown::type_error("The request has no valid URL"))
    }
}

/// Takes a string of at most `longest` characters.
fn short<'s>(
    arguments: &mut Arguments<'s>,
    scope: &mut v8::PinScope<'s, '_>,
    longest: usize,
    what: &str,
) -> Result<String, Thrown> {
    let string: v8::Local<'_, v8::String> = arguments.take(scope)?;
    if string.length() > longest {
        let why = format!("The request's {what} is longer than {longest} characters");
        return Err(Thrown::type_error(why));
    }
    Ok(string.to_rust_string_lossy(scope))
}

impl<'s> Argument<'s> for RedirectMode {
    fn take(
        scope: &mut v8::PinScope<'s, '_>,
        arguments: &mut Arguments<'s>,
    ) -> Result<Self, Thrown> {
        Ok(match arguments.take::<String>(scope)?.as_str() {
            "error" => Self::Error,
            "manual" => Self::Manual,
            _ => Self::Follow,
        })
    }
}

/// Takes a list: name, value, name, value, … Each header is validated again, because a Worker can
/// obtain the list (see `delivery::headers_of`).
impl<'s> Argument<'s> for HeaderMap {
    fn take(
        scope: &mut v8::PinScope<'s, '_>,
        arguments: &mut Arguments<'s>,
    ) -> Result<Self, Thrown> {
        let malformed = || Thrown::type_error("The headers are not valid in HTTP");
        let list: v8::Local<'_, v8::Array> = arguments.take(scope)?;
        let string = |index| list.get_index(scope, index)?.try_cast::<v8::String>().ok();
        let mut left = MAX_HEADERS;
        let mut headers = Self::with_capacity((list.length() / 2).min(16) as usize);
        for pair in 0..list.length() / 2 {
            let (name, value) = string(2 * pair).zip(string(2 * pair + 1)).ok_or_else(malformed)?;
            let too_large =
                || Thrown::type_error(format!("The headers are larger than {MAX_HEADERS} bytes"));
            let size = name.length() + value.length() + HEADER_OVERHEAD;
            left = left.checked_sub(size).ok_or_else(too_large)?;
            let name = HeaderName::from_bytes(&to_octets(scope, name)).map_err(|_| malformed())?;
            let value =
                HeaderValue::from_maybe_shared(to_octets(scope, value)).map_err(|_| malformed())?;
            headers.append(name, value);
        }
        Ok(headers)
    }
}

/// A body that JavaScript sends. It is passed as three arguments. The first is a string, a view,
/// null, or `undefined` for a stream, which the second and the third argument identify by its owner
/// and its number.
pub(crate) enum Sent {
    Nothing,
    Bytes(Bytes),
    Stream(Incoming),
}

impl<'s> Argument<'s> for Sent {
    fn take(
        scope: &mut v8::PinScope<'s, '_>,
        arguments: &mut Arguments<'s>,
    ) -> Result<Self, Thrown> {
        let content: v8::Local<'_, v8::Value> = arguments.take(scope)?;
        let (owner, stream) = arguments.take(scope)?;
        if content.is_null() {
            Ok(Self::Nothing)
        } else if content.is_undefined() {
            let taken = State::of(scope).take_stream(owner, stream);
            let why = "The body can no longer be read: its invocation has ended";
            taken.map(Self::Stream).ok_or_else(|| Thrown::type_error(why))
        } else {
            to_bytes(scope, content).map(Self::Bytes).ok_or_else(out_of_memory)
        }
    }
}

impl Sent {
    /// Converts the body to the body of an outgoing request. The length of a stream is the
    /// request's Content-Length, if there is one: a longer stream is truncated, and a shorter one
    /// aborts the request.
    pub(crate) fn outgoing(self, headers: &HeaderMap) -> RequestBody {
        let incoming = match self {
            Self::Nothing => return RequestBody::Empty,
            Self::Bytes(bytes) => return RequestBody::Full(bytes),
            Self::Stream(incoming) => incoming,
        };
        let (stream, trailers) = match Body::from(incoming) {
            Body::Full(bytes) => return RequestBody::Full(bytes),
            Body::Stream(stream) => (stream, None),
            Body::Trailed(stream, trailers) => (stream, Some(trailers)),
        };
        let length = headers.get(header::CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
        let bytes = stream
            .map(|piece| piece.map_err(|error| EgressError::Upload(error.to_string())))
            .boxed_local();
        let trailers =
            trailers.map(|trailers| -> Trailers { Box::new(move || header_map(trailers())) });
        RequestBody::Stream { bytes, length, trailers }
    }
}

/// Converts trailers for the client of outgoing requests.
fn header_map(fields: Vec<Header>) -> HeaderMap {
    let pair = |Header { name, value }| {
        Some((HeaderName::try_from(name).ok()?, HeaderValue::from_maybe_shared(value).ok()?))
    };
    fields.into_iter().filter_map(pair).collect()
}
