//! The URI by which a certificate names its holder more precisely than by its role. This module is
//! pure.
//!
//! ```text
//!  spiffe://tenon.internal/ns/<namespace of the platform>/operator
//!                                                        /router
//!                                                        /pool/<name of a RuntimePool>
//! ```
//!
//! The form is that of a SPIFFE ID. The role decides which connections are admitted; the pool
//! decides what a node gets over them.

use std::fmt;

use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

use super::role::Role;

/// The trust domain in the URIs.
pub const TRUST_DOMAIN: &str = "tenon.internal";

/// Maximum length of the name of a RuntimePool, by its schema.
const LONGEST_POOL: usize = 42;

/// The holder of a certificate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Principal {
    Operator,
    Router,
    /// The nodes of the RuntimePool of this name.
    Pool(String),
}

/// The error for a certificate that is malformed, or that has several URIs of the trust domain or
/// an invalid one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrincipalError {
    #[error("the certificate has several URIs of {TRUST_DOMAIN}; issue it for one")]
    Several,
    #[error(
        "the certificate's URI names no part of this platform; issue it for \
         spiffe://{TRUST_DOMAIN}/ns/NAMESPACE/pool/NAME, with the namespace of the operator"
    )]
    Foreign,
    #[error("the certificate is malformed")]
    Malformed,
}

impl Principal {
    /// Returns the role of the holder's processes.
    pub const fn role(&self) -> Role {
        match self {
            Self::Operator => Role::Operator,
            Self::Router => Role::Router,
            Self::Pool(_) => Role::RuntimeNode,
        }
    }

    /// Returns the URI of this holder.
    ///
    /// # Arguments
    /// * `namespace` - the namespace of the platform.
    pub fn uri(&self, namespace: &str) -> String {
        format!("spiffe://{TRUST_DOMAIN}/ns/{namespace}/{self}")
    }

    /// Returns the holder that a verified certificate names, or `None` if the certificate has no
    /// URI of the trust domain. Other URIs are ignored.
    ///
    /// # Arguments
    /// * `namespace` - the namespace of the platform.
    ///
    /// # Errors
    /// Fails if the certificate is malformed or has several such URIs, or if its URI names no part
    /// of this platform.
    pub fn of(
        certificate: &CertificateDer<'_>,
        namespace: &str,
    ) -> Result<Option<Self>, PrincipalError> {
        match Self::named(certificate)? {
            Some((platform, _)) if platform != namespace => Err(PrincipalError::Foreign),
            named => Ok(named.map(|(_, principal)| principal)),
        }
    }

    /// Returns the namespace of the platform and the holder that a verified certificate names, or
    /// `None` if the certificate has no URI of the trust domain.
    pub(super) fn named(
        certificate: &CertificateDer<'_>,
    ) -> Result<Option<(String, Self)>, PrincipalError> {
        let parsed = EndEntityCert::try_from(certificate).map_err(|_| PrincipalError::Malformed)?;
        let ours = format!("spiffe://{TRUST_DOMAIN}/");
        let mut paths = parsed.valid_uri_names().filter_map(|uri| uri.strip_prefix(&ours));
        let Some(path) = paths.next() else { return Ok(None) };
        if paths.next().is_some() {
            return Err(PrincipalError::Several);
        }
        Self::parse(path).map(Some).ok_or(PrincipalError::Foreign)
    }

    /// Parses the path of a URI of the trust domain, or returns `None` if it names no holder.
    fn parse(path: &str) -> Option<(String, Self)> {
        let (namespace, holder) = path.strip_prefix("ns/")?.split_once('/')?;
        let principal = match holder {
            "operator" => Self::Operator,
            "router" => Self::Router,
            holder => {
                let name = holder.strip_prefix("pool/").filter(|name| is_pool_name(name))?;
                Self::Pool(name.to_owned())
            }
        };
        Some((namespace.to_owned(), principal))
    }
}

/// Displays the path of the URI below the namespace.
impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operator => f.write_str("operator"),
            Self::Router => f.write_str("router"),
            Self::Pool(name) => write!(f, "pool/{name}"),
        }
    }
}

fn is_pool_name(name: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=LONGEST_POOL).contains(&name.len())
        && name.bytes().all(is_inner)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

#[cfg(test)]
mod tests {
    use rcgen::SanType;
    use rustls::pki_types::pem::PemObject as _;

    use super::*;
    use crate::tls::fixtures::Authority;

    /// Returns the holder that a node's certificate with these URIs names.
    fn holder(uris: &[&str]) -> Result<Option<Principal>, PrincipalError> {
        let bundle = Authority::new("one").issue(Role::RuntimeNode, |params| {
            let uris = uris.iter().map(|uri| SanType::URI((*uri).try_into().unwrap()));
            params.subject_alt_names.extend(uris);
        });
        let certificate = CertificateDer::from_pem_slice(&bundle.certificate).unwrap();
        Principal::of(&certificate, "tenon-system")
    }

    #[test]
    fn a_uri_names_the_holder_of_a_certificate() {
        let pool = Principal::Pool("gpu-2".to_owned());
        assert_eq!(pool.uri("tenon-system"), "spiffe://tenon.internal/ns/tenon-system/pool/gpu-2");
        for principal in [Principal::Operator, Principal::Router, pool] {
            let uri = principal.uri("tenon-system");
            assert_eq!(holder(&[&uri, "https://example.com/"]), Ok(Some(principal)));
        }
    }

    #[test]
    fn a_certificate_without_a_uri_of_the_trust_domain_names_no_holder() {
        assert_eq!(holder(&[]), Ok(None));
        assert_eq!(holder(&["spiffe://corp.example/ns/tenon-system/pool/a"]), Ok(None));
        assert_eq!(holder(&["spiffe://tenon.internal.example/ns/x/router"]), Ok(None));
    }

    #[test]
    fn a_certificate_of_another_platform_or_for_two_pools_is_refused() {
        let in_system = "spiffe://tenon.internal/ns/tenon-system";
        for foreign in [
            "spiffe://tenon.internal/ns/other/pool/a",
            &format!("{in_system}/pool/"),
            &format!("{in_system}/pool/-a"),
            &format!("{in_system}/pool/a/b"),
            &format!("{in_system}/pool/A"),
            &format!("{in_system}/pool/{}", "a".repeat(43)),
            &format!("{in_system}/node"),
        ] {
            assert_eq!(holder(&[foreign]), Err(PrincipalError::Foreign), "{foreign}");
        }
        let (a, b) = (format!("{in_system}/pool/a"), format!("{in_system}/pool/b"));
        assert_eq!(holder(&[&a, &b]), Err(PrincipalError::Several));
    }
}
