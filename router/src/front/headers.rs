//! Selects the headers that are forwarded with a request, and adds the router's own headers.
//!
//! This module is pure.

use std::fmt::Write as _;
use std::net::IpAddr;

use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue};
use tenon_proto::invoke::HeadSink;

use crate::front::fields::{FORWARDED_FOR, FORWARDED_PROTO, members};
use crate::front::forwarded::Sender;

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// The maximum length of a client's request id, in bytes. Longer ids are replaced.
const MAX_REQUEST_ID: usize = 128;

/// Returns whether a header is meant only for the next hop (RFC 9110, section 7.6.1, and older
/// conventions).
pub(crate) fn is_hop_by_hop(name: &HeaderName) -> bool {
    [header::CONNECTION, header::TE, header::TRANSFER_ENCODING, header::UPGRADE].contains(name)
        || matches!(name.as_str(), "keep-alive" | "proxy-connection")
}

/// Returns whether only the router may set a header, which a Worker or a client could otherwise
/// forge.
pub(crate) fn is_reserved(name: &HeaderName) -> bool {
    name.as_str().starts_with("tenon-")
}

/// Returns whether a header that the router does not replace is set only by proxies. Many
/// frameworks take the client's address from such a header.
fn is_set_by_proxies(name: &HeaderName) -> bool {
    *name == header::FORWARDED
        || matches!(name.as_str(), "x-real-ip" | "x-forwarded-port" | "x-forwarded-prefix")
}

/// The facts about a request that the router, as the edge, knows by itself.
pub(crate) struct Edge<'a> {
    pub(crate) sender: Sender,
    /// The host that the Worker sees.
    pub(crate) host: &'a str,
    /// The host that the client requested.
    pub(crate) requested_host: &'a str,
    /// The address of the connection's other end, or the one that the PROXY protocol names.
    pub(crate) peer: IpAddr,
    pub(crate) request_id: &'a str,
}

/// Writes the request headers that the Worker sees.
///
/// The router is the edge: `x-forwarded-for`, `-proto` and `-host` describe the router's
/// connection. Behind a trusted proxy, the peer's address is appended to `x-forwarded-for`, and the
/// other two headers stay as the proxy has set them.
///
/// # Arguments
/// * `replaced` - returns whether a header of the client is dropped because it is written
///   elsewhere.
pub(crate) fn write(
    writer: &mut impl HeadSink,
    headers: &HeaderMap,
    replaced: impl Fn(&HeaderName) -> bool,
    &Edge { sender, host, requested_host, peer, request_id }: &Edge<'_>,
) {
    let has_host = sender.is_trusted && headers.contains_key(FORWARDED_HOST);
    // The names of the headers that, according to the sender, concern only this connection.
    let connection_options: Vec<&str> = members(headers, &header::CONNECTION).collect();
    let mut forwarded_for = String::new();
    for (name, value) in headers {
        let dropped = is_hop_by_hop(name)
            || is_reserved(name)
            || !sender.is_trusted && is_set_by_proxies(name)
            // hyper has answered the expectation.
            || *name == header::EXPECT
            || *name == header::HOST
            || *name == REQUEST_ID
            || *name == FORWARDED_PROTO
            || *name == FORWARDED_HOST && !has_host
            || replaced(name)
            || connection_options.iter().any(|option| option.eq_ignore_ascii_case(name.as_str()));
        if *name == FORWARDED_FOR {
            if let Ok(value) = value.to_str()
                && sender.is_trusted
            {
                forwarded_for.push_str(value);
                forwarded_for.push_str(", ");
            }
        } else if !dropped {
            writer.header(name.as_str(), value.as_bytes());
        }
    }
    write!(forwarded_for, "{}", peer.to_canonical()).expect("writing to a `String` cannot fail");
    writer.header(header::HOST.as_str(), host.as_bytes());
    writer.header(REQUEST_ID.as_str(), request_id.as_bytes());
    writer.header(FORWARDED_FOR.as_str(), forwarded_for.as_bytes());
    writer.header(FORWARDED_PROTO.as_str(), sender.scheme.as_str().as_bytes());
    if !has_host {
        writer.header(FORWARDED_HOST.as_str(), requested_host.as_bytes());
    }
}

/// Returns the memory that headers take, in bytes: as received, and in the message to the node.
pub(crate) fn size(headers: &HeaderMap) -> usize {
    2 * headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum::<usize>()
}

/// Returns the client's request id, if it can be used in logs and headers unchanged.
pub(crate) fn valid_request_id(headers: &HeaderMap) -> Option<&str> {
    let id = headers.get(REQUEST_ID).map(HeaderValue::as_bytes)?;
    let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/+=@".contains(byte);
    let is_valid = !id.is_empty() && id.len() <= MAX_REQUEST_ID && id.iter().all(is_allowed);
    std::str::from_utf8(id).ok().filter(|_| is_valid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::scheme::Scheme;
    use tenon_proto::frame::Decoder;
    use tenon_proto::invoke::HeadWriter;
    use tenon_proto::runtime::{InvokeRequest, invoke_request::Part};

    fn seen_by_the_worker(sent: &[(&str, &str)]) -> Vec<(String, String)> {
        seen_behind_a_proxy(sent, false)
    }

    fn seen_behind_a_proxy(sent: &[(&str, &str)], is_trusted: bool) -> Vec<(String, String)> {
        let mut headers = HeaderMap::new();
        for (name, value) in sent {
            headers
                .append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
        }
        let mut writer = HeadWriter::new("a/b", &[0; 32], "id", "GET", ["http://", "shop", "/"]);
        let peer = "10.0.0.9".parse().unwrap();
        let sender = Sender { address: peer, scheme: Scheme::Http, is_trusted };
        let edge = Edge { sender, host: "shop", requested_host: "shop", peer, request_id: "id" };
        write(&mut writer, &headers, |_| false, &edge);
        let mut decoder = Decoder::default();
        decoder.push(writer.finish(&[], false));
        match decoder.next::<InvokeRequest>().unwrap().unwrap().part.unwrap() {
            Part::Head(head) => {
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                head.headers
                    .into_iter()
                    .map(|header| (text(header.name.as_bytes()), text(&header.value)))
                    .collect()
            }
            Part::EntryHead(_) | Part::Body(_) | Part::Trailers(_) => unreachable!(),
        }
    }

    fn value<'a>(headers: &'a [(String, String)], name: &str) -> Vec<&'a str> {
        headers.iter().filter(|(n, _)| n == name).map(|(_, value)| value.as_str()).collect()
    }

    #[test]
    fn hop_by_hop_headers_are_removed() {
        let sent = [
            ("connection", "keep-alive, X-Private"),
            ("keep-alive", "timeout=5"),
            ("x-private", "1"),
            ("te", "trailers"),
            ("upgrade", "h2c"),
            ("expect", "100-continue"),
            ("accept", "*/*"),
        ];
        let headers = seen_by_the_worker(&sent);
        let names: Vec<&str> = headers.iter().map(|(name, _)| name.as_str()).collect();
        let added =
            ["host", "x-request-id", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host"];
        assert_eq!(names, [&["accept"], &added[..]].concat());
    }

    #[test]
    fn the_headers_of_a_trusted_proxy_are_kept() {
        let sent = [
            ("x-forwarded-for", "1.1.1.1"),
            ("x-forwarded-for", "2.2.2.2"),
            ("x-forwarded-host", "shop.example.com"),
            ("x-real-ip", "1.1.1.1"),
        ];
        let headers = seen_behind_a_proxy(&sent, true);
        assert_eq!(value(&headers, "x-forwarded-for"), ["1.1.1.1, 2.2.2.2, 10.0.0.9"]);
        assert_eq!(value(&headers, "x-forwarded-host"), ["shop.example.com"]);
        assert_eq!(value(&headers, "x-real-ip"), ["1.1.1.1"]);
    }

    #[test]
    fn clients_cannot_forge_headers_of_the_router() {
        let sent = [
            ("x-forwarded-for", "1.1.1.1"),
            ("forwarded", "for=1.1.1.1"),
            ("x-real-ip", "1.1.1.1"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "bank"),
            ("host", "x"),
            ("tenon-node", "n"),
        ];
        let headers = seen_by_the_worker(&sent);
        for dropped in ["tenon-node", "forwarded", "x-real-ip"] {
            assert!(value(&headers, dropped).is_empty(), "{dropped}");
        }
        assert_eq!(value(&headers, "x-forwarded-for"), ["10.0.0.9"]);
        assert_eq!(value(&headers, "x-forwarded-proto"), ["http"]);
        assert_eq!(value(&headers, "x-forwarded-host"), ["shop"]);
        assert_eq!(value(&headers, "host"), ["shop"]);
    }

    #[test]
    fn a_request_id_is_kept_only_if_it_is_valid() {
        let id = |value: &str| {
            let headers =
                HeaderMap::from_iter([(REQUEST_ID, HeaderValue::from_str(value).unwrap())]);
            valid_request_id(&headers).map(str::to_owned)
        };
        assert_eq!(id("4bf92f35-77b3"), Some("4bf92f35-77b3".into()));
        for bad in ["", "a b", "{\"a\"}", &"x".repeat(200)] {
            assert_eq!(id(bad), None, "{bad}");
        }
    }
}
