//! One connection to an origin: HTTP/1.1 for one exchange after another, or HTTP/2 for many at once.
//!
//! What an origin sends is read when it is asked for: of a body that nobody reads there is at most [`WINDOW`] here, be it
//! in HTTP/2's window or in HTTP/1's buffer. HTTP/2's window for the whole connection is that of all its streams, or one
//! that nobody reads would keep the others from theirs.

use std::hash::Hash;
use std::rc::Rc;
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
use super::error::{Stage, root_cause};
use super::message::Sending;
use super::reach::{Stream, server_name};

/// How much of a body an origin may send ahead, in bytes: at 20 ms to the origin some 6 MB/s for each.
pub(super) const WINDOW: usize = 128 * 1024;

/// Exchanges of one HTTP/2 connection at once.
pub(super) const STREAMS: usize = 100;

/// What a response's head may have, in bytes and in fields. What browsers and proxies take is no more.
const HEAD: usize = 64 * 1024;
const FIELDS: usize = 256;

/// How long TLS and the protocol may take to begin.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// An HTTP/2 connection over which nothing comes is asked whether it is alive, and has so long to answer.
const ALIVE_INTERVAL: Duration = Duration::from_secs(15);
const ALIVE_WAIT: Duration = Duration::from_secs(10);

/// Whom a connection is with, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Origin {
    pub(super) tenant: Rc<str>,
    pub(super) secure: bool,
    pub(super) host: Host<String>,
    pub(super) port: u16,
}

/// What requests are sent with.
pub(super) enum Sender {
    Http1(http1::SendRequest<Sending>),
    Http2(http2::SendRequest<Sending>),
}

pub(super) type Unsent = TrySendError<http::Request<Sending>>;

impl Origin {
    pub(super) fn host(&self) -> String {
        self.host.to_string()
    }

    /// Speaks with it over a connection to it.
    ///
    /// # Arguments
    /// * `open` - counts the connections there are.
    pub(super) async fn greet(
        &self,
        stream: Stream,
        tls: Arc<ClientConfig>,
        open: &IntGauge,
    ) -> Result<Sender, EgressError> {
        if !self.secure {
            return self.http1(stream, open).await;
        }
        let stream = self.secured(stream, tls).await?;
        if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
            self.http2(stream, open).await
        } else {
            self.http1(stream, open).await
        }
    }

    async fn secured(&self, stream: Stream, tls: Arc<ClientConfig>) -> Result<TlsStream<Stream>, EgressError> {
        let failed = |source| EgressError::Tls { host: self.host(), port: self.port, source };
        let name = server_name(&self.host).ok_or_else(|| failed(std::io::ErrorKind::InvalidInput.into()))?;
        let connecting = TlsConnector::from(tls).connect(name, stream);
        self.in_time(Stage::Tls, connecting).await?.map_err(failed)
    }

    /// The same for one exchange whose connection is then something else's.
    pub(super) async fn greet_for_upgrade(
        &self,
        stream: Stream,
        tls: Arc<ClientConfig>,
        open: &IntGauge,
    ) -> Result<Sender, EgressError> {
        if !self.secure {
            return self.http1_for_upgrade(stream, open).await;
        }
        let stream = self.secured(stream, tls).await?;
        self.http1_for_upgrade(stream, open).await
    }

    async fn http1_for_upgrade(&self, stream: impl Duplex + Send, open: &IntGauge) -> Result<Sender, EgressError> {
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
    ) -> Result<(http1::SendRequest<Sending>, http1::Connection<TokioIo<S>, Sending>), EgressError> {
        let mut builder = http1::Builder::new();
        builder.max_buf_size(HEAD.max(WINDOW)).max_header_size(HEAD).max_headers(FIELDS);
        let greeting = builder.handshake(TokioIo::new(stream));
        self.in_time(Stage::Exchange, greeting).await?.map_err(|error| self.exchange_failed(&error))
    }

    async fn http2(&self, stream: impl Duplex, open: &IntGauge) -> Result<Sender, EgressError> {
        let mut builder = http2::Builder::new(Local);
        builder
            .timer(TokioTimer::new())
            .initial_stream_window_size(WINDOW as u32)
            .initial_connection_window_size((WINDOW * STREAMS) as u32)
            .max_header_list_size(HEAD as u32)
            .max_send_buf_size(WINDOW)
            .keep_alive_interval(ALIVE_INTERVAL)
            .keep_alive_timeout(ALIVE_WAIT);
        let greeting = builder.handshake(TokioIo::new(stream));
        let (sender, connection) =
            self.in_time(Stage::Exchange, greeting).await?.map_err(|error| self.exchange_failed(&error))?;
        drive(connection, open);
        Ok(Sender::Http2(sender))
    }

    pub(super) fn exchange_failed(&self, error: &hyper::Error) -> EgressError {
        EgressError::Exchange { host: self.host(), why: said(error) }
    }

    async fn in_time<T>(&self, stage: Stage, work: impl Future<Output = T>) -> Result<T, EgressError> {
        let late = |_| EgressError::TimedOut { stage, host: self.host(), seconds: HANDSHAKE.as_secs() };
        tokio::time::timeout(HANDSHAKE, work).await.map_err(late)
    }
}

/// Has a connection go on until it ends, counted among those that are open.
fn drive(connection: impl Future<Output = hyper::Result<()>> + 'static, open: &IntGauge) {
    let open = Counted::among(open);
    spawn_local(async move {
        // Whoever waits for the response is told how it has ended.
        let _ = connection.await;
        drop(open);
    });
}

/// What went wrong, where the libraries' words would not say.
fn said(error: &hyper::Error) -> String {
    if error.is_incomplete_message() || error.is_closed() {
        "the connection was closed before the response was there".to_owned()
    } else if error.is_parse_too_large() {
        format!("the response's head is larger than {HEAD} bytes or has more than {FIELDS} fields")
    } else if error.is_parse() {
        "the answer is not HTTP".to_owned()
    } else {
        root_cause(error)
    }
}

impl Sender {
    /// Sends a request. Dropping the future gives the exchange up.
    ///
    /// # Errors
    /// With the request where nothing of it has been sent.
    pub(super) async fn send(
        &mut self,
        request: http::Request<Sending>,
    ) -> Result<http::Response<hyper::body::Incoming>, Unsent> {
        match self {
            Self::Http1(sender) => sender.try_send_request(request).await,
            Self::Http2(sender) => sender.try_send_request(request).await,
        }
    }

    /// The request as the protocol has it. `None` when the URL is longer than HTTP can have it.
    pub(super) fn request(
        &self,
        method: &Method,
        url: &Url,
        headers: &HeaderMap,
        body: Sending,
    ) -> Option<http::Request<Sending>> {
        let target = PathAndQuery::try_from(&url[Position::BeforePath..Position::AfterQuery]).ok()?;
        let authority = &url[Position::BeforeHost..Position::AfterPort];
        let is_empty = body.is_empty();
        let mut request = http::Request::new(body);
        *request.method_mut() = method.clone();
        *request.headers_mut() = headers.clone();
        // Of these some servers want to hear that there is none (Fetch §4.6).
        if is_empty && matches!(*method, Method::POST | Method::PUT) {
            request.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        *request.uri_mut() = match self {
            Self::Http1(_) => {
                request.headers_mut().insert(header::HOST, HeaderValue::from_str(authority).ok()?);
                Uri::from(target)
            }
            Self::Http2(_) => {
                let scheme = if url.scheme() == "https" { Scheme::HTTPS } else { Scheme::HTTP };
                let authority = Authority::try_from(authority).ok()?;
                Uri::builder().scheme(scheme).authority(authority).path_and_query(target).build().ok()?
            }
        };
        Some(request)
    }
}

trait Duplex: AsyncRead + AsyncWrite + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Unpin + 'static> Duplex for T {}

/// Where HTTP/2 sends from: this thread.
#[derive(Clone, Copy)]
struct Local;

impl<F: Future + 'static> hyper::rt::Executor<F> for Local
where
    F::Output: 'static,
{
    fn execute(&self, work: F) {
        spawn_local(work);
    }
}

/// A place in a gauge.
pub(super) struct Counted(IntGauge);

impl Counted {
    pub(super) fn among(gauge: &IntGauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}
