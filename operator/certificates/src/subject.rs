//! The holders of certificates, each with a Secret of its own. This module is pure.
//!
//! | holder | Secret | DNS name of the role | URI below `spiffe://tenon.internal/ns/<namespace>` |
//! | --- | --- | --- | --- |
//! | operators | `tenon-operator-tls` | `operator.tenon.internal` | `/operator` |
//! | routers | `tenon-router-tls` | `router.tenon.internal` | `/router` |
//! | nodes of a pool | `tenon-pool-<name>-tls` | `runtime-node.tenon.internal` | `/pool/<name>` |
//! | nodes of earlier versions | `tenon-runtime-node-tls` | the same | none |
//!
//! No node of this version presents the last of these certificates. It is still issued, because
//! nodes of an earlier version present it until they are replaced, and would do so again after a
//! rollback.

use tenon_lifecycle::tls::{Principal, Role};

/// The placeholder for the name of a pool in [`POOL_SECRET`].
pub const POOL: &str = "{pool}";

/// The name of a pool's Secret, with the placeholder [`POOL`].
pub const POOL_SECRET: &str = "tenon-pool-{pool}-tls";

/// The holder of a certificate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    Role(Role),
    /// The nodes of the RuntimePool of this name.
    Pool(String),
}

impl Subject {
    /// Returns the subjects that every installation has.
    pub fn fixed() -> impl Iterator<Item = Self> {
        Role::ALL.into_iter().map(Self::Role)
    }

    /// Returns the role whose DNS name the certificate states.
    pub fn role(&self) -> Role {
        match self {
            Self::Role(role) => *role,
            Self::Pool(_) => Role::RuntimeNode,
        }
    }

    /// Returns the holder that the URI of the certificate names, or `None` for nodes of earlier
    /// versions, whose certificate has no URI.
    pub fn principal(&self) -> Option<Principal> {
        match self {
            Self::Role(Role::Operator) => Some(Principal::Operator),
            Self::Role(Role::Router) => Some(Principal::Router),
            Self::Role(Role::RuntimeNode) => None,
            Self::Pool(name) => Some(Principal::Pool(name.clone())),
        }
    }

    /// Returns the name of the Secret.
    pub fn secret(&self) -> String {
        match self {
            Self::Role(role) => role_secret(*role).to_owned(),
            Self::Pool(name) => POOL_SECRET.replace(POOL, name),
        }
    }
}

/// Returns the name of the Secret with a role's certificate.
pub const fn role_secret(role: Role) -> &'static str {
    match role {
        Role::Operator => "tenon-operator-tls",
        Role::Router => "tenon-router-tls",
        Role::RuntimeNode => "tenon-runtime-node-tls",
    }
}
