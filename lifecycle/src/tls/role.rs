//! What a process is to the others, and who may call whom. Pure.

use std::fmt;

use rustls::pki_types::{DnsName, ServerName};

/// What a certificate says that its holder is: a DNS name among its subject alternative names. No such name is ever
/// resolved; Pods come and go, and what matters is what they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    Operator,
    Router,
    RuntimeNode,
}

impl Role {
    /// In the order of their declaration.
    pub const ALL: [Self; 3] = [Self::Operator, Self::Router, Self::RuntimeNode];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Router => "router",
            Self::RuntimeNode => "runtime-node",
        }
    }

    /// What its certificate is for.
    pub const fn dns_name(self) -> &'static str {
        match self {
            Self::Operator => "operator.tenon.internal",
            Self::Router => "router.tenon.internal",
            Self::RuntimeNode => "runtime-node.tenon.internal",
        }
    }

    /// Whether a process of this role lets one of that role in: routers and nodes ask for the catalog, routers call shards,
    /// and nodes and operators come by a router's inner door.
    pub const fn admits(self, peer: Self) -> bool {
        match self {
            Self::Operator => matches!(peer, Self::Router | Self::RuntimeNode),
            Self::Router => matches!(peer, Self::RuntimeNode | Self::Operator),
            Self::RuntimeNode => matches!(peer, Self::Router),
        }
    }

    pub(super) fn server_name(self) -> ServerName<'static> {
        ServerName::DnsName(DnsName::try_from(self.dns_name()).expect("a role's name is a DNS name"))
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
