//! A connection to an origin: HTTP/1.1 with one exchange at a time, or HTTP/2 with many. A TLS
//! handshake negotiates HTTP/2. Without TLS, HTTP/2 is used only for gRPC calls, which require it.
//!
//! Bodies are read on demand: at most [`WINDOW`] bytes of an unread body are buffered, in HTTP/2's
//! stream window or in the buffer of HTTP/1. HTTP/2's connection window is the sum of its streams'
//! windows, so that an unread stream does not stall the other streams.

use std::sync::Arc;
use std::time::Duration;

use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderValue, Method, Uri, header};
use hyper::client::conn::{TrySendError, http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus::IntGauge;
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::spawn_local;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use url::{Host, Position, Url};

use super::EgressError;
use super::cause::root_cause;
use super::connector::Stream;
use super::error::Stage;
use super::message::UploadBody;
use super::origin::{Origin, is_grpc, server_name};

/// Maximum number of bytes of a body that an origin may send ahead of its reader. With a round-trip
/// time of 20 ms, this allows about 6 MB/s for each body.
pub(super) const WINDOW: usize = 128 * 1024;

/// Maximum number of concurrent exchanges on an HTTP/2 connection.
pub(super) const STREAMS: usize = 100;

/// Maximum size of a response's head, in bytes, and maximum number of its fields. Browsers and
/// proxies have similar limits.
const HEAD: usize = 64 * 1024;
const FIELDS: usize = 256;

/// Time limit for the TLS handshake, and separately for the HTTP handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// A silent HTTP/2 connection with exchanges in flight is pinged at this interval, and closed if
/// the ping is not answered within `ALIVE_WAIT`.
const ALIVE_INTERVAL: Duration = Duration::from_secs(15);
const ALIVE_WAIT: Duration = Duration::from_secs(10);

/// The sending half of a connection.
pub(super) enum Sender {
    Http1(http1::SendRequest<UploadBody>),
    Http2(http2::SendRequest<UploadBody>),
}

pub(super) type Unsent = TrySendError<http::Request<UploadBody>>;

impl Origin {
    /// Performs the TLS and HTTP handshakes over a stream to the origin.
    ///
    /// # Arguments
    /// * `open` - gauge of open connections.
    pub(super) async fn handshake(
        &self,
        stream: Stream,
        tls: Arc<ClientConfig>,
        open: &IntGauge,
    ) -> Result<Sender, EgressError> {
        if !self.secure {
            return if self.has_prior_knowledge {
                self.http2(stream, open).await
            } else {
                self.http1(stream, open).await
            };
        }
        let stream = self.connect_tls(&self.host, stream, tls).await?;
        if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
            self.http2(stream, open).await
        } else {
            self.http1(stream, open).await
        }
    }

    /// Performs the TLS handshake over a stream to the origin.
    ///
    /// # Arguments
    /// * `host` - the host that the origin's certificate must name.
    pub(super) async fn connect_tls(
        &self,
        host: &Host<String>,
        stream: Stream,
        tls: Arc<ClientConfig>,
    ) -> Result<TlsStream<Stream>, EgressError> {
        let failed = |source| EgressError::Tls { host: self.host(), port: self.port, source };
        let name =
            server_name(host).ok_or_else(|| failed(std::io::ErrorKind::InvalidInput.into()))?;
        let connecting = TlsConnector::from(tls).connect(name, stream);
        self.with_timeout(Stage::Tls, connecting).await?.map_err(failed)
    }

    /// Performs the handshakes for a single exchange that upgrades the connection to another
    /// protocol.
    pub(super) async fn handshake_for_upgrade(
        &self,
        stream: Stream,
        tls: Arc<ClientConfig>,
        open: &IntGauge,
    ) -> Result<Sender, EgressError> {
        if !self.secure {
            return self.http1_for_upgrade(stream, open).await;
        }
        let stream = self.connect_tls(&self.host, stream, tls).await?;
        self.http1_for_upgrade(stream, open).await
    }

    async fn http1_for_upgrade(
        &self,
        stream: impl Duplex + Send,
        open: &IntGauge,
    ) -> Result<Sender, EgressError> {
        let (sender, connection) = self.begin_http1(stream).await?;
        drive(connection.with_upgrades(), open);
        Ok(Sender::Http1(sender))
    }

    async fn http1(&self, stream: impl Duplex, open: &IntGauge) -> Result<Sender, EgressError> {
        let (sender, connection) = self.begin_http1(stream).await?;
        drive(connection, open);
        Ok(Sender::Http1(sender))
    }

    async fn begin_http1<S: Duplex>(
        &self,
        stream: S,
    ) -> Result<
        (http1::SendRequest<UploadBody>, http1::Connection<TokioIo<S>, UploadBody>),
        EgressError,
    > {
        let mut builder = http1::Builder::new();
        builder.max_buf_size(HEAD.max(WINDOW)).max_header_size(HEAD).max_headers(FIELDS);
        let handshake = builder.handshake(TokioIo::new(stream));
        self.with_timeout(Stage::Exchange, handshake)
            .await?
            .map_err(|error| self.exchange_error(&error))
    }

    async fn http2(&self, stream: impl Duplex, open: &IntGauge) -> Result<Sender, EgressError> {
        let mut builder = http2::Builder::new(LocalExecutor);
        builder
            .timer(TokioTimer::new())
            .initial_stream_window_size(WINDOW as u32)
            .initial_connection_window_size((WINDOW * STREAMS) as u32)
            .max_header_list_size(HEAD as u32)
            .max_send_buf_size(WINDOW)
            .keep_alive_interval(ALIVE_INTERVAL)
            .keep_alive_timeout(ALIVE_WAIT);
        let handshake = builder.handshake(TokioIo::new(stream));
        let (sender, connection) = self
            .with_timeout(Stage::Exchange, handshake)
            .await?
            .map_err(|error| self.exchange_error(&error))?;
        drive(connection, open);
        Ok(Sender::Http2(sender))
    }

    pub(super) fn exchange_error(&self, error: &hyper::Error) -> EgressError {
        EgressError::Exchange { host: self.host(), why: describe(error) }
    }

    async fn with_timeout<T>(
        &self,
        stage: Stage,
        work: impl Future<Output = T>,
    ) -> Result<T, EgressError> {
        let timed_out =
            |_| EgressError::TimedOut { stage, host: self.host(), seconds: HANDSHAKE.as_secs() };
        tokio::time::timeout(HANDSHAKE, work).await.map_err(timed_out)
    }
}

/// Runs a connection until it ends, and counts it as open while it runs.
fn drive(connection: impl Future<Output = hyper::Result<()>> + 'static, open: &IntGauge) {
    let open = GaugeGuard::new(open);
    spawn_local(async move {
        // The exchange on the connection returns the error.
        let _ = connection.await;
        drop(open);
    });
}

/// Describes an error, with a message of this crate's own where hyper's message is unclear.
fn describe(error: &hyper::Error) -> String {
    if error.is_incomplete_message() || error.is_closed() {
        "the connection was closed before the response arrived".to_owned()
    } else if error.is_parse_too_large() {
        format!("the response's head is larger than {HEAD} bytes or has more than {FIELDS} fields")
    } else if error.is_parse() {
        "the response is not HTTP".to_owned()
    } else {
        root_cause(error)
    }
}

impl Sender {
    /// Sends a request. Dropping the future aborts the exchange.
    ///
    /// # Errors
    /// The error contains the request if none of it has been sent.
    pub(super) async fn send(
        &mut self,
        request: http::Request<UploadBody>,
    ) -> Result<http::Response<hyper::body::Incoming>, Unsent> {
        match self {
            Self::Http1(sender) => sender.try_send_request(request).await,
            Self::Http2(sender) => sender.try_send_request(request).await,
        }
    }

    /// Builds the request as the protocol requires it. Returns `None` if the URL is longer than
    /// HTTP allows.
    pub(super) fn request(
        &self,
        method: &Method,
        url: &Url,
        headers: &HeaderMap,
        body: UploadBody,
    ) -> Option<http::Request<UploadBody>> {
        let target =
            PathAndQuery::try_from(&url[Position::BeforePath..Position::AfterQuery]).ok()?;
        let authority = &url[Position::BeforeHost..Position::AfterPort];
        let is_empty = body.is_empty();
        let mut request = http::Request::new(body);
        *request.method_mut() = method.clone();
        *request.headers_mut() = headers.clone();
        // Some servers require an explicit length of zero for these methods (Fetch,
        // "HTTP-network-or-cache fetch").
        if is_empty && matches!(*method, Method::POST | Method::PUT) {
            request.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        *request.uri_mut() = match self {
            Self::Http1(_) => {
                request.headers_mut().insert(header::HOST, HeaderValue::from_str(authority).ok()?);
                Uri::from(target)
            }
            Self::Http2(_) => {
                if is_grpc(headers) {
                    // Some gRPC servers refuse calls whose client may discard trailers.
                    request.headers_mut().insert(header::TE, HeaderValue::from_static("trailers"));
                }
                let scheme = if url.scheme() == "https" { Scheme::HTTPS } else { Scheme::HTTP };
                let authority = Authority::try_from(authority).ok()?;
                Uri::builder()
                    .scheme(scheme)
                    .authority(authority)
                    .path_and_query(target)
                    .build()
                    .ok()?
            }
        };
        Some(request)
    }
}

trait Duplex: AsyncRead + AsyncWrite + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Unpin + 'static> Duplex for T {}

/// An executor that runs HTTP/2's tasks on this thread.
#[derive(Clone, Copy)]
struct LocalExecutor;

impl<F: Future + 'static> hyper::rt::Executor<F> for LocalExecutor
where
    F::Output: 'static,
{
    fn execute(&self, work: F) {
        spawn_local(work);
    }
}

/// A guard that adds one to a gauge, and subtracts it when the guard is dropped.
pub(super) struct GaugeGuard(IntGauge);

impl GaugeGuard {
    pub(super) fn new(gauge: &IntGauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}
