//! The reasons why handshakes fail, for metrics and logs. Pure.

use std::{fmt, io};

use rustls::{CertificateError, Error};

/// The reason why a handshake failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The peer presented no certificate.
    NoCertificate,
    /// The peer's certificate was not issued by a trusted authority.
    Untrusted,
    /// The peer's certificate has expired or is not valid yet.
    Expired,
    /// The peer is a process of the platform whose role is not admitted, or is not the expected
    /// one.
    WrongRole,
    /// The peer's certificate is invalid for another reason.
    BadCertificate,
    /// The peer refused the connection with an alert.
    Refused,
    /// The received bytes are not TLS.
    NotTls,
    /// The peer violated the protocol, or supports none of our parameters.
    Protocol,
    /// The peer closed the connection.
    Closed,
    /// The handshake took too long.
    Timeout,
    /// There were too many handshakes, and this one had taken longest.
    Crowded,
    /// This process has no certificate yet.
    NoIdentity,
}

impl Reason {
    /// All reasons, in the order of their declaration.
    pub const ALL: [Self; 12] = [
        Self::NoCertificate,
        Self::Untrusted,
        Self::Expired,
        Self::WrongRole,
        Self::BadCertificate,
        Self::Refused,
        Self::NotTls,
        Self::Protocol,
        Self::Closed,
        Self::Timeout,
        Self::Crowded,
        Self::NoIdentity,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoCertificate => "no_certificate",
            Self::Untrusted => "untrusted",
            Self::Expired => "expired",
            Self::WrongRole => "wrong_role",
            Self::BadCertificate => "bad_certificate",
            Self::Refused => "refused",
            Self::NotTls => "not_tls",
            Self::Protocol => "protocol",
            Self::Closed => "closed",
            Self::Timeout => "timeout",
            Self::Crowded => "crowded",
            Self::NoIdentity => "no_identity",
        }
    }

    /// Returns the reason for an error from tokio-rustls.
    pub(super) fn of(error: &io::Error) -> Self {
        let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
        match tls {
            None => Self::Closed,
            Some(Error::NoCertificatesPresented) => Self::NoCertificate,
            Some(Error::InvalidCertificate(certificate)) => Self::of_certificate(certificate),
            Some(Error::AlertReceived(_)) => Self::Refused,
            Some(Error::InvalidMessage(_)) => Self::NotTls,
            Some(_) => Self::Protocol,
        }
    }

    fn of_certificate(error: &CertificateError) -> Self {
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

/// A failed handshake. It has been counted and logged.
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
