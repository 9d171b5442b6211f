//! TLS with clients: certificates from a directory and from Gateways, chosen by the name that a
//! client requests.
//!
//! ```text
//!  --https-certificates DIR
//!    ├── api/   tls.crt, tls.key ─┐
//!    └── shop/  tls.crt, tls.key ─┴─► Certificate, checked ─► Selection, by SNI ─► handshake
//!          ▲ polled; if a certificate cannot be used, the previous one stays in use
//! ```
//!
//! A certificate of the directory that was issued for the name comes first, then that of the
//! Gateway with the most specific listener, and then the directory's first certificate.
//!
//! The folders of the directory are volumes of Secrets of type `kubernetes.io/tls`. Each thread
//! performs the handshakes of the connections that it accepts. The threads share the certificates
//! and the keys of session tickets, so that a client can resume its session on any thread.
//!
//! - [`certificate`]: one certificate with its key and names. Pure.
//! - [`selection`]: which certificate a client gets. Pure.
//! - [`gateways`]: the certificates of Gateways, which come with the catalog. Pure.
//! - [`directory`]: the directory and its changes.
//! - [`metrics`]: handshakes, and the state of the certificates.
//!
//! The crate knows nothing of the router that uses it.

mod certificate;
mod directory;
mod gateways;
mod metrics;
mod selection;

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use http::HeaderValue;
use prometheus::Registry;
use rustls::crypto::aws_lc_rs;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, SupportedProtocolVersion};
use tenon_lifecycle::tls::Stream;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use directory::Directory;
use gateways::GatewayCertificates;
use metrics::HttpsMetrics;
use selection::Selection;

/// The maximum duration of a handshake with a client.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum amount of encrypted data that waits until the client reads more, in bytes. This data
/// is part of [`MEMORY`].
const SEND_BUFFER: usize = 16 * 1024;

/// The memory that a connection takes for TLS, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct TlsMemory {
    /// The memory for TLS while the connection works, with buffers.
    pub active: usize,
    /// The memory for TLS while the connection rests, without buffers.
    pub resting: usize,
}

/// The memory that TLS adds to a connection. The state of TLS takes 11 KiB, even while the
/// connection rests; an incomplete or unread record takes up to 18 KiB, in addition to
/// [`SEND_BUFFER`].
pub const MEMORY: TlsMemory = TlsMemory { active: 48 * 1024, resting: 12 * 1024 };

/// The number of session tickets that a client gets with each handshake. A browser opens several
/// connections, and two tickets let the next two connections resume the session.
const TICKETS: usize = 2;

/// The settings of a router that serves https.
#[derive(Clone, Debug, Default)]
pub struct HttpsSettings {
    /// The port to which requests without TLS are redirected, or `None` if they are served.
    pub redirect: Option<u16>,
    /// The value of `Strict-Transport-Security` in responses to which the Worker adds none.
    pub hsts: Option<HeaderValue>,
}

/// The reason why TLS with clients is unavailable.
#[derive(Debug, thiserror::Error)]
pub enum HttpsError {
    #[error("cannot read {}: {source}", directory.display())]
    Read { directory: PathBuf, source: io::Error },
    #[error(
        "{} has no folder with a certificate that can be used; add one with tls.crt and tls.key",
        .0.display()
    )]
    None(PathBuf),
    #[error("cannot generate the keys for session tickets: {0}")]
    Tickets(rustls::Error),
    #[error("cannot watch the certificates: {0}")]
    Thread(io::Error),
    #[error("cannot register the metrics of https: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// TLS with clients. Clones share the certificates, and any thread may use a clone.
#[derive(Clone)]
pub struct Https {
    acceptor: TlsAcceptor,
    quic: Arc<ServerConfig>,
    current: Arc<Current>,
    metrics: HttpsMetrics,
    pub settings: HttpsSettings,
}

impl fmt::Debug for Https {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Https").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// The certificates in use, which rustls looks up in each handshake.
#[derive(Debug, Default)]
struct Current {
    files: ArcSwap<Selection>,
    gateways: ArcSwap<GatewayCertificates>,
}

impl ResolvesServerCert for Current {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name().map(str::to_ascii_lowercase);
        let files = self.files.load();
        let named = name.as_deref().and_then(|name| files.named(name));
        let of_gateway = || self.gateways.load().of(name.as_deref());
        named.or_else(of_gateway).or_else(|| files.fallback())
    }
}

impl Https {
    /// Returns TLS with the certificates of Gateways only.
    ///
    /// # Errors
    /// Fails if the registry already has metrics of certificates, or if the keys for session
    /// tickets cannot be generated.
    pub fn of_gateways(settings: HttpsSettings, registry: &Registry) -> Result<Self, HttpsError> {
        let metrics = HttpsMetrics::register(registry)?;
        let current = Arc::new(Current::default());
        Self::with(current, settings, metrics)
    }

    /// Reads the certificates, and starts a thread that polls the directory for changes.
    ///
    /// # Arguments
    /// * `path` - a directory with a folder for each certificate.
    ///
    /// # Errors
    /// Fails if the directory cannot be read or no folder has a certificate that can be used, if
    /// the thread cannot be started, or as [`Https::of_gateways`] does.
    pub fn open(
        path: PathBuf,
        settings: HttpsSettings,
        registry: &Registry,
    ) -> Result<Self, HttpsError> {
        let metrics = HttpsMetrics::register(registry)?;
        let current = Arc::new(Current::default());
        let mut directory = Directory::new(path.clone(), metrics.clone());
        let read = directory.reload();
        let selection =
            read.map_err(|source| HttpsError::Read { directory: path.clone(), source })?;
        match selection.filter(|selection| !selection.is_empty()) {
            Some(selection) => current.files.store(Arc::new(selection)),
            None => return Err(HttpsError::None(path)),
        }
        let weak = Arc::downgrade(&current);
        let install = move |selection| match weak.upgrade() {
            Some(current) => {
                current.files.store(Arc::new(selection));
                true
            }
            None => false,
        };
        directory.watch(install).map_err(HttpsError::Thread)?;
        Self::with(current, settings, metrics)
    }

    fn with(
        current: Arc<Current>,
        settings: HttpsSettings,
        metrics: HttpsMetrics,
    ) -> Result<Self, HttpsError> {
        let [tcp, quic] = [&TCP, &QUIC].map(|transport| config(Arc::clone(&current), transport));
        let (acceptor, quic) = (TlsAcceptor::from(Arc::new(tcp?)), Arc::new(quic?));
        Ok(Self { acceptor, quic, current, metrics, settings })
    }

    /// Returns the configuration of TLS within QUIC, with the same certificates. It does not permit
    /// 0-RTT.
    pub fn quic(&self) -> Arc<ServerConfig> {
        self.quic.clone()
    }

    /// Changes the certificates of Gateways. Only one thread may call this.
    ///
    /// # Arguments
    /// * `replaces` - whether the changes replace all certificates of Gateways.
    /// * `changes` - hosts, each with its certificate and its key in PEM, or `None` if it has none.
    pub fn set_gateways<'a>(
        &self,
        replaces: bool,
        changes: impl Iterator<Item = (&'a str, Option<(&'a [u8], &'a [u8])>)>,
    ) {
        let before = self.current.gateways.load();
        let mut certificates = GatewayCertificates::clone(&before);
        let mut named = HashSet::new();
        for (host, files) in changes {
            certificates.set(host, files);
            named.insert(host);
        }
        if replaces {
            certificates.retain(|host| named.contains(host));
        }
        self.current.gateways.store(Arc::new(certificates));
    }

    /// Performs the handshake with a client.
    ///
    /// # Errors
    /// Fails if the client fails the handshake, or does not complete it before the timeout.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<Stream> {
        let handshake = self.acceptor.accept_with(stream, |connection| {
            connection.set_buffer_limit(Some(SEND_BUFFER));
        });
        let completed = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake)
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let stream = completed.inspect_err(|error| self.metrics.record_failure(error))?;
        self.metrics.record_handshake(stream.get_ref().1.handshake_kind());
        Ok(Stream::Tls(Box::new(stream.into())))
    }
}

/// The properties of TLS that depend on the protocol below it.
struct Transport {
    versions: &'static [&'static SupportedProtocolVersion],
    /// The protocols above TLS, in the order of preference.
    protocols: &'static [&'static [u8]],
}

const TCP: Transport =
    Transport { versions: rustls::DEFAULT_VERSIONS, protocols: &[b"h2", b"http/1.1"] };
const QUIC: Transport = Transport { versions: &[&rustls::version::TLS13], protocols: &[b"h3"] };

fn config(current: Arc<Current>, transport: &Transport) -> Result<ServerConfig, HttpsError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(transport.versions)
        .expect("the provider does not support TLS 1.2 and 1.3")
        .with_no_client_auth()
        .with_cert_resolver(current);
    config.alpn_protocols = transport.protocols.iter().map(|name| name.to_vec()).collect();
    // Clients keep their sessions as tickets, so sessions take no memory in the router.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.ticketer = aws_lc_rs::Ticketer::new().map_err(HttpsError::Tickets)?;
    config.send_tls13_tickets = TICKETS;
    Ok(config)
}

#[cfg(test)]
mod fixtures;
