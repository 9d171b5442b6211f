//! Negotiates the compression of a WebSocket's messages, `permessage-deflate` (RFC 7692).
//!
//! ```text
//!  the node as a server:  Offer::read_all ─► the first offer ─► Offer::accept ─► Deflate::response
//!  the node as a client:  OFFER ─► Deflate::read_response
//!  a socket passed on:    an Offer of the client ─► Deflate::suits ─► Deflate::response
//! ```
//!
//! Every agreement excludes context takeover in both directions: each message is compressed by
//! itself. Neither side then keeps a window of 32 KiB or more between the messages of a socket, and
//! no message can be guessed from the length of another one. This module is pure.

use std::fmt::Write as _;

use http::HeaderValue;

use super::HandshakeError;

const NAME: &str = "permessage-deflate";
const SERVER_NO_TAKEOVER: &str = "server_no_context_takeover";
const CLIENT_NO_TAKEOVER: &str = "client_no_context_takeover";
const SERVER_WINDOW: &str = "server_max_window_bits";
const CLIENT_WINDOW: &str = "client_max_window_bits";

/// The offer of a node that opens a WebSocket. The offer does not allow the server to restrict the
/// client's window, because the node needs no window between messages.
pub(crate) const OFFER: HeaderValue = HeaderValue::from_static(
    "permessage-deflate; server_no_context_takeover; client_no_context_takeover",
);

/// The base-2 logarithm of the largest window, which applies without an agreement on another one.
const LARGEST_WINDOW: u8 = 15;

/// The base-2 logarithm of the smallest window for which the node compresses. The standard's
/// smallest is 8, a window of 256 bytes, which contains hardly any repetition.
const SMALLEST_WINDOW: u8 = 9;

/// The maximum number of a client's offers that are considered. Browsers send one.
const OFFERS: usize = 8;

/// A client's offer to compress messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The base-2 logarithm of the server's largest window, if the client limits it.
    server_window: Option<u8>,
}

/// The agreement of both sides to compress messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deflate {
    server_window: u8,
}

impl Offer {
    /// Reads the offers of a client in its order of preference, without those that the node cannot
    /// accept.
    ///
    /// # Arguments
    /// * `values` - the values of the request's headers `Sec-WebSocket-Extensions`.
    pub fn read_all<'h>(values: impl Iterator<Item = &'h [u8]>) -> Vec<Self> {
        let values = values.filter_map(|value| std::str::from_utf8(value).ok());
        let extensions = values.flat_map(|value| value.split(','));
        extensions.take(OFFERS).filter_map(Self::read).collect()
    }

    fn read(extension: &str) -> Option<Self> {
        let parameters = Parameters::read(extension)?;
        // A client that gives its own window a limit only announces which limits it can accept.
        let server_window = match parameters.server_window {
            None => None,
            Some(Some(bits)) if bits >= SMALLEST_WINDOW => Some(bits),
            Some(_) => return None,
        };
        Some(Self { server_window })
    }

    /// Returns the agreement if the node itself is the server.
    pub fn accept(self) -> Deflate {
        Deflate { server_window: self.server_window.unwrap_or(LARGEST_WINDOW) }
    }
}

impl Deflate {
    /// Reads a server's answer to [`OFFER`], or to an offer that the node has passed on.
    ///
    /// # Arguments
    /// * `values` - the values of the response's headers `Sec-WebSocket-Extensions`.
    /// * `is_offered` - whether the request contained such an offer.
    /// * `is_offered` - whether the request contained such an offer.
    ///
    /// # Errors
    /// Fails if the response selects an extension that was not offered, or parameters that the
    /// offer excludes.
    pub(super) fn read_response<'h>(
        values: impl Iterator<Item = &'h [u8]>,
        is_offered: bool,
    ) -> Result<Option<Self>, HandshakeError> {
        let mut selected = None;
        for value in values.flat_map(|value| value.split(|byte| *byte == b',')) {
            let extension = std::str::from_utf8(value).map_err(|_| HandshakeError::Extensions)?;
            if extension.trim().is_empty() {
                continue;
            }
            let parameters = Parameters::read(extension).filter(|_| is_offered);
            let parameters = parameters.ok_or(HandshakeError::Extensions)?;
            if selected.replace(parameters).is_some() {
                return Err(HandshakeError::Extensions);
            }
        }
        let Some(Parameters { server_no_takeover, server_window, client_window }) = selected else {
            return Ok(None);
        };
        if !server_no_takeover || client_window.is_some() || server_window == Some(None) {
            return Err(HandshakeError::Deflate);
        }
        let server_window = server_window.flatten().unwrap_or(LARGEST_WINDOW);
        Ok(Some(Self { server_window }))
    }

    /// Returns whether a client that has made this offer can read messages that the other side of
    /// this agreement compresses.
    pub fn suits(self, offer: Offer) -> bool {
        self.server_window <= offer.server_window.unwrap_or(LARGEST_WINDOW)
    }

    /// Returns the header's value that tells the client of the agreement.
    ///
    /// # Arguments
    /// * `offer` - the client's offer.
    pub fn response(self, offer: Offer) -> String {
        let mut response = self.to_string();
        // A limit that the client has asked for is confirmed even if it is the largest window.
        if offer.server_window.is_some() && self.server_window == LARGEST_WINDOW {
            write!(response, "; {SERVER_WINDOW}={LARGEST_WINDOW}")
                .expect("writing to a `String` cannot fail");
        }
        response
    }

    /// Returns the base-2 logarithm of the window in which the server compresses.
    pub fn server_window(self) -> u8 {
        self.server_window
    }

    /// Returns the base-2 logarithm of the window in which the client compresses.
    pub fn client_window(self) -> u8 {
        LARGEST_WINDOW
    }
}

/// Writes the agreement in the form of the attribute `extensions` of a WebSocket.
impl std::fmt::Display for Deflate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{NAME}; {SERVER_NO_TAKEOVER}; {CLIENT_NO_TAKEOVER}")?;
        if self.server_window < LARGEST_WINDOW {
            write!(f, "; {SERVER_WINDOW}={}", self.server_window)?;
        }
        Ok(())
    }
}

/// The parameters of an offer or of a response. A parameter for a window is `None` if it is absent,
/// and `Some(None)` if it has no value.
#[derive(Default)]
struct Parameters {
    server_no_takeover: bool,
    server_window: Option<Option<u8>>,
    client_window: Option<Option<u8>>,
}

impl Parameters {
    /// Reads an extension. Returns `None` for another extension, and for unknown, repeated or
    /// malformed parameters, which make an offer unacceptable (RFC 7692 §7.1).
    fn read(extension: &str) -> Option<Self> {
        let mut parts = extension.split(';').map(str::trim);
        parts.next().filter(|name| *name == NAME)?;
        let mut parameters = Self::default();
        let mut client_no_takeover = false;
        for part in parts {
            let (name, value) = match part.split_once('=') {
                Some((name, value)) => (name.trim_end(), Some(window(value.trim_start())?)),
                None => (part, None),
            };
            let is_new = match (name, value) {
                (SERVER_NO_TAKEOVER, None) => set(&mut parameters.server_no_takeover),
                (CLIENT_NO_TAKEOVER, None) => set(&mut client_no_takeover),
                (SERVER_WINDOW, value) => parameters.server_window.replace(value).is_none(),
                (CLIENT_WINDOW, value) => parameters.client_window.replace(value).is_none(),
                _ => false,
            };
            if !is_new {
                return None;
            }
        }
        Some(parameters)
    }
}

/// Sets a flag, and returns whether it was not set.
fn set(flag: &mut bool) -> bool {
    !std::mem::replace(flag, true)
}

/// Reads the base-2 logarithm of a window, which may be quoted.
fn window(value: &str) -> Option<u8> {
    let quoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
    match quoted.unwrap_or(value) {
        "8" => Some(8),
        "9" => Some(9),
        "10" => Some(10),
        "11" => Some(11),
        "12" => Some(12),
        "13" => Some(13),
        "14" => Some(14),
        "15" => Some(15),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const AGREED: &str =
        "permessage-deflate; server_no_context_takeover; client_no_context_takeover";

    fn offers(value: &str) -> Vec<Offer> {
        Offer::read_all([value.as_bytes()].into_iter())
    }

    fn answer(value: &str) -> Option<String> {
        offers(value).first().map(|offer| offer.accept().response(*offer))
    }

    fn agreed(value: &str) -> Result<Option<Deflate>, HandshakeError> {
        Deflate::read_response([value.as_bytes()].into_iter(), true)
    }

    #[test]
    fn an_offer_is_accepted_without_context_takeover() {
        for offer in [
            "permessage-deflate",
            "permessage-deflate; client_max_window_bits",
            "permessage-deflate;client_max_window_bits=10; client_no_context_takeover",
            "x-webkit-deflate-frame, permessage-deflate; server_no_context_takeover",
        ] {
            assert_eq!(answer(offer).as_deref(), Some(AGREED), "{offer}");
        }
    }

    #[test]
    fn a_limit_of_the_servers_window_is_confirmed() {
        for bits in 9..=15 {
            let offer = format!("permessage-deflate; server_max_window_bits = \"{bits}\"");
            let answer = answer(&offer).unwrap();
            assert_eq!(answer, format!("{AGREED}; server_max_window_bits={bits}"));
            assert_eq!(agreed(&answer), Ok(Some(Deflate { server_window: bits })));
        }
    }

    #[test]
    fn an_offer_that_cannot_be_met_is_declined_and_the_next_one_is_accepted() {
        for offer in [
            "permessage-bzip2",
            "permessage-deflate; server_max_window_bits",
            "permessage-deflate; server_max_window_bits=8",
            "permessage-deflate; server_max_window_bits=16",
            "permessage-deflate; server_max_window_bits=010",
            "permessage-deflate; server_no_context_takeover; server_no_context_takeover",
            "permessage-deflate; server_no_context_takeover=1",
            "permessage-deflate; client_max_window_bits=7",
            "permessage-deflate; unknown",
            "permessage-deflate;",
        ] {
            assert_eq!(answer(offer), None, "{offer}");
            let both = format!("{offer}, permessage-deflate; server_max_window_bits=12");
            assert_eq!(answer(&both), Some(format!("{AGREED}; server_max_window_bits=12")));
        }
    }

    #[test]
    fn a_response_must_keep_to_the_offer() {
        assert_eq!(agreed(""), Ok(None));
        for response in [AGREED, "permessage-deflate; server_no_context_takeover"] {
            assert_eq!(agreed(response), Ok(Some(Deflate { server_window: 15 })), "{response}");
        }
        for (response, why) in [
            ("permessage-deflate", HandshakeError::Deflate),
            (
                "permessage-deflate; server_no_context_takeover; client_max_window_bits=9",
                HandshakeError::Deflate,
            ),
            (
                "permessage-deflate; server_no_context_takeover; server_max_window_bits",
                HandshakeError::Deflate,
            ),
            ("permessage-deflate; unknown", HandshakeError::Extensions),
            ("x-webkit-deflate-frame", HandshakeError::Extensions),
        ] {
            assert_eq!(agreed(response), Err(why), "{response}");
        }
        let twice = format!("{AGREED}, {AGREED}");
        assert_eq!(agreed(&twice), Err(HandshakeError::Extensions));
        assert_eq!(
            Deflate::read_response([AGREED.as_bytes()].into_iter(), false),
            Err(HandshakeError::Extensions)
        );
    }

    #[test]
    fn a_socket_is_passed_on_compressed_only_to_a_client_with_as_large_a_window() {
        let deflate = Deflate { server_window: 12 };
        let suits = |offer: &str| deflate.suits(offers(offer)[0]);
        assert!(suits("permessage-deflate"));
        assert!(suits("permessage-deflate; server_max_window_bits=12"));
        assert!(!suits("permessage-deflate; server_max_window_bits=11"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_and_any_agreement_is_understood_by_its_client(
            text in "(permessage-deflate|[;,=\" a-z_0-9]|server_max_window_bits=1[0-9]|client_max_window_bits){0,12}",
        ) {
            for offer in offers(&text) {
                let deflate = offer.accept();
                prop_assert!(deflate.suits(offer));
                prop_assert_eq!(agreed(&deflate.response(offer)), Ok(Some(deflate)));
            }
            let _ = agreed(&text);
        }
    }
}
