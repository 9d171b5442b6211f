//! Determines the address and the scheme of the client whose request has passed through proxies.
//! This module is pure.
//!
//! A proxy adds the address of its own client to `X-Forwarded-For`, and overwrites
//! `X-Forwarded-Proto`. Any client can send these headers, so they count only on connections from
//! networks that the administrator trusts. The client is the last address that does not belong to a
//! trusted proxy.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::HeaderMap;
use ipnet::IpNet;

use crate::front::fields::{FORWARDED_FOR, FORWARDED_PROTO, members};
use crate::front::scheme::Scheme;

/// The networks of proxies that are trusted.
#[derive(Clone, Debug, Default)]
pub struct TrustedProxies {
    networks: Arc<[IpNet]>,
    use_proxy_protocol: bool,
}

impl TrustedProxies {
    /// Trusts the proxies in these networks.
    pub fn new(networks: impl IntoIterator<Item = IpNet>) -> Self {
        Self { networks: networks.into_iter().collect(), use_proxy_protocol: false }
    }

    /// Sets whether the proxies begin each connection with a header of the PROXY protocol.
    #[must_use]
    pub fn with_proxy_protocol(self, use_proxy_protocol: bool) -> Self {
        Self { use_proxy_protocol, ..self }
    }

    /// Returns whether connections from this address begin with a header of the PROXY protocol.
    pub(crate) fn use_proxy_protocol(&self, address: IpAddr) -> bool {
        self.use_proxy_protocol && self.contains(address)
    }

    fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.networks.iter().any(|network| network.contains(&address))
    }
}

/// The sender of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sender {
    pub(crate) address: IpAddr,
    pub(crate) scheme: Scheme,
    /// Whether the request's own `X-Forwarded-*` headers are trusted.
    pub(crate) is_trusted: bool,
}

impl Sender {
    /// Determines the sender of a request.
    ///
    /// # Arguments
    /// * `peer`, `scheme` - the peer and the scheme of the connection.
    pub(crate) fn of(
        peer: IpAddr,
        scheme: Scheme,
        headers: &HeaderMap,
        trusted: &TrustedProxies,
    ) -> Self {
        if !trusted.contains(peer) {
            return Self { address: peer, scheme, is_trusted: false };
        }
        let scheme = match members(headers, &FORWARDED_PROTO).last() {
            Some(proto) if proto.eq_ignore_ascii_case("https") => Scheme::Https,
            // The proxy may use TLS toward the router although its client did not.
            Some(proto) if proto.eq_ignore_ascii_case("http") => Scheme::Http,
            _ => scheme,
        };
        Self { address: client(peer, headers, trusted), scheme, is_trusted: true }
    }
}

/// Returns the last address that does not belong to a trusted proxy; otherwise the first address
/// that a trusted proxy has named, or the peer if there is none.
fn client(peer: IpAddr, headers: &HeaderMap, trusted: &TrustedProxies) -> IpAddr {
    let named: Vec<_> = members(headers, &FORWARDED_FOR).collect();
    let mut client = peer;
    // Entries before a malformed entry are ignored, because no trusted proxy vouches for them.
    for address in named.into_iter().rev().map_while(parse) {
        client = address;
        if !trusted.contains(address) {
            break;
        }
    }
    client
}

/// Parses an address, which some proxies write with a port.
fn parse(text: &str) -> Option<IpAddr> {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    bare.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|socket| socket.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(peer: &str, headers: &[(&'static str, &str)]) -> (String, Scheme) {
        sender_on(Scheme::Http, peer, headers)
    }

    fn sender_on(scheme: Scheme, peer: &str, headers: &[(&'static str, &str)]) -> (String, Scheme) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        let trusted = ["10.0.0.0/8", "fd00::/8"].map(|network| network.parse().unwrap());
        let trusted = TrustedProxies::new(trusted);
        let sender = Sender::of(peer.parse().unwrap(), scheme, &map, &trusted);
        (sender.address.to_string(), sender.scheme)
    }

    #[test]
    fn the_headers_of_an_untrusted_peer_are_ignored() {
        let forged = [("x-forwarded-for", "1.1.1.1"), ("x-forwarded-proto", "https")];
        assert_eq!(sender("192.0.2.7", &forged), ("192.0.2.7".to_owned(), Scheme::Http));
    }

    #[test]
    fn a_trusted_proxy_names_its_client_and_the_scheme() {
        let named = [("x-forwarded-for", "192.0.2.7"), ("x-forwarded-proto", "https")];
        for peer in ["10.1.2.3", "::ffff:10.1.2.3", "fd00::1"] {
            assert_eq!(sender(peer, &named), ("192.0.2.7".to_owned(), Scheme::Https));
        }
        assert_eq!(sender("10.1.2.3", &[]), ("10.1.2.3".to_owned(), Scheme::Http));
    }

    #[test]
    fn a_proxy_and_its_client_may_use_different_schemes() {
        for (proto, expected) in
            [("http", Scheme::Http), ("HTTPS", Scheme::Https), ("ws", Scheme::Https)]
        {
            let named = [("x-forwarded-proto", proto)];
            assert_eq!(sender_on(Scheme::Https, "10.1.2.3", &named).1, expected, "{proto}");
        }
    }

    #[test]
    fn the_client_is_the_last_address_that_does_not_belong_to_a_trusted_proxy() {
        for (named, expected) in [
            ("1.1.1.1, 192.0.2.7, 10.0.0.1", "192.0.2.7"),
            ("1.1.1.1, 192.0.2.7:4711, 10.0.0.1:80", "192.0.2.7"),
            ("[2001:db8::1]:443, fd00::2", "2001:db8::1"),
            ("192.0.2.7, unknown, 10.0.0.1", "10.0.0.1"),
            ("10.0.0.2, 10.0.0.1", "10.0.0.2"),
            ("", "10.1.2.3"),
        ] {
            assert_eq!(sender("10.1.2.3", &[("x-forwarded-for", named)]).0, expected, "{named}");
        }
        let split = [("x-forwarded-for", "192.0.2.7"), ("x-forwarded-for", "10.0.0.1")];
        assert_eq!(sender("10.1.2.3", &split).0, "192.0.2.7");
    }
}
