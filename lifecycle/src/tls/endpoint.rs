//! A process's side of every handshake: the current identity of the process, and the connections
//! that are made with this identity.

use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use prometheus::Registry;
use rustls::pki_types::{ServerName, UnixTime};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::config;
use super::error::TlsError;
use super::failure::{HandshakeError, Reason};
use super::identity::{Bundle, Identity, IdentityError};
use super::limiter::HandshakeLimiter;
use super::metrics::Metrics;
use super::role::Role;
use super::stream::Stream;

/// Maximum duration of a handshake with a client.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of handshakes with clients that are in progress on all threads of a process. Each
/// handshake uses about ten kilobytes.
const HANDSHAKES: usize = 1024;

/// The TLS state of a process. Clones share the state, and any thread may use it.
#[derive(Clone)]
pub struct Tls(pub(super) Arc<Shared>);

pub(super) struct Shared {
    role: Role,
    /// Whether clients of the process's own role are admitted, too.
    admits_own_role: Arc<AtomicBool>,
    current: ArcSwapOption<Current>,
    pub(super) metrics: Metrics,
    limiter: HandshakeLimiter,
}

/// The handshake configurations of the current identity.
struct Current {
    acceptor: TlsAcceptor,
    /// One connector for each role of a server, in the order of [`Role::ALL`].
    connectors: [TlsConnector; Role::ALL.len()],
}

impl Tls {
    /// Returns a state without a certificate. No handshake succeeds until a certificate is
    /// installed.
    ///
    /// # Errors
    /// Fails if the registry already has the metrics of TLS.
    pub fn without_certificate(role: Role, registry: &Registry) -> Result<Self, TlsError> {
        let metrics = Metrics::register(registry)?;
        let limiter = HandshakeLimiter::new(HANDSHAKES);
        let (admits_own_role, current) = (Arc::default(), ArcSwapOption::empty());
        Ok(Self(Arc::new(Shared { role, admits_own_role, current, metrics, limiter })))
    }

    /// Uses this certificate for all handshakes from now on.
    ///
    /// # Errors
    /// Fails if the certificate is not valid; the previous certificate then stays in use.
    pub fn install(&self, bundle: &Bundle) -> Result<(), IdentityError> {
        self.0.install(bundle)
    }

    /// Admits clients of the process's own role from now on, in addition to the roles that its role
    /// admits ([`Role::admits`]): a node with a front calls the shards of other nodes.
    pub fn admit_own_role(&self) {
        self.0.admits_own_role.store(true, Relaxed);
    }

    /// Performs the handshake with a client and checks that the client's role is admitted. The
    /// connection is closed if the handshake takes too long, or if there are too many handshakes
    /// and this one has taken longest.
    ///
    /// # Errors
    /// Fails if the handshake fails or the role is not admitted.
    pub async fn accept(&self, stream: TcpStream) -> Result<Stream, HandshakeError> {
        let accepted = self.0.accept(stream).await;
        accepted.inspect_err(|error| self.0.metrics.record_failure(error))
    }

    /// Performs the handshake with a server that must have the role `peer`, and waits until the
    /// server has accepted this client. The caller bounds the duration.
    ///
    /// # Arguments
    /// * `address` - the key under which the server's sessions are remembered: a name or an IP
    ///   address.
    ///
    /// # Errors
    /// Fails if the handshake fails, the server does not have that role, or the server refuses this
    /// client.
    pub async fn connect(
        &self,
        peer: Role,
        address: &str,
        stream: TcpStream,
    ) -> Result<Stream, HandshakeError> {
        let connected = self.0.connect(peer, address, stream).await;
        connected.inspect_err(|error| self.0.metrics.record_failure(error))
    }
}

impl Shared {
    pub(super) fn install(&self, bundle: &Bundle) -> Result<(), IdentityError> {
        let identity = Identity::of(bundle, self.role, UnixTime::now())?;
        let acceptor = TlsAcceptor::from(Arc::new(config::server(
            &identity,
            self.role,
            Arc::clone(&self.admits_own_role),
        )?));
        let [operator, router, node] = Role::ALL.map(|peer| {
            config::client(&identity, peer).map(|config| TlsConnector::from(Arc::new(config)))
        });
        let connectors = [operator?, router?, node?];
        self.current.store(Some(Arc::new(Current { acceptor, connectors })));
        self.metrics.record_load(&identity);
        tracing::info!(role = %self.role, not_after = identity.validity().not_after, "loaded a certificate");
        Ok(())
    }

    async fn accept(&self, stream: TcpStream) -> Result<Stream, HandshakeError> {
        let failed = |reason, source| HandshakeError { reason, source };
        let mut slot = self.limiter.enter();
        let current = self.current.load_full().ok_or(failed(Reason::NoIdentity, None))?;
        let accepted = tokio::select! {
            // A handshake that has just completed takes precedence over its displacement.
            biased;
            accepted = timeout(HANDSHAKE_TIMEOUT, current.acceptor.accept(stream)) => accepted,
            () = slot.displaced() => return Err(failed(Reason::Crowded, None)),
        };
        let stream = accepted
            .map_err(|_| failed(Reason::Timeout, None))?
            .map_err(|error| failed(Reason::from_error(&error), Some(error)))?;
        self.metrics.record_handshake(stream.get_ref().1.handshake_kind());
        Ok(Stream::Tls(Box::new(stream.into())))
    }

    async fn connect(
        &self,
        peer: Role,
        address: &str,
        stream: TcpStream,
    ) -> Result<Stream, HandshakeError> {
        let failed = |reason, source| HandshakeError { reason, source };
        let current = self.current.load_full().ok_or(failed(Reason::NoIdentity, None))?;
        // In a URL, an IPv6 address is in brackets. Sessions of an address that is neither a name
        // nor an IP address are remembered under the name of the role.
        let address = address.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(address).unwrap_or_else(|_| peer.server_name());
        let connected = async {
            let mut stream = current.connectors[peer as usize].connect(name, stream).await?;
            await_admission(&mut stream).await?;
            Ok(stream)
        };
        let stream =
            connected.await.map_err(|error| failed(Reason::from_error(&error), Some(error)))?;
        self.metrics.record_handshake(stream.get_ref().1.handshake_kind());
        Ok(Stream::Tls(Box::new(stream.into())))
    }
}

/// Waits for the server's first message. In TLS 1.3 a client completes the handshake before the
/// server has verified the client's certificate (RFC 8446, section 2). A request that was sent
/// immediately could reach a server that then closes the connection, and would be counted as lost.
async fn await_admission(stream: &mut TlsStream<TcpStream>) -> io::Result<()> {
    let (tcp, session) = stream.get_mut();
    loop {
        let state = session
            .process_new_packets()
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        // The server has sent a session ticket, as our servers do, or application data.
        if session.tls13_tickets_received() > 0 || state.plaintext_bytes_to_read() > 0 {
            return Ok(());
        }
        if state.peer_has_closed() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        tcp.readable().await?;
        match session.read_tls(&mut Ready(tcp)) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

/// Reads the bytes that have arrived, without waiting.
struct Ready<'a>(&'a TcpStream);

impl Read for Ready<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(buf)
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("role", &self.0.role).finish_non_exhaustive()
    }
}
