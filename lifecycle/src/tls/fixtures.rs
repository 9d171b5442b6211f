//! Authorities, processes with their certificates, and handshakes between them, for tests.

use std::net::Ipv4Addr;

use prometheus::Registry;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use tokio::net::{TcpListener, TcpStream};

use super::endpoint::Tls;
use super::failure::Reason;
use super::identity::Bundle;
use super::role::Role;
use super::stream::Stream;

pub(super) const BOTH: [ExtendedKeyUsagePurpose; 2] =
    [ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];

pub(super) struct Authority(pub(super) CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(super) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(super) fn pem(&self) -> String {
        self.0.pem()
    }

    /// Issues a certificate for a role. The returned bundle trusts this authority.
    pub(super) fn bundle(&self, role: Role) -> Bundle {
        self.issue(role, |_| {})
    }

    pub(super) fn issue(&self, role: Role, change: impl FnOnce(&mut CertificateParams)) -> Bundle {
        let mut params = CertificateParams::new([role.dns_name().to_owned()]).unwrap();
        params.extended_key_usages = BOTH.to_vec();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Bundle {
            certificate: certificate.pem().into(),
            key: key.serialize_pem().into(),
            authorities: self.pem().into(),
        }
    }
}

pub(super) fn process(role: Role, bundle: &Bundle) -> Tls {
    let tls = Tls::without_certificate(role, &Registry::new()).unwrap();
    tls.install(bundle).unwrap();
    tls
}

/// Connects `client`, which expects a server of the role `expected_role`, to `server`. Returns the
/// results of the client and of the server.
pub(super) async fn handshake(
    client: &Tls,
    server: &Tls,
    expected_role: Role,
) -> (Result<Stream, Reason>, Result<Stream, Reason>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let accepted = async { server.accept(listener.accept().await.unwrap().0).await };
    let (connected, accepted) =
        tokio::join!(client.connect(expected_role, "127.0.0.1", stream), accepted);
    (connected.map_err(|error| error.reason), accepted.map_err(|error| error.reason))
}

/// Returns the reasons why a handshake failed on the client's and on the server's side, or
/// `None` for a side on which the handshake succeeded.
pub(super) async fn outcome(
    client: &Tls,
    server: &Tls,
    expected_role: Role,
) -> (Option<Reason>, Option<Reason>) {
    let (connected, accepted) = handshake(client, server, expected_role).await;
    (connected.err(), accepted.err())
}
