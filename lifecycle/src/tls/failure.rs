//! The reasons why handshakes fail, for metrics and logs. This module is pure.

use std::{fmt, io};

use rustls::{CertificateError, Error};

crate::label_values! {
    /// The reason why a handshake failed.
    pub enum Reason {
        /// The peer presented no certificate.
        NoCertificate = "no_certificate",
        /// The peer's certificate was not issued by a trusted authority.
        Untrusted = "untrusted",
        /// The peer's certificate has expired or is not valid yet.
        Expired = "expired",
        /// The peer is a process of the platform whose role is not admitted, or is not the expected
        /// one.
        WrongRole = "wrong_role",
        /// The peer's certificate is invalid for another reason.
        BadCertificate = "bad_certificate",
        /// The peer refused the connection with an alert.
        Refused = "refused",
        /// The received bytes are not TLS.
        NotTls = "not_tls",
        /// The peer violated the protocol, or supports none of our parameters.
        Protocol = "protocol",
        /// The peer closed the connection, or the connection broke.
        Closed = "closed",
        /// The handshake took too long.
        Timeout = "timeout",
        /// There were too many handshakes, and this one had taken longest.
        Crowded = "crowded",
        /// This process has no certificate yet.
        NoIdentity = "no_identity",
    }
}

impl Reason {
    /// Returns the reason for an error from tokio-rustls.
    pub(super) fn from_error(error: &io::Error) -> Self {
        let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
        match tls {
            None => Self::Closed,
            Some(Error::NoCertificatesPresented) => Self::NoCertificate,
            Some(Error::InvalidCertificate(certificate)) => {
                Self::from_certificate_error(certificate)
            }
            Some(Error::AlertReceived(_)) => Self::Refused,
            Some(Error::InvalidMessage(_)) => Self::NotTls,
            Some(_) => Self::Protocol,
        }
    }

    fn from_certificate_error(error: &CertificateError) -> Self {
        match error {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => Self::Untrusted,
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => Self::Expired,
            CertificateError::ApplicationVerificationFailure
            | CertificateError::NotValidForName
            | CertificateError::NotValidForNameContext { .. } => Self::WrongRole,
            _ => Self::BadCertificate,
        }
    }
}

/// The error for a failed handshake, which has been counted and logged.
#[derive(Debug)]
pub struct HandshakeError {
    pub reason: Reason,
    pub(super) source: Option<io::Error>,
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TLS handshake failed: {}", self.reason.as_str())?;
        self.source.iter().try_for_each(|source| write!(f, ": {source}"))
    }
}

impl std::error::Error for HandshakeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}

impl From<HandshakeError> for io::Error {
    fn from(error: HandshakeError) -> Self {
        Self::other(error)
    }
}
