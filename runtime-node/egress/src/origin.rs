//! The origin of a request: the request's peer and tenant.

use std::net::IpAddr;
use std::rc::Rc;

use http::{HeaderMap, HeaderValue, header};
use rustls::pki_types::ServerName;
use url::Host;

/// The peer of a connection, and the tenant to which the connection belongs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Origin {
    pub(super) tenant: Rc<str>,
    pub(super) secure: bool,
    /// Whether the peer is known to speak HTTP/2, although no TLS handshake has negotiated it (RFC
    /// 9113 §3.3).
    pub(super) has_prior_knowledge: bool,
    pub(super) host: Host<String>,
    pub(super) port: u16,
}

impl Origin {
    pub(super) fn host(&self) -> String {
        self.host.to_string()
    }

    /// Returns whether concurrent exchanges may share a connection, because the peer may speak
    /// HTTP/2.
    pub(super) fn may_be_shared(&self) -> bool {
        self.secure || self.has_prior_knowledge
    }
}

/// Returns whether a request is a gRPC call, which exists only over HTTP/2 and ends with
/// trailers. The content types of grpc-web begin in the same way, but grpc-web needs neither.
pub(super) fn is_grpc(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let suffix = content_type.and_then(|value| value.strip_prefix(b"application/grpc"));
    suffix.is_some_and(|suffix| matches!(suffix.first(), None | Some(b'+' | b';')))
}

/// Returns the name or the address that the server's certificate must have, or `None` if the host
/// is a name that is not a valid DNS name.
pub(super) fn server_name(host: &Host<String>) -> Option<ServerName<'static>> {
    match host {
        Host::Domain(name) => {
            ServerName::try_from(name.strip_suffix('.').unwrap_or(name).to_owned()).ok()
        }
        Host::Ipv4(address) => Some(ServerName::from(IpAddr::V4(*address))),
        Host::Ipv6(address) => Some(ServerName::from(IpAddr::V6(*address))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grpc_call_is_known_by_its_content_type() {
        let is_grpc = |content_type: &'static str| {
            let value = HeaderValue::from_static(content_type);
            is_grpc(&HeaderMap::from_iter([(header::CONTENT_TYPE, value)]))
        };
        for content_type in ["application/grpc", "application/grpc+proto", "application/grpc; a=b"]
        {
            assert!(is_grpc(content_type), "{content_type}");
        }
        for content_type in ["application/grpc-web", "application/grpc-web+proto", "text/plain"] {
            assert!(!is_grpc(content_type), "{content_type}");
        }
        assert!(!super::is_grpc(&HeaderMap::new()));
    }
}
