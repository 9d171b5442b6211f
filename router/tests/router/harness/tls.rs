//! Certificates, and TLS proxies in front of a catalog or a node that has no TLS itself.

use std::net::{Ipv4Addr, SocketAddr};

use prometheus::Registry;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, SanType,
};
use tenon_lifecycle::tls::{Bundle, Principal, Role, Tls};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Issues a bundle for a process that trusts this authority and `others`.
    pub(crate) fn bundle(&self, role: Role, others: &[&Self]) -> Bundle {
        self.bundle_with(role, None, others)
    }

    fn bundle_with(&self, role: Role, uri: Option<String>, others: &[&Self]) -> Bundle {
        let mut params = CertificateParams::new([role.dns_name().to_owned()]).unwrap();
        let uri = uri.map(|uri| SanType::URI(uri.try_into().unwrap()));
        params.subject_alt_names.extend(uri);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let authorities: String =
            [self].iter().chain(others).map(|authority| authority.0.pem()).collect();
        Bundle {
            certificate: certificate.pem().into(),
            key: key.serialize_pem().into(),
            authorities: authorities.into(),
        }
    }

    /// Returns the TLS state of a node whose certificate names its pool.
    pub(crate) fn tls_of_pool(&self, pool: &str) -> Tls {
        let uri = Principal::Pool(pool.to_owned()).uri("tenon-system");
        let tls = Tls::without_certificate(Role::RuntimeNode, &Registry::new()).unwrap();
        tls.install(&self.bundle_with(Role::RuntimeNode, Some(uri), &[])).unwrap();
        tls
    }

    pub(crate) fn tls(&self, role: Role) -> Tls {
        let tls = Tls::without_certificate(role, &Registry::new()).unwrap();
        tls.install(&self.bundle(role, &[])).unwrap();
        tls
    }
}

/// A TLS proxy that forwards the connections of trusted peers to an address. Dropping the proxy
/// closes the listener.
pub(crate) struct TlsProxy {
    pub(crate) addr: SocketAddr,
    cut_tx: watch::Sender<()>,
    opens_tx: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl TlsProxy {
    pub(crate) async fn in_front_of(behind: SocketAddr, tls: Tls) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (cut_tx, cut_rx) = watch::channel(());
        let (opens_tx, mut opens_rx) = watch::channel(true);
        let task = tokio::spawn(async move {
            loop {
                opens_rx.wait_for(|opens| *opens).await.unwrap();
                let (stream, _) = tokio::select! {
                    biased;
                    _ = opens_rx.changed() => continue,
                    accepted = listener.accept() => accepted.unwrap(),
                };
                let (tls, mut cut_rx) = (tls.clone(), cut_rx.clone());
                // An earlier cut does not affect this connection.
                cut_rx.mark_unchanged();
                tokio::spawn(async move {
                    let Ok(mut near) = tls.accept(stream).await else { return };
                    let mut far = TcpStream::connect(behind).await.unwrap();
                    tokio::select! {
                        _ = copy_bidirectional(&mut near, &mut far) => {}
                        _ = cut_rx.changed() => {}
                    }
                });
            }
        });
        Self { addr, cut_tx, opens_tx, task }
    }

    /// Breaks all connections, so that new handshakes take place.
    pub(crate) fn cut(&self) {
        self.cut_tx.send_replace(());
    }

    /// Breaks all connections and leaves new ones unaccepted in the kernel, as if a process had
    /// ended and its successor had not started yet.
    pub(crate) fn shut(&self) {
        self.opens_tx.send_replace(false);
        self.cut();
    }

    pub(crate) fn open(&self) {
        self.opens_tx.send_replace(true);
    }
}

impl Drop for TlsProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}
