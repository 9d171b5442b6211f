//! The WebSocket opening handshake (RFC 6455 §4): the client's key, and the server's proof that it
//! has understood the handshake. This module serves WebSockets from the router's clients,
//! WebSockets to origins, and WebSockets between Workers. It is pure, except that it generates
//! keys. [`Deflate`] is the only extension.

mod deflate;

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Method};

pub use deflate::{Deflate, Offer};

/// The only version of the WebSocket protocol.
pub const VERSION: HeaderValue = HeaderValue::from_static("13");

/// The name of the WebSocket protocol in the header `Upgrade`.
pub const WEBSOCKET: HeaderValue = HeaderValue::from_static("websocket");

/// The GUID of RFC 6455 §1.3.
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// A client's key. The server derives `Sec-WebSocket-Accept` from it, which proves that the
/// response is not a cached one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key(String);

/// The reason why a response does not open a WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    #[error("the response's Sec-WebSocket-Accept does not match the key")]
    Accept,
    #[error("the response lacks \"upgrade: websocket\" or \"connection: upgrade\"")]
    Upgrade,
    #[error("the response selects a subprotocol that was not offered")]
    Protocol,
    #[error(
        "the response selects an extension that was not offered; only permessage-deflate is offered"
    )]
    Extensions,
    #[error(
        "the response accepts permessage-deflate without server_no_context_takeover, or with a window that the offer does not allow; the server must answer as RFC 7692 specifies, or without the extension"
    )]
    Deflate,
}

impl Key {
    /// Generates a random key.
    #[expect(clippy::new_without_default, reason = "each key is random")]
    pub fn new() -> Self {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the system has no random bytes");
        Self(BASE64_STANDARD.encode(bytes))
    }

    /// Parses a key that a client has sent. Returns `None` if the value is not 16 bytes in base64.
    pub fn read(value: &[u8]) -> Option<Self> {
        let bytes = BASE64_STANDARD.decode(value).ok().filter(|bytes| bytes.len() == 16)?;
        Some(Self(BASE64_STANDARD.encode(bytes)))
    }

    /// Returns the value of `Sec-WebSocket-Accept` for the key.
    pub fn accept(&self) -> String {
        let text = [self.0.as_bytes(), GUID].concat();
        BASE64_STANDARD.encode(digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &text))
    }

    /// Sets the headers of a request that asks an origin for a WebSocket with this key, and that
    /// offers to compress messages. The subprotocols that the Worker offers are kept, and its
    /// extensions are replaced, because no other extension is supported.
    pub fn set_headers(&self, headers: &mut HeaderMap) {
        headers.insert(header::SEC_WEBSOCKET_EXTENSIONS, deflate::OFFER);
        self.set_upgrade(headers);
    }

    /// Sets the headers of a request that asks another Worker for a WebSocket with this key.
    /// Messages between Workers are compressed only if the caller offers compression, usually
    /// because it passes on the request of a client that does.
    pub fn set_headers_for_worker(&self, headers: &mut HeaderMap) {
        if offers(headers).is_empty() {
            headers.remove(header::SEC_WEBSOCKET_EXTENSIONS);
        }
        self.set_upgrade(headers);
    }

    fn set_upgrade(&self, headers: &mut HeaderMap) {
        headers.insert(header::UPGRADE, WEBSOCKET);
        headers.insert(header::SEC_WEBSOCKET_VERSION, VERSION);
        let key = HeaderValue::from_str(&self.0).expect("base64 is a valid header value");
        headers.insert(header::SEC_WEBSOCKET_KEY, key);
    }

    /// Checks that a server's 101 response accepts the request (RFC 6455 §4.1), and returns the
    /// agreement on the compression of messages, if there is one. [`upgrades`] checks the headers
    /// `Upgrade` and `Connection`.
    ///
    /// # Errors
    /// Fails if the response does not accept the request.
    pub fn check_response(
        &self,
        request: &HeaderMap,
        response: &HeaderMap,
    ) -> Result<Option<Deflate>, HandshakeError> {
        if response
            .get(header::SEC_WEBSOCKET_ACCEPT)
            .is_none_or(|accept| accept.as_bytes() != self.accept().as_bytes())
        {
            return Err(HandshakeError::Accept);
        }
        let deflate = Deflate::read_response(
            values(response, &header::SEC_WEBSOCKET_EXTENSIONS),
            !offers(request).is_empty(),
        )?;
        let offered = |chosen: &[u8]| {
            members(request, &header::SEC_WEBSOCKET_PROTOCOL)
                .any(|offered| offered.as_bytes() == chosen)
        };
        let mut chosen = response.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
        match (chosen.next(), chosen.next()) {
            (None, _) => Ok(deflate),
            (Some(chosen), None) if offered(chosen.as_bytes()) => Ok(deflate),
            _ => Err(HandshakeError::Protocol),
        }
    }
}

/// Returns whether a request asks for a WebSocket.
pub fn is_requested(method: &Method, headers: &HeaderMap) -> bool {
    *method == Method::GET && lists(headers, &header::UPGRADE, "websocket")
}

/// Checks that a response turns its connection into a WebSocket.
///
/// # Errors
/// Fails if the response's headers `Upgrade` and `Connection` do not announce a WebSocket.
pub fn upgrades(headers: &HeaderMap) -> Result<(), HandshakeError> {
    let both = lists(headers, &header::UPGRADE, "websocket")
        && lists(headers, &header::CONNECTION, "upgrade");
    if both { Ok(()) } else { Err(HandshakeError::Upgrade) }
}

fn offers(headers: &HeaderMap) -> Vec<Offer> {
    Offer::read_all(values(headers, &header::SEC_WEBSOCKET_EXTENSIONS))
}

fn values<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h [u8]> {
    headers.get_all(name).into_iter().map(HeaderValue::as_bytes)
}

fn lists(headers: &HeaderMap, name: &HeaderName, wanted: &str) -> bool {
    members(headers, name).any(|member| member.eq_ignore_ascii_case(wanted))
}

/// Returns the members of a list-valued header.
fn members<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|member| !member.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    /// Returns the example key of RFC 6455 §1.3.
    fn example() -> Key {
        Key::read(b"dGhlIHNhbXBsZSBub25jZQ==").unwrap()
    }

    const ACCEPT: (&str, &str) = ("sec-websocket-accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");

    #[test]
    fn the_response_to_the_standards_example_key_is_accepted() {
        assert_eq!(example().accept(), ACCEPT.1);
        let request = headers(&[("sec-websocket-protocol", "chat, superchat")]);
        assert_eq!(example().check_response(&request, &headers(&[ACCEPT])), Ok(None));
        assert_eq!(
            example().check_response(
                &request,
                &headers(&[ACCEPT, ("sec-websocket-protocol", "superchat")])
            ),
            Ok(None)
        );
    }

    #[test]
    fn an_origin_is_offered_compression_and_a_worker_only_if_the_caller_offers_it() {
        let deflate = ("sec-websocket-extensions", "permessage-deflate; server_max_window_bits=9");
        let unknown = ("sec-websocket-extensions", "permessage-bzip2");
        let set = |set: fn(&Key, &mut HeaderMap), sent: &[(&'static str, &'static str)]| {
            let mut headers = headers(sent);
            set(&example(), &mut headers);
            headers.get(header::SEC_WEBSOCKET_EXTENSIONS).cloned()
        };
        for sent in [&[][..], &[deflate], &[unknown]] {
            assert_eq!(set(Key::set_headers, sent), Some(deflate::OFFER), "{sent:?}");
        }
        for (sent, kept) in [
            (&[][..], None),
            (&[unknown], None),
            (&[deflate], Some(HeaderValue::from_static(deflate.1))),
        ] {
            assert_eq!(set(Key::set_headers_for_worker, sent), kept, "{sent:?}");
        }
        let mut request = HeaderMap::new();
        example().set_headers(&mut request);
        let chosen = ("sec-websocket-extensions", "permessage-deflate; server_no_context_takeover");
        let agreed = example().check_response(&request, &headers(&[ACCEPT, chosen]));
        assert!(matches!(agreed, Ok(Some(_))), "{agreed:?}");
    }

    #[test]
    fn a_response_that_does_not_match_the_handshake_is_refused() {
        let request = headers(&[("sec-websocket-protocol", "chat")]);
        for (more, why) in [
            (("sec-websocket-protocol", "Chat"), HandshakeError::Protocol),
            (("sec-websocket-protocol", "chat, chat"), HandshakeError::Protocol),
            (("sec-websocket-extensions", "permessage-deflate"), HandshakeError::Extensions),
        ] {
            assert_eq!(
                example().check_response(&request, &headers(&[ACCEPT, more])),
                Err(why),
                "{more:?}"
            );
        }
        assert_eq!(
            Key::new().check_response(&request, &headers(&[ACCEPT])),
            Err(HandshakeError::Accept)
        );
        assert_eq!(
            example().check_response(&request, &HeaderMap::new()),
            Err(HandshakeError::Accept)
        );
    }

    #[test]
    fn a_key_has_sixteen_bytes() {
        assert!(Key::read(Key::new().0.as_bytes()).is_some());
        for wrong in ["", "dGhlIHNhbXBsZQ==", "dGhlIHNhbXBsZSBub25jZSE=", "not base64 at all!!!"] {
            assert_eq!(Key::read(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn an_upgrade_token_may_have_any_case_and_be_one_of_a_list() {
        let request = headers(&[("upgrade", "h2c, WebSocket")]);
        assert!(is_requested(&Method::GET, &request));
        assert!(!is_requested(&Method::POST, &request));
        assert_eq!(
            upgrades(&headers(&[("upgrade", "WEBSOCKET"), ("connection", "keep-alive, Upgrade")])),
            Ok(())
        );
        assert_eq!(upgrades(&headers(&[("upgrade", "websocket")])), Err(HandshakeError::Upgrade));
    }
}
