//! A router that terminates TLS.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use prometheus::Registry;
use rcgen::{CertifiedKey, KeyPair};
use tenon_router::{Https, HttpsSettings};

use super::{Behavior, Node, Options, Scenario};

/// A router with HTTPS certificates.
pub(crate) struct Secured {
    pub(crate) scenario: Scenario,
    pub(crate) folders: tempfile::TempDir,
    pub(crate) node: Node,
}

/// Issues a certificate, and stores it in a folder.
pub(crate) fn issue(folder: &Path, host: &str) -> CertifiedKey<KeyPair> {
    let issued = rcgen::generate_simple_self_signed([host.to_owned()]).unwrap();
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("tls.key"), issued.signing_key.serialize_pem()).unwrap();
    fs::write(folder.join("tls.crt"), issued.cert.pem()).unwrap();
    issued
}

impl Secured {
    /// Starts a router with a certificate for each host.
    pub(crate) async fn with(
        hosts: &[&str],
        settings: HttpsSettings,
    ) -> (Self, Vec<CertifiedKey<KeyPair>>) {
        Self::with_options(hosts, settings, Options::default()).await
    }

    /// Starts a router as [`with`](Self::with) does.
    pub(crate) async fn with_options(
        hosts: &[&str],
        settings: HttpsSettings,
        options: Options,
    ) -> (Self, Vec<CertifiedKey<KeyPair>>) {
        let folders = tempfile::tempdir().unwrap();
        let issued = hosts.iter().map(|host| issue(&folders.path().join(host), host)).collect();
        let https = Https::open(folders.path().to_owned(), settings, &Registry::new()).unwrap();
        let node = Node::start("n", Behavior::Echo);
        let options = Options { https: Some(https), ..options };
        let scenario = Scenario::with_options(&[&node], options).await;
        (Self { scenario, folders, node }, issued)
    }

    /// Returns the address for clients with TLS, over TCP and over UDP.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.scenario.router().https_addr().unwrap()
    }
}
