//! The origin of a request: the request's peer and tenant.

use std::net::IpAddr;
use std::rc::Rc;

use rustls::pki_types::ServerName;
use url::Host;

/// The peer of a connection, and the tenant to which the connection belongs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Origin {
    pub(super) tenant: Rc<str>,
    pub(super) secure: bool,
    pub(super) host: Host<String>,
    pub(super) port: u16,
}

impl Origin {
    pub(super) fn host(&self) -> String {
        self.host.to_string()
    }
}

/// Returns the name that the server's certificate must have, or `None` if the host is not a
/// valid DNS name.
pub(super) fn server_name(host: &Host<String>) -> Option<ServerName<'static>> {
    match host {
        Host::Domain(name) => {
            ServerName::try_from(name.strip_suffix('.').unwrap_or(name).to_owned()).ok()
        }
        Host::Ipv4(address) => Some(ServerName::from(IpAddr::V4(*address))),
        Host::Ipv6(address) => Some(ServerName::from(IpAddr::V6(*address))),
    }
}
