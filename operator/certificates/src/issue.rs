//! Generates keys and signs certificates.

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType, date_time_ymd,
};
use tenon_lifecycle::tls::Role;

/// Maximum time by which the validity of a certificate begins before the certificate is signed,
/// because the clocks of machines differ.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_hours(1);

/// A certificate and its key, in PEM.
#[derive(Clone)]
pub struct CertifiedKey {
    pub certificate: String,
    pub key: String,
}

/// The error for a key or certificate that could not be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot make a certificate: {0}")]
pub struct IssueError(#[from] rcgen::Error);

/// Makes a self-signed authority.
///
/// # Errors
/// Fails if no key can be generated.
pub fn authority(now: Timestamp, lifetime: SignedDuration) -> Result<CertifiedKey, IssueError> {
    let key = KeyPair::generate()?;
    Ok(CertifiedKey {
        certificate: authority_params(now, lifetime).self_signed(&key)?.pem(),
        key: key.serialize_pem(),
    })
}

/// Makes a certificate for processes of this role.
///
/// # Arguments
/// * `authority` - an authority that [`authority`] has made. With another authority, the
///   certificate would name the wrong issuer.
/// * `uri` - the URI that names the holder more precisely, if there is one.
///
/// # Errors
/// Fails if the authority's key or `uri` is malformed, or no key can be generated.
pub fn certificate(
    authority: &CertifiedKey,
    role: Role,
    uri: Option<&str>,
    now: Timestamp,
    lifetime: SignedDuration,
) -> Result<CertifiedKey, IssueError> {
    let issuer = Issuer::new(authority_params(now, lifetime), KeyPair::from_pem(&authority.key)?);
    let mut params = params(role.dns_name(), now, lifetime);
    params.subject_alt_names =
        CertificateParams::new([role.dns_name().to_owned()])?.subject_alt_names;
    if let Some(uri) = uri {
        params.subject_alt_names.push(SanType::URI(uri.try_into()?));
    }
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    Ok(CertifiedKey {
        certificate: params.signed_by(&key, &issuer)?.pem(),
        key: key.serialize_pem(),
    })
}

fn authority_params(now: Timestamp, lifetime: SignedDuration) -> CertificateParams {
    let mut params = params("Tenon authority", now, lifetime);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn params(name: &str, now: Timestamp, lifetime: SignedDuration) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    let second = |at: Timestamp| {
        let since_1970 = std::time::Duration::from_secs(at.as_second().try_into().unwrap_or(0));
        date_time_ymd(1970, 1, 1) + since_1970
    };
    // The margin must not be a large part of a short lifetime.
    let early = CLOCK_SKEW.min(lifetime / 10);
    params.not_before = second(now.saturating_sub(early).unwrap_or(now));
    params.not_after = second(now.saturating_add(lifetime).unwrap_or(Timestamp::MAX));
    params
}
