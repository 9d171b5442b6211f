//! Opens sockets: TCP connections over which the Worker itself speaks any protocol.
//!
//! ```text
//!  connect ─► allowed? ─► permit ─► connector ─┬───────────────────────────► Socket
//!                                              └─► TLS ────────────────────────▲
//!                                       start_tls: the same socket, with TLS ──┘
//! ```
//!
//! Each socket is a connection of its own, which no pool keeps. It counts as an open response, from
//! the time at which the connection is established until the socket is dropped.

use std::io;
use std::net::Ipv6Addr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::client::Resumption;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;
use url::Host;

use super::super::EgressError;
use super::super::connection::WINDOW;
use super::super::connector::Stream;
use super::super::origin::Origin;
use super::super::settings::tls_config;
use super::counted::CountedStream;
use super::{Client, EgressContext};

/// The port on which mail servers deliver mail to each other. A platform whose Workers could send
/// mail to any server would be used for spam.
const MAIL_DELIVERY: u16 = 25;

/// Time after which the kernel probes a silent peer, interval at which it repeats the probe, and
/// number of unanswered probes after which the connection is lost.
const PROBE_AFTER: Duration = Duration::from_secs(30);
const PROBE_INTERVAL: Duration = Duration::from_secs(10);
const PROBES: u32 = 3;

/// The host and the port to which a socket connects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    host: Host<String>,
    port: u16,
}

/// A TCP connection, directly or through a proxy, with or without TLS.
///
/// The kernel holds at most 256 KiB for each direction, so a peer that sends faster than the Worker
/// reads has to wait.
pub struct Socket {
    connection: CountedStream<Transport>,
    origin: Origin,
}

type Transport = Either<Stream, Box<TlsStream<Stream>>>;

impl Endpoint {
    /// Creates an endpoint. Returns `None` if `host` is neither a name nor an IP address, or if the
    /// port is 0.
    ///
    /// # Arguments
    /// * `host` - the host as in a URL; an IPv6 address may be without brackets.
    pub fn new(host: &str, port: u16) -> Option<Self> {
        let host = match host.parse::<Ipv6Addr>() {
            Ok(address) => Host::Ipv6(address),
            Err(_) => Host::parse(host).ok()?,
        };
        (port != 0).then_some(Self { host, port })
    }
}

/// The authorities that a Worker trusts for one connection.
pub struct Authorities(RootCertStore);

impl Authorities {
    /// Reads certificates in PEM. Returns `None` if there is none, or one that is malformed.
    pub fn from_pem(pem: &[u8]) -> Option<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            roots.add(certificate.ok()?).ok()?;
        }
        (!roots.is_empty()).then_some(Self(roots))
    }

    /// Returns a TLS configuration that keeps no sessions, because a resumed session would not be
    /// verified against the authorities.
    fn into_config(self) -> Arc<ClientConfig> {
        let mut tls = tls_config(self.0);
        tls.resumption = Resumption::disabled();
        Arc::new(tls)
    }
}

impl Client {
    /// Opens a connection to an endpoint. Dropping the future aborts the attempt.
    ///
    /// # Arguments
    /// * `is_secure` - whether TLS begins at once.
    ///
    /// # Errors
    /// Fails if the connection is not allowed, or if it cannot be established.
    pub async fn connect(
        &self,
        context: &EgressContext,
        endpoint: Endpoint,
        is_secure: bool,
    ) -> Result<Socket, EgressError> {
        let connected = self.open_socket(context, endpoint, is_secure).await;
        self.metrics.ended(connected.as_ref().err().map(EgressError::stage));
        connected
    }

    async fn open_socket(
        &self,
        context: &EgressContext,
        Endpoint { host, port }: Endpoint,
        secure: bool,
    ) -> Result<Socket, EgressError> {
        context.budget.subrequest().map_err(EgressError::Subrequests)?;
        if port == MAIL_DELIVERY {
            return Err(EgressError::MailDelivery);
        }
        let origin = Origin::for_worker(context, secure, host, port)?;
        let permit = self.limits.acquire(context.worker.as_str(), &origin.tenant).await;
        let stream = self.connector.connect(&origin).await?;
        configure(&stream).map_err(|source| {
            let host = origin.host();
            EgressError::Connect { host, port, source }
        })?;
        let transport = if secure {
            let secured = origin.connect_tls(&origin.host, stream, self.socket_tls(&origin)).await;
            Either::Right(Box::new(secured?))
        } else {
            Either::Left(stream)
        };
        let open = permit.open()?;
        let memory = context.budget.hold(WINDOW).ok_or(EgressError::Memory)?;
        let connection = CountedStream::new(transport, &self.metrics, open, memory);
        Ok(Socket { connection, origin })
    }

    /// Begins TLS on a socket that does not use it yet. Dropping the future closes the connection.
    ///
    /// # Arguments
    /// * `name` - the host that the server's certificate must name, if it is not the endpoint's.
    /// * `authorities` - the authorities to trust in place of the node's.
    ///
    /// # Errors
    /// Fails if the handshake fails, which closes the connection.
    ///
    /// # Panics
    /// Panics if the socket uses TLS.
    pub async fn start_tls(
        &self,
        socket: Socket,
        name: Option<Host<String>>,
        authorities: Option<Authorities>,
    ) -> Result<Socket, EgressError> {
        let Either::Left(stream) = socket.connection.stream else {
            panic!("TLS has been started twice on a socket");
        };
        let origin = Origin { secure: true, ..socket.origin };
        let name = name.as_ref().unwrap_or(&origin.host);
        let tls = authorities.map_or_else(|| self.socket_tls(&origin), Authorities::into_config);
        let secured = origin.connect_tls(name, stream, tls).await?;
        let stream = Either::Right(Box::new(secured));
        Ok(Socket { connection: CountedStream { stream, ..socket.connection }, origin })
    }

    /// Returns the TLS configuration of the origin's sockets, which negotiate no protocol.
    fn socket_tls(&self, origin: &Origin) -> Arc<ClientConfig> {
        let mut tls = (*self.tls(&origin.tenant)).clone();
        tls.alpn_protocols.clear();
        Arc::new(tls)
    }
}

/// Bounds the kernel's buffers of a connection, which would otherwise grow to several MiB; the
/// kernel reserves twice the given size. Also makes the kernel detect that the peer has vanished,
/// because no protocol of the node does.
fn configure(stream: &Stream) -> io::Result<()> {
    let stream = match stream {
        Either::Left(stream) => stream,
        Either::Right(secured) => secured.get_ref().0,
    };
    let socket = SockRef::from(stream);
    socket.set_recv_buffer_size(WINDOW)?;
    socket.set_send_buffer_size(WINDOW)?;
    let probes = TcpKeepalive::new()
        .with_time(PROBE_AFTER)
        .with_interval(PROBE_INTERVAL)
        .with_retries(PROBES);
    socket.set_tcp_keepalive(&probes)
}

impl Socket {
    /// Returns whether the socket uses TLS.
    pub fn is_secure(&self) -> bool {
        matches!(self.connection.stream, Either::Right(_))
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.connection).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_shutdown(cx)
    }
}
