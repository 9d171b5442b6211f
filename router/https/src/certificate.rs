//! A certificate, which is checked before it is used. This module is pure.

use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};
use tenon_lifecycle::tls::identity::{self, CERTIFICATE, IdentityError, KEY};
use webpki::EndEntityCert;

/// A certificate with its key.
#[derive(Clone, Debug)]
pub(super) struct Certificate {
    pub(super) certified: Arc<CertifiedKey>,
    /// The DNS names for which the certificate is valid, in lower case, such as `*.example.com`.
    pub(super) names: Vec<String>,
    /// The end of the certificate's validity, in seconds since 1970.
    pub(super) not_after: i64,
}

/// The reason why a certificate cannot be used. The error names the file and the remedy.
#[derive(Debug, thiserror::Error)]
pub(super) enum CertificateError {
    #[error("{0}")]
    Read(String),
    #[error(transparent)]
    Certificate(#[from] IdentityError),
    #[error("{KEY} contains no private key in PEM: {0}; store the key of {CERTIFICATE} in it")]
    NoKey(rustls::pki_types::pem::Error),
    #[error("{KEY} is not the key of {CERTIFICATE}; replace both with a matching pair")]
    KeyMismatch,
    #[error("{KEY} cannot be used: {0}; issue the certificate with another type of key")]
    BadKey(Error),
    #[error("{CERTIFICATE} cannot be used: {0}; issue the certificate again")]
    Malformed(webpki::Error),
    #[error("{CERTIFICATE} has no DNS name; issue it for the hosts that clients use")]
    NoNames,
}

impl Certificate {
    /// Parses the files of a Secret of type `kubernetes.io/tls`.
    ///
    /// # Errors
    /// Fails if the files are malformed, or do not belong together, or if the certificate has no
    /// DNS name. An expired certificate is accepted, because it still serves the clients that
    /// ignore the expiry.
    pub(super) fn parse(certificate: &[u8], key: &[u8]) -> Result<Self, CertificateError> {
        let chain = identity::certificates(CERTIFICATE, certificate)?;
        let leaf = chain.first().ok_or(IdentityError::NoCertificate(CERTIFICATE))?;
        let not_after = identity::validity(CERTIFICATE, leaf)?.not_after;
        let parsed = EndEntityCert::try_from(leaf).map_err(CertificateError::Malformed)?;
        let names: Vec<_> = parsed.valid_dns_names().map(str::to_ascii_lowercase).collect();
        if names.is_empty() {
            return Err(CertificateError::NoNames);
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(CertificateError::NoKey)?;
        let certified = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider());
        let certified = certified.map_err(|error| match error {
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => CertificateError::KeyMismatch,
            other => CertificateError::BadKey(other),
        })?;
        Ok(Self { certified: Arc::new(certified), names, not_after })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::Files;

    #[test]
    fn a_certificate_has_the_names_for_which_it_was_issued() {
        let files = Files::issued_for(&["Shop.example.com", "*.example.com"]);
        let parsed = Certificate::parse(&files.certificate, &files.key).unwrap();
        assert_eq!(parsed.names, ["shop.example.com", "*.example.com"]);
        assert!(parsed.not_after > 0);
    }

    #[test]
    fn files_that_do_not_belong_together_are_refused() {
        let (one, other) = (Files::issued_for(&["a"]), Files::issued_for(&["a"]));
        let refused = |certificate: &[u8], key: &[u8]| {
            Certificate::parse(certificate, key).unwrap_err().to_string()
        };
        assert!(refused(&one.certificate, &other.key).contains("matching pair"));
        assert!(refused(b"", &one.key).contains("tls.crt contains no certificate"));
        assert!(refused(&one.certificate, b"").contains("tls.key contains no private key"));
    }
}
