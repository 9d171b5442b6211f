//! How a handshake fails, as metrics and logs have it. Pure.

use std::{fmt, io};

use rustls::{CertificateError, Error};

/// Why a handshake has come to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The other side has shown no certificate.
    NoCertificate,
    /// Its certificate comes from no authority that is believed here.
    Untrusted,
    /// Its certificate is not valid at this time.
    Expired,
    /// It is a process of ours that has no business here, or that was not looked for there.
    WrongRole,
    /// Its certificate is wrong in another way.
    BadCertificate,
    /// The other side would not have us, and has said so.
    Refused,
    /// What came is no TLS.
    NotTls,
    /// It breaks TLS's rules, or speaks nothing that we do.
    Protocol,
    /// It hung up.
    Closed,
    /// It took too long.
    Timeout,
    /// It took longest when there were too many.
    Crowded,
    /// We have no certificate ourselves, yet.
    NoIdentity,
}

impl Reason {
    /// In the order of their declaration.
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

    /// Of what tokio-rustls says.
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

/// A handshake that has come to nothing. It has been counted and logged.
#[derive(Debug)]
pub struct HandshakeError {
    pub reason: Reason,
    pub(super) source: Option<io::Error>,
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no TLS handshake: {}", self.reason.as_str())?;
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
