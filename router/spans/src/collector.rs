//! The address of a collector, and the connection to it.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::resource::v1::Resource;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tenon_lifecycle::tls::Stream;
use tokio_rustls::{TlsConnector, TlsStream};
use tonic::metadata::MetadataMap;
use tonic::transport::{Channel, Endpoint};
use tower_service::Service;

/// The timeout for connecting to the collector.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The timeout for the collector's answer to a batch.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);

/// The reason why the certificates that verify a collector cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificatesError {
    #[error("{}: {why}; set it to a file with PEM certificates", .path.display())]
    File { path: PathBuf, why: String },
    #[error("the system has no certificates; install them, or set --otlp-certificate")]
    None,
    #[error("TLS cannot be used: {0}")]
    Tls(#[from] rustls::Error),
}

/// A collector, with the headers of requests to it and the resource that describes this process.
#[derive(Clone, Debug)]
pub struct Collector {
    pub(crate) endpoint: Endpoint,
    pub(crate) connector: Connector,
    /// Headers of every request, such as credentials.
    pub(crate) headers: MetadataMap,
    pub(crate) resource: Resource,
}

impl Collector {
    /// Returns a channel, which connects when it is first used, and reconnects after a failure.
    ///
    /// # Panics
    /// Panics outside a Tokio runtime.
    pub(crate) fn connect(&self) -> Channel {
        self.endpoint
            .clone()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(TIMEOUT)
            .connect_with_connector_lazy(self.connector.clone())
    }
}

/// Connects to a collector, with TLS if its URL is https.
#[derive(Clone)]
pub(crate) struct Connector {
    tcp: HttpConnector,
    tls: Option<Arc<ClientConfig>>,
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connector").field("tls", &self.tls.is_some()).finish_non_exhaustive()
    }
}

impl Connector {
    /// Creates the connector for a URL.
    ///
    /// # Arguments
    /// * `authorities` - a file with the certificates to trust instead of the system's.
    ///
    /// # Errors
    /// Fails if the URL is https and the certificates cannot be read, or there are none.
    pub(crate) fn new(url: &Uri, authorities: Option<&Path>) -> Result<Self, CertificatesError> {
        let mut tcp = HttpConnector::new();
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        // Allow both `http` and `https`.
        tcp.enforce_http(false);
        let is_https = url.scheme_str() == Some("https");
        let tls = is_https.then(|| config(authorities).map(Arc::new)).transpose()?;
        Ok(Self { tcp, tls })
    }
}

fn config(authorities: Option<&Path>) -> Result<ClientConfig, CertificatesError> {
    let certificates = match authorities {
        Some(path) => read(path)?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates);
    if roots.is_empty() {
        return Err(CertificatesError::None);
    }
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

fn read(path: &Path) -> Result<Vec<CertificateDer<'static>>, CertificatesError> {
    let refused = |why: String| CertificatesError::File { path: path.to_owned(), why };
    let certificates =
        CertificateDer::pem_file_iter(path).map_err(|error| refused(error.to_string()))?;
    let certificates: Result<Vec<_>, _> = certificates.collect();
    let certificates = certificates.map_err(|error| refused(error.to_string()))?;
    if certificates.is_empty() {
        return Err(refused("it contains no certificate".to_owned()));
    }
    Ok(certificates)
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.tcp.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, url: Uri) -> Self::Future {
        let tls = self.tls.clone();
        let host = url.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let connecting = self.tcp.call(url);
        Box::pin(async move {
            let stream = connecting.await?.into_inner();
            let stream = match tls {
                Some(config) => {
                    let name = ServerName::try_from(host)?;
                    let stream = TlsConnector::from(config).connect(name, stream).await?;
                    Stream::Tls(Box::new(TlsStream::Client(stream)))
                }
                None => Stream::Plain(stream),
            };
            Ok(TokioIo::new(stream))
        })
    }
}
