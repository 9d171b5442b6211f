//! An identity: a certificate, its key, and the trusted authorities. An identity is parsed and
//! fully checked before it is used.
//!
//! This module reads no files and no clock.

use std::fmt;
use std::sync::Arc;

use der::asn1::{AnyRef, GeneralizedTime, UtcTime};
use der::{Decode as _, Reader, SliceReader, Tag, TagNumber, Tagged as _};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, Error, InconsistentKeys, RootCertStore};

pub use rustls::pki_types::UnixTime;

use super::crypto::provider;
use super::role::Role;

/// The entry of a Kubernetes TLS Secret, and the file in its volume, that contains the certificate
/// and any intermediate certificates.
pub const CERTIFICATE: &str = "tls.crt";
/// The entry and file that contain the private key of the certificate.
pub const KEY: &str = "tls.key";
/// The entry and file that contain the trusted authorities.
pub const AUTHORITIES: &str = "ca.crt";

/// The stored parts of an identity, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Bundle {
    /// The certificate, followed by any intermediate certificates.
    pub certificate: Vec<u8>,
    pub key: Vec<u8>,
    /// The authorities from which peers' certificates are accepted.
    pub authorities: Vec<u8>,
}

/// The validity period of a certificate, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    pub not_before: i64,
    pub not_after: i64,
}

/// A checked identity.
pub struct Identity {
    pub(super) certified: Arc<CertifiedKey>,
    pub(super) roots: Arc<RootCertStore>,
    validity: Validity,
    issuer: CertificateDer<'static>,
    issuer_validity: Validity,
}

/// The reason why an identity cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    #[error("{0} contains no certificate; add at least one in PEM")]
    NoCertificate(&'static str),
    #[error("{file} contains a malformed certificate: {why}")]
    Malformed { file: &'static str, why: String },
    #[error("{KEY} contains no private key in PEM: {0}")]
    NoKey(rustls::pki_types::pem::Error),
    #[error("{KEY} cannot be used: {0}")]
    BadKey(Error),
    #[error("{KEY} is not the key of {CERTIFICATE}; replace both with a matching pair")]
    KeyMismatch,
    #[error(
        "{CERTIFICATE} is not issued by an authority in {AUTHORITIES}; add its authority to that file"
    )]
    Untrusted,
    #[error("{CERTIFICATE} has expired; renew it")]
    Expired,
    #[error("{CERTIFICATE} is not valid yet; check this machine's clock")]
    NotValidYet,
    #[error("{CERTIFICATE} is not for {role}; issue it for the DNS name {}", role.dns_name())]
    Role { role: Role },
    #[error(
        "{CERTIFICATE} is not for both servers and clients; issue it for the usages \"server auth\" and \"client auth\""
    )]
    Usage,
    #[error("{CERTIFICATE} cannot be used: {0}")]
    Certificate(Error),
}

impl Identity {
    /// Parses an identity, and checks that peers with the same trusted authorities would accept its
    /// certificate for `role` at the time `now`.
    ///
    /// # Errors
    /// Fails if a part of the identity is missing or malformed, if the key does not belong to the
    /// certificate, or if peers would not accept the certificate. The error names the file.
    pub fn of(bundle: &Bundle, role: Role, now: UnixTime) -> Result<Self, IdentityError> {
        let chain = certificates(CERTIFICATE, &bundle.certificate)?;
        let authorities = certificates(AUTHORITIES, &bundle.authorities)?;
        let key = PrivateKeyDer::from_pem_slice(&bundle.key).map_err(IdentityError::NoKey)?;
        let (leaf, intermediates) =
            chain.split_first().ok_or(IdentityError::NoCertificate(CERTIFICATE))?;
        let validity = validity(CERTIFICATE, leaf)?;
        let certified = CertifiedKey::from_der(chain.clone(), key, &provider()).map_err(
            |error| match error {
                Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                    IdentityError::KeyMismatch
                }
                other => IdentityError::BadKey(other),
            },
        )?;
        let roots = Arc::new(roots(&authorities)?);
        verify(leaf, intermediates, &roots, now)?;
        let parsed = ParsedCertificate::try_from(leaf).map_err(IdentityError::Certificate)?;
        verify_server_name(&parsed, &role.server_name())
            .map_err(|_| IdentityError::Role { role })?;
        let issuer = authorities
            .into_iter()
            .find(|authority| has_issued(authority, leaf, intermediates, now));
        let issuer = issuer.ok_or(IdentityError::Untrusted)?;
        let issuer_validity = self::validity(AUTHORITIES, &issuer)?;
        Ok(Self { certified: Arc::new(certified), roots, validity, issuer, issuer_validity })
    }

    /// Returns the validity period of the certificate.
    pub fn validity(&self) -> Validity {
        self.validity
    }

    /// Returns the trusted authority that issued the certificate, directly or through the
    /// intermediate certificates.
    pub fn issuer(&self) -> &CertificateDer<'static> {
        &self.issuer
    }

    /// Returns the validity period of the authority that issued the certificate.
    pub fn issuer_validity(&self) -> Validity {
        self.issuer_validity
    }
}

/// Parses the certificates in a file.
///
/// # Errors
/// Fails if the file contains no certificate, or a malformed one.
pub fn certificates(
    file: &'static str,
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    let all = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let all = all.map_err(|error| IdentityError::Malformed { file, why: error.to_string() })?;
    if all.is_empty() { Err(IdentityError::NoCertificate(file)) } else { Ok(all) }
}

/// Returns the validity period of a certificate.
///
/// # Errors
/// Fails if the certificate is malformed.
pub fn validity(
    file: &'static str,
    certificate: &CertificateDer<'_>,
) -> Result<Validity, IdentityError> {
    parse_validity(certificate)
        .map_err(|error| IdentityError::Malformed { file, why: error.to_string() })
}

/// Parses the validity field (RFC 5280, section 4.1), which rustls checks but does not expose.
fn parse_validity(certificate: &[u8]) -> der::Result<Validity> {
    const VERSION: Tag = Tag::ContextSpecific { constructed: true, number: TagNumber(0) };
    let whole = AnyRef::from_der(certificate)?;
    let to_be_signed: AnyRef<'_> = SliceReader::new(whole.value())?.decode()?;
    let mut fields = SliceReader::new(to_be_signed.value())?;
    let first: AnyRef<'_> = fields.decode()?;
    if first.tag() == VERSION {
        let _serial_number: AnyRef<'_> = fields.decode()?;
    }
    let [_signature, _issuer, validity]: [AnyRef<'_>; 3] =
        [fields.decode()?, fields.decode()?, fields.decode()?];
    let mut times = SliceReader::new(validity.value())?;
    Ok(Validity { not_before: time(&mut times)?, not_after: time(&mut times)? })
}

fn time<'a>(times: &mut impl Reader<'a>) -> der::Result<i64> {
    let time = AnyRef::decode(times)?;
    let since_1970 = match time.tag() {
        Tag::UtcTime => time.decode_as::<UtcTime>()?.to_unix_duration(),
        _ => time.decode_as::<GeneralizedTime>()?.to_unix_duration(),
    };
    Ok(i64::try_from(since_1970.as_secs()).unwrap_or(i64::MAX))
}

fn roots(authorities: &[CertificateDer<'static>]) -> Result<RootCertStore, IdentityError> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        let malformed =
            |error: Error| IdentityError::Malformed { file: AUTHORITIES, why: error.to_string() };
        roots.add(authority.clone()).map_err(malformed)?;
    }
    Ok(roots)
}

/// Verifies the certificate as a peer would, both as a server's and as a client's certificate.
fn verify(
    leaf: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    roots: &Arc<RootCertStore>,
    now: UnixTime,
) -> Result<(), IdentityError> {
    let to_identity_error = |error| match error {
        Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => IdentityError::Untrusted,
        Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        ) => IdentityError::Expired,
        Error::InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        ) => IdentityError::NotValidYet,
        Error::InvalidCertificate(
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. },
        ) => IdentityError::Usage,
        other => IdentityError::Certificate(other),
    };
    let provider = provider();
    let parsed = ParsedCertificate::try_from(leaf).map_err(IdentityError::Certificate)?;
    let algorithms = provider.signature_verification_algorithms.all;
    verify_server_cert_signed_by_trust_anchor(&parsed, roots, intermediates, now, algorithms)
        .map_err(to_identity_error)?;
    let client_verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::clone(roots), provider).build();
    let client_verifier = client_verifier.map_err(|_| IdentityError::NoCertificate(AUTHORITIES))?;
    let verified = client_verifier.verify_client_cert(leaf, intermediates, now);
    verified.map(drop).map_err(to_identity_error)
}

fn has_issued(
    authority: &CertificateDer<'_>,
    leaf: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    now: UnixTime,
) -> bool {
    let mut only = RootCertStore::empty();
    let Ok(parsed) = ParsedCertificate::try_from(leaf) else { return false };
    let algorithms = provider().signature_verification_algorithms.all;
    only.add(authority.clone().into_owned()).is_ok()
        && verify_server_cert_signed_by_trust_anchor(&parsed, &only, intermediates, now, algorithms)
            .is_ok()
}

/// Omits the content, which includes the key.
impl fmt::Debug for Bundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bundle").finish_non_exhaustive()
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("validity", &self.validity).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
