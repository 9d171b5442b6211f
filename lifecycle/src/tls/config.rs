//! The rustls configurations of an identity, for either side of a connection.
//!
//! Only TLS 1.3 and HTTP/2 are used. A peer is identified by the role in its certificate, not by
//! its address. The sessions that a configuration can resume end with the configuration, and the
//! configuration ends with its identity: no client can resume a session whose certificate would no
//! longer be accepted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig,
    SignatureScheme,
};

use super::crypto::provider;
use super::identity::{AUTHORITIES, Identity, IdentityError};
use super::role::Role;

const ALPN: &[u8] = b"h2";

/// Maximum number of servers whose sessions a client remembers. A connection to a forgotten server
/// costs a full handshake.
const REMEMBERED_SERVERS: usize = 1024;

/// Returns the configuration with which a process of this role accepts clients.
///
/// # Arguments
/// * `admits_own_role` - whether clients of the same role are admitted, too.
pub(super) fn server(
    identity: &Identity,
    role: Role,
    admits_own_role: Arc<AtomicBool>,
) -> Result<ServerConfig, IdentityError> {
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::clone(&identity.roots), provider())
            // Clients have only one certificate to present, so the trusted authorities are not
            // disclosed.
            .clear_root_hint_subjects()
            .build()
            .map_err(|_| IdentityError::NoCertificate(AUTHORITIES))?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(IdentityError::Certificate)?
        .with_client_cert_verifier(Arc::new(ClientVerifier { verifier, role, admits_own_role }))
        .with_cert_resolver(Arc::new(resolver(identity)));
    config.alpn_protocols = vec![ALPN.to_vec()];
    // Clients keep the sessions that they may resume.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.ticketer = Ticketer::new().map_err(IdentityError::Certificate)?;
    Ok(config)
}

/// Returns the configuration for connections to processes of the role `peer`.
pub(super) fn client(identity: &Identity, peer: Role) -> Result<ClientConfig, IdentityError> {
    let verifier =
        WebPkiServerVerifier::builder_with_provider(Arc::clone(&identity.roots), provider())
            .build()
            .map_err(|_| IdentityError::NoCertificate(AUTHORITIES))?;
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(IdentityError::Certificate)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(ServerVerifier {
            verifier,
            name: peer.server_name(),
        }))
        .with_client_cert_resolver(Arc::new(resolver(identity)));
    config.alpn_protocols = vec![ALPN.to_vec()];
    // The server's name is used only as the key of remembered sessions.
    config.enable_sni = false;
    config.resumption = Resumption::in_memory_sessions(REMEMBERED_SERVERS);
    Ok(config)
}

/// Returns whether a verified certificate is for this role. A certificate may be for several roles.
pub(super) fn is_for(certificate: &CertificateDer<'_>, role: Role) -> bool {
    let parsed = ParsedCertificate::try_from(certificate);
    parsed.is_ok_and(|parsed| verify_server_name(&parsed, &role.server_name()).is_ok())
}

fn resolver(identity: &Identity) -> SingleCertAndKey {
    SingleCertAndKey::from(Arc::clone(&identity.certified))
}

/// Verifies clients, and admits those whose role may call this server.
#[derive(Debug)]
struct ClientVerifier {
    verifier: Arc<dyn ClientCertVerifier>,
    /// Role of the server.
    role: Role,
    /// Whether clients of the server's own role are admitted, too.
    admits_own_role: Arc<AtomicBool>,
}

impl ClientVerifier {
    fn admits(&self, peer: Role) -> bool {
        self.role.admits(peer) || peer == self.role && self.admits_own_role.load(Relaxed)
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.verifier.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.verifier.verify_client_cert(end_entity, intermediates, now)?;
        // A certificate for several roles has the permissions of each.
        let mut admitted = Role::ALL.into_iter().filter(|peer| self.admits(*peer));
        if admitted.any(|peer| is_for(end_entity, peer)) {
            Ok(verified)
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

/// Verifies a server by its role, regardless of its address.
#[derive(Debug)]
struct ServerVerifier {
    verifier: Arc<WebPkiServerVerifier>,
    /// The name that the server's certificate must contain.
    name: ServerName<'static>,
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _address: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.verifier.verify_server_cert(end_entity, intermediates, &self.name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}
