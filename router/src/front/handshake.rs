//! The opening handshake of a WebSocket: how a client requests it in HTTP/1.1 (RFC 6455) and in
//! HTTP/2 (RFC 8441), the single form in which the Worker receives the handshake, and how the
//! Worker's 101 is returned.
//!
//! ```text
//!  GET, upgrade: websocket ──────────┐                               ┌─► 101, upgrade: websocket
//!  CONNECT, :protocol = websocket ───┴─► GET, upgrade: websocket ────┴─► 200
//!                                        with a generated key
//! ```
//!
//! Any other upgrade is ignored, as HTTP allows (RFC 9110, section 7.8), and the request is
//! answered as if it did not request one.
//!
//! This module is pure.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version, header};
use hyper::ext::Protocol;
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::invoke::HeadSink;

use crate::front::fields;

/// The name of the protocol.
const WEBSOCKET: &str = "websocket";
/// The only version of the protocol that is not a draft.
pub(crate) const VERSION: HeaderValue = HeaderValue::from_static("13");

/// The length of the key before it is encoded, in bytes.
const KEY: usize = 16;

/// A client's well-formed request for a WebSocket.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Handshake {
    Http1,
    Http2,
}

impl Handshake {
    /// Detects a request for a WebSocket.
    ///
    /// # Arguments
    /// * `has_body` - whether a body follows the head.
    ///
    /// # Errors
    /// Fails if the request asks for a WebSocket in a form that the standard forbids (RFC 6455,
    /// section 4.2.1).
    pub(crate) fn of(parts: &Parts, has_body: bool) -> Result<Option<Self>, Failure> {
        let Some(handshake) = Self::requested(parts) else { return Ok(None) };
        if has_body {
            return Err(bad("the request for a WebSocket has a body"));
        }
        if sole(&parts.headers, &header::SEC_WEBSOCKET_VERSION) != Some(&VERSION) {
            let message = "Sec-WebSocket-Version is not 13";
            return Err(Failure::new(FailureCode::UpgradeRequired, Phase::Admission, message));
        }
        // HTTP/2 needs no key, because its endpoints cannot be tricked into mistaking another
        // response for a handshake.
        if handshake == Self::Http1
            && !sole(&parts.headers, &header::SEC_WEBSOCKET_KEY).is_some_and(is_key)
        {
            return Err(bad("Sec-WebSocket-Key is not 16 bytes in base64"));
        }
        Ok(Some(handshake))
    }

    fn requested(parts: &Parts) -> Option<Self> {
        let Parts { method, headers, version, .. } = parts;
        if *version == Version::HTTP_2 {
            let protocol = parts.extensions.get::<Protocol>().map(Protocol::as_str);
            let is_ours = *method == Method::CONNECT
                && protocol.is_some_and(|name| name.eq_ignore_ascii_case(WEBSOCKET));
            return is_ours.then_some(Self::Http2);
        }
        Self::is_http1_handshake(method, *version, headers).then_some(Self::Http1)
    }

    /// Returns whether the bytes after the head may belong to a tunnel instead of another request.
    pub(crate) fn is_http1_handshake(
        method: &Method,
        version: Version,
        headers: &HeaderMap,
    ) -> bool {
        let lists = |name: &HeaderName, member: &str| {
            fields::members(headers, name).any(|listed| listed.eq_ignore_ascii_case(member))
        };
        version == Version::HTTP_11
            && *method == Method::GET
            && lists(&header::UPGRADE, WEBSOCKET)
            && lists(&header::CONNECTION, "upgrade")
    }

    /// Returns whether the router writes its own value in place of a client's header.
    pub(crate) fn replaces(&self, name: &HeaderName) -> bool {
        *self == Self::Http2 && *name == header::SEC_WEBSOCKET_KEY
    }

    /// Writes the headers of the handshake that are not among the forwarded headers.
    ///
    /// # Arguments
    /// * `random` - returns the bytes of a new key. It is called for a handshake in HTTP/2, whether
    ///   the client sent a key or not.
    pub(crate) fn write(&self, writer: &mut impl HeadSink, random: impl FnOnce() -> [u8; KEY]) {
        writer.header(header::UPGRADE.as_str(), WEBSOCKET.as_bytes());
        if *self == Self::Http2 {
            let key = BASE64_STANDARD.encode(random());
            writer.header(header::SEC_WEBSOCKET_KEY.as_str(), key.as_bytes());
        }
    }

    /// Returns whether the client would take this status for an acceptance by the Worker, although
    /// the Worker has not accepted. In HTTP/2, any successful status is an acceptance (RFC 8441,
    /// section 5).
    pub(crate) fn looks_accepted(&self, status: StatusCode) -> bool {
        *self == Self::Http2 && status.is_success()
    }

    /// Converts the Worker's acceptance into the response to the client, and returns the status of
    /// this response.
    ///
    /// # Arguments
    /// * `headers` - the headers of the Worker's response, without hop-by-hop headers.
    pub(crate) fn accept(&self, headers: &mut HeaderMap) -> StatusCode {
        // Neither a 101 nor the response to a CONNECT has a body (RFC 9110, sections 8.6 and
        // 9.3.6).
        headers.remove(header::CONTENT_LENGTH);
        match self {
            Self::Http1 => {
                headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
                headers.insert(header::UPGRADE, HeaderValue::from_static(WEBSOCKET));
                StatusCode::SWITCHING_PROTOCOLS
            }
            Self::Http2 => {
                headers.remove(header::SEC_WEBSOCKET_ACCEPT);
                StatusCode::OK
            }
        }
    }
}

/// Returns the value of a header that occurs exactly once.
fn sole<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    let mut values = headers.get_all(name).into_iter();
    values.next().filter(|_| values.next().is_none())
}

fn is_key(value: &HeaderValue) -> bool {
    BASE64_STANDARD.decode(value.as_bytes()).is_ok_and(|key| key.len() == KEY)
}

fn bad(message: &str) -> Failure {
    Failure::new(FailureCode::BadRequest, Phase::Admission, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    const WELL_FORMED: [(&str, &str); 4] = [
        ("connection", "keep-alive, Upgrade"),
        ("upgrade", "WebSocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];

    fn parts(headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::get("/chat");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    /// Returns the well-formed handshake with another value for a header, or without it.
    fn with(name: &str, value: Option<&str>) -> Parts {
        let mut headers: Vec<_> =
            WELL_FORMED.into_iter().filter(|(other, _)| *other != name).collect();
        headers.extend(value.map(|value| (name, value)));
        parts(&headers)
    }

    fn refusal(parts: &Parts) -> FailureCode {
        Handshake::of(parts, false).unwrap_err().code
    }

    #[test]
    fn a_get_request_for_an_upgrade_is_a_handshake() {
        assert_eq!(Handshake::of(&parts(&WELL_FORMED), false), Ok(Some(Handshake::Http1)));
        assert_eq!(
            Handshake::of(&with("upgrade", Some("h2c, websocket")), false),
            Ok(Some(Handshake::Http1))
        );
    }

    #[test]
    fn an_extended_connect_for_the_protocol_is_a_handshake() {
        let mut connect = parts(&[("sec-websocket-version", "13")]);
        (connect.method, connect.version) = (Method::CONNECT, Version::HTTP_2);
        assert_eq!(Handshake::of(&connect, false), Ok(None), "an ordinary CONNECT was accepted");
        connect.extensions.insert(Protocol::from_static("connect-udp"));
        assert_eq!(Handshake::of(&connect, false), Ok(None), "another protocol was accepted");
        connect.extensions.insert(Protocol::from_static("websocket"));
        assert_eq!(Handshake::of(&connect, false), Ok(Some(Handshake::Http2)));
    }

    #[test]
    fn any_other_upgrade_is_ignored() {
        assert_eq!(Handshake::of(&parts(&[]), false), Ok(None));
        for (name, value) in [
            ("upgrade", None),
            ("upgrade", Some("h2c")),
            ("upgrade", Some("websocket2")),
            ("connection", None),
            ("connection", Some("keep-alive")),
        ] {
            assert_eq!(Handshake::of(&with(name, value), false), Ok(None), "{name}: {value:?}");
        }
        let mut other = parts(&WELL_FORMED);
        other.method = Method::POST;
        assert_eq!(Handshake::of(&other, false), Ok(None));
        let mut other = parts(&WELL_FORMED);
        other.version = Version::HTTP_10;
        assert_eq!(Handshake::of(&other, false), Ok(None));
    }

    #[test]
    fn a_malformed_handshake_is_refused() {
        for version in [None, Some("12"), Some("013"), Some("13, 8"), Some("")] {
            assert_eq!(
                refusal(&with("sec-websocket-version", version)),
                FailureCode::UpgradeRequired,
                "{version:?}"
            );
        }
        for key in [None, Some(""), Some("dGhlIHNhbXBsZSBub25jZQ"), Some("c2hvcnQ="), Some("!!!!")]
        {
            assert_eq!(
                refusal(&with("sec-websocket-key", key)),
                FailureCode::BadRequest,
                "{key:?}"
            );
        }
        let twice: Vec<_> = WELL_FORMED.into_iter().chain([WELL_FORMED[3]]).collect();
        assert_eq!(refusal(&parts(&twice)), FailureCode::BadRequest);
        assert!(Handshake::of(&parts(&WELL_FORMED), true).is_err(), "a body was accepted");
    }
}
