//! Trailers of requests and responses: which of them pass, and which peers take them (RFC 9110,
//! section 6.5).
//!
//! A field passes if it means the same after the body as before it. A field that describes the
//! message, selects its recipient or authenticates its sender does not pass. This module is pure.

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Version, header};
use tenon_proto::runtime::Header;

use crate::front::fields::members;
use crate::front::headers;

/// The maximum number of trailers of a message. Calls of gRPC have a few.
const MAX_TRAILERS: usize = 128;

/// Fields that a recipient needs before the body, or must not take from a trailer.
const EXCLUDED: [HeaderName; 22] = [
    header::AGE,
    header::AUTHORIZATION,
    header::CACHE_CONTROL,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_RANGE,
    header::CONTENT_TYPE,
    header::COOKIE,
    header::DATE,
    header::EXPECT,
    header::EXPIRES,
    header::FORWARDED,
    header::HOST,
    header::LOCATION,
    header::MAX_FORWARDS,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::RETRY_AFTER,
    header::SET_COOKIE,
    header::TRAILER,
    header::VARY,
    header::WWW_AUTHENTICATE,
];

fn passes(name: &HeaderName) -> bool {
    !EXCLUDED.contains(name)
        && !headers::is_hop_by_hop(name)
        && !headers::is_reserved(name)
        && !name.as_str().starts_with("x-forwarded-")
}

/// Returns whether the client takes the trailers of the response. A client of HTTP/1.1 has to say
/// so; a client of HTTP/2 that does not know them discards them.
pub(crate) fn are_taken(parts: &Parts) -> bool {
    parts.version >= Version::HTTP_2
        || members(&parts.headers, &header::TE)
            .any(|member| member.eq_ignore_ascii_case("trailers"))
}

/// Returns the trailers of a request that pass to its Worker.
pub(crate) fn of_request(trailers: &HeaderMap) -> Vec<Header> {
    let passing = trailers.iter().filter(|(name, _)| passes(name)).take(MAX_TRAILERS);
    let field = |(name, value): (&HeaderName, &HeaderValue)| Header {
        name: name.as_str().to_owned(),
        value: Bytes::copy_from_slice(value.as_bytes()),
    };
    passing.map(field).collect()
}

/// Returns the trailers of a response that pass to its client.
pub(crate) fn of_response(fields: Vec<Header>) -> HeaderMap {
    let field = |Header { name, value }| {
        let name = HeaderName::try_from(name).ok().filter(passes)?;
        Some((name, HeaderValue::from_maybe_shared(value).ok()?))
    };
    fields.into_iter().filter_map(field).take(MAX_TRAILERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(names: &[&'static str]) -> HeaderMap {
        let pair =
            |name: &&'static str| (HeaderName::from_static(name), HeaderValue::from_static("1"));
        names.iter().map(pair).collect()
    }

    #[test]
    fn trailers_pass_in_both_directions_except_those_that_a_recipient_must_not_take() {
        let sent = map(&[
            "authorization",
            "connection",
            "content-length",
            "cookie",
            "grpc-message",
            "grpc-status",
            "host",
            "tenon-depth",
            "transfer-encoding",
            "x-forwarded-for",
            "x-more",
        ]);
        let request = of_request(&sent);
        let response = of_response(of_request(&sent));
        let names: Vec<_> = request.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(names, ["grpc-message", "grpc-status", "x-more"]);
        assert_eq!(response, map(&["grpc-message", "grpc-status", "x-more"]));
    }

    #[test]
    fn malformed_and_excess_trailers_are_dropped() {
        let field = |name: &str, value: &'static [u8]| Header {
            name: name.to_owned(),
            value: Bytes::from_static(value),
        };
        let fields = vec![field("a b", b"1"), field("x", b"1\r\n2"), field("y", b"1")];
        assert_eq!(of_response(fields), map(&["y"]));
        let many: HeaderMap = (0..500)
            .map(|n| {
                (HeaderName::try_from(format!("x-{n}")).unwrap(), HeaderValue::from_static("1"))
            })
            .collect();
        assert_eq!(of_request(&many).len(), MAX_TRAILERS);
        assert_eq!(of_response(vec![field("x", b"1"); 500]).len(), MAX_TRAILERS);
    }

    #[test]
    fn a_client_of_http1_takes_trailers_if_it_says_so() {
        let parts = |version, te: Option<&str>| {
            let mut request = http::Request::new(());
            *request.version_mut() = version;
            let headers = request.headers_mut();
            te.map(|te| headers.insert(header::TE, te.parse().unwrap()));
            request.into_parts().0
        };
        assert!(are_taken(&parts(Version::HTTP_2, None)));
        assert!(are_taken(&parts(Version::HTTP_11, Some("gzip, Trailers"))));
        assert!(!are_taken(&parts(Version::HTTP_11, Some("gzip"))));
        assert!(!are_taken(&parts(Version::HTTP_11, None)));
    }
}
