//! Settings that the HTTP clients of a node's shards share. They are read when the node starts, and
//! never change afterwards.

use std::path::PathBuf;
use std::sync::Arc;

use hickory_resolver::Hosts;
use hickory_resolver::config::{ResolverConfig, ResolverOpts};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

use super::concurrency::EgressBounds;
use super::policy::Policy;
use super::proxy::Proxy;

/// Protocols that the client offers with ALPN. It prefers HTTP/2.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The settings of a node's HTTP clients.
#[derive(Clone)]
pub struct Settings {
    pub policy: Policy,
    pub bounds: EgressBounds,
    /// The proxy for all connections, if there is one.
    pub(super) proxy: Option<Arc<Proxy>>,
    pub(super) tls: Arc<ClientConfig>,
    /// The name servers. Without any, only the names in `hosts` can be resolved.
    pub(super) resolver: Option<(ResolverConfig, ResolverOpts)>,
    pub(super) hosts: Arc<Hosts>,
}

/// The reason why a node's settings are unusable.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("--egress-ca-file {}: {why}; set it to a file with PEM certificates", .path.display())]
    Certificates { path: PathBuf, why: String },
}

impl Settings {
    /// Builds the settings from the system's configuration: its certificates, `/etc/resolv.conf`
    /// and `/etc/hosts`.
    ///
    /// # Arguments
    /// * `authorities` - files with certificates to trust in addition to the system's.
    ///
    /// # Errors
    /// Fails if a file of `authorities` cannot be read or contains no certificate. A system without
    /// certificates or name servers is logged, but is no error.
    pub fn from_system(policy: Policy, authorities: &[PathBuf]) -> Result<Self, SettingsError> {
        let native = rustls_native_certs::load_native_certs();
        let mut roots = native.certs;
        for path in authorities {
            let refused = |why: String| SettingsError::Certificates { path: path.clone(), why };
            let found =
                CertificateDer::pem_file_iter(path).map_err(|error| refused(error.to_string()))?;
            let before = roots.len();
            for certificate in found {
                roots.push(certificate.map_err(|error| refused(error.to_string()))?);
            }
            if roots.len() == before {
                return Err(refused("it contains no certificate".to_owned()));
            }
        }
        if roots.is_empty() {
            tracing::warn!(
                errors = ?native.errors,
                "the system has no certificates, so https: URLs cannot be fetched; install them or set --egress-ca-file"
            );
        }
        let resolver = hickory_resolver::system_conf::read_system_conf()
            .inspect_err(|error| tracing::warn!(%error, "cannot use /etc/resolv.conf; no names can be resolved"))
            .ok();
        let hosts = Hosts::from_system()
            .inspect_err(|error| tracing::warn!(%error, "cannot read /etc/hosts"))
            .unwrap_or_default();
        Ok(Self { resolver, ..Self::isolated(policy, roots, hosts) })
    }

    /// Builds settings that use only these certificates and names, instead of the system's.
    pub fn isolated(policy: Policy, roots: Vec<CertificateDer<'static>>, hosts: Hosts) -> Self {
        let mut store = RootCertStore::empty();
        let (_, ignored) = store.add_parsable_certificates(roots);
        if ignored > 0 {
            tracing::warn!(ignored, "ignored certificates that cannot be parsed");
        }
        let mut tls = tls_config(store);
        tls.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).into();
        let bounds = EgressBounds::default();
        Self {
            policy,
            bounds,
            proxy: None,
            tls: Arc::new(tls),
            resolver: None,
            hosts: Arc::new(hosts),
        }
    }

    #[must_use]
    pub fn with_proxy(self, proxy: Option<Proxy>) -> Self {
        Self { proxy: proxy.map(Arc::new), ..self }
    }
}

/// Returns the TLS configuration of a client that trusts these authorities.
pub(super) fn tls_config(roots: RootCertStore) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has no cipher suite for a protocol version")
        .with_root_certificates(roots)
        .with_no_client_auth()
}

impl Default for Settings {
    /// Returns settings with which a client reaches only public IP literals, and only without TLS.
    fn default() -> Self {
        Self::isolated(Policy::default(), Vec::new(), Hosts::default())
    }
}
