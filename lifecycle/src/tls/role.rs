//! The roles of processes, and which role may call which. This module is pure.

use std::fmt;

use rustls::pki_types::{DnsName, ServerName};

/// The role of a process, which its certificate states as a DNS name among the subject alternative
/// names. The name is never resolved: addresses of Pods change, and only the role matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    Operator,
    Router,
    RuntimeNode,
}

impl Role {
    /// All roles, in the order of their declaration.
    pub const ALL: [Self; 3] = [Self::Operator, Self::Router, Self::RuntimeNode];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Router => "router",
            Self::RuntimeNode => "runtime-node",
        }
    }

    /// Returns the DNS name in certificates of this role.
    pub const fn dns_name(self) -> &'static str {
        match self {
            Self::Operator => "operator.tenon.internal",
            Self::Router => "router.tenon.internal",
            Self::RuntimeNode => "runtime-node.tenon.internal",
        }
    }

    /// Returns whether a process of this role always accepts connections from `peer`: routers and
    /// nodes request the catalog, routers call shards, and nodes and operators use a router's
    /// internal listener. A server can be configured to admit its own role as well.
    pub const fn admits(self, peer: Self) -> bool {
        match self {
            Self::Operator => matches!(peer, Self::Router | Self::RuntimeNode),
            Self::Router => matches!(peer, Self::RuntimeNode | Self::Operator),
            Self::RuntimeNode => matches!(peer, Self::Router),
        }
    }

    pub(super) fn server_name(self) -> ServerName<'static> {
        ServerName::DnsName(
            DnsName::try_from(self.dns_name()).expect("the role's name is not a DNS name"),
        )
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
