//! Mutual TLS between the platform's processes.
//!
//! ```text
//!  --tls-dir: tls.crt, tls.key, ca.crt ─► Bundle ─► Identity, checked
//!     ▲ checked every few seconds;                     ├─► server side ─► accept ──┐
//!     │ an invalid change is ignored                   └─► client side ─► connect ─┴─► Stream
//!  a Secret, renewed by cert-manager, an administrator or the operator
//! ```
//!
//! - [`role`]: which processes may call which. The rule is defined there and nowhere else.
//! - [`identity`]: a certificate with its key and the trusted authorities.
//! - [`config`](mod@config): the handshake of either side, by rustls with aws-lc.
//! - [`files`]: the directory and its changes.
//! - [`crowd`]: a bound on handshakes in progress.
//! - [`failure`], [`metrics`]: the outcomes of handshakes.
//! - [`stream`], [`connector`]: connections with and without TLS, for code that speaks HTTP/2 over
//!   them.
//!
//! A new connection uses the identity that is current when it is made; open connections keep
//! theirs. Without `--tls-dir` all connections are plain, as in the embedded default, where nothing
//! leaves the process.

mod config;
mod connector;
mod crowd;
mod failure;
mod files;
pub mod identity;
mod metrics;
mod role;
mod stream;

use std::fmt;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use http::Uri;
use prometheus::Registry;
use rustls::pki_types::{ServerName, UnixTime};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use self::crowd::Crowd;
use self::files::Files;
use self::metrics::Metrics;

pub use self::connector::Connector;
pub use self::failure::{HandshakeError, Reason};
pub use self::identity::{Bundle, Identity, IdentityError};
pub use self::role::Role;
pub use self::stream::Stream;

/// A connection that has not completed its handshake by then is closed.
const PATIENCE: Duration = Duration::from_secs(10);

/// Maximum number of handshakes in progress on all threads of a process. Each takes some ten
/// kilobytes.
const HANDSHAKES: usize = 1024;

/// Arguments for TLS between the platform's processes.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct TlsArgs {
    /// Directory with this process's certificate (tls.crt), its key (tls.key) and the authorities
    /// that it trusts (ca.crt), all in PEM and reloaded when they change. If set, the platform's
    /// processes use mutual TLS. Otherwise they use plain HTTP/2 and accept every caller.
    #[arg(long, env = "TENON_TLS_DIR", value_name = "DIR")]
    pub tls_dir: Option<PathBuf>,
}

impl TlsArgs {
    /// Opens the directory, if one is set.
    ///
    /// # Errors
    /// Fails if the directory does not contain a valid certificate.
    pub fn open(&self, role: Role, registry: &Registry) -> Result<Option<Tls>, TlsError> {
        self.tls_dir.as_ref().map(|directory| Tls::open(directory.clone(), role, registry)).transpose()
    }
}

/// The TLS state of a process. Clones share it; any thread may use it.
#[derive(Clone)]
pub struct Tls(Arc<Shared>);

struct Shared {
    role: Role,
    current: ArcSwapOption<Current>,
    metrics: Metrics,
    crowd: Crowd,
}

/// The handshake configurations of the current identity.
struct Current {
    acceptor: TlsAcceptor,
    /// One connector for each role of a server, in the order of [`Role::ALL`].
    connectors: [TlsConnector; Role::ALL.len()],
}

/// The reason why TLS could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read {}: {source}; mount a Secret with tls.crt, tls.key and ca.crt there", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}: {source}", directory.display())]
    Identity { directory: PathBuf, source: IdentityError },
    #[error("cannot register the TLS metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    #[error("cannot start the thread that reloads certificates: {0}")]
    Thread(io::Error),
}

/// The error for a URL whose scheme does not match the use of TLS.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrongScheme {
    #[error("{0} does not use TLS; use https://, because a certificate is configured")]
    Plain(String),
    #[error("{0} needs a certificate; set --tls-dir, or use http://")]
    Tls(String),
    #[error("{0} is not a valid URL; use one such as http://HOST:PORT")]
    Other(String),
}

impl Tls {
    /// Reads the certificate, and starts a thread that watches it for changes.
    ///
    /// # Errors
    /// Fails if the directory does not contain a valid certificate for this role.
    pub fn open(directory: PathBuf, role: Role, registry: &Registry) -> Result<Self, TlsError> {
        let (tls, files) = Self::read(directory, role, registry)?;
        files.watch(Arc::downgrade(&tls.0)).map_err(TlsError::Thread)?;
        Ok(tls)
    }

    fn read(directory: PathBuf, role: Role, registry: &Registry) -> Result<(Self, Files), TlsError> {
        let bundle = files::read(&directory)?;
        let tls = Self::to_come(role, registry)?;
        tls.install(&bundle).map_err(|source| TlsError::Identity { directory: directory.clone(), source })?;
        Ok((tls, Files::new(directory, bundle)))
    }

    /// Returns a state without a certificate. Until one is installed no handshake succeeds.
    ///
    /// # Errors
    /// Fails if the registry already has the metrics of TLS.
    pub fn to_come(role: Role, registry: &Registry) -> Result<Self, TlsError> {
        let metrics = Metrics::register(registry)?;
        let crowd = Crowd::new(HANDSHAKES);
        Ok(Self(Arc::new(Shared { role, current: ArcSwapOption::empty(), metrics, crowd })))
    }

    /// Uses this certificate for all handshakes from now on.
    ///
    /// # Errors
    /// Fails if it is not valid; the previous one then stays in use.
    pub fn install(&self, bundle: &Bundle) -> Result<(), IdentityError> {
        self.0.install(bundle)
    }

    /// Performs the handshake with a client and checks that its role is admitted. The connection is
    /// closed if the handshake takes too long, or if there are too many handshakes and this one has
    /// taken longest.
    ///
    /// # Errors
    /// Fails if the handshake fails or the role is not admitted.
    pub async fn accept(&self, stream: TcpStream) -> Result<Stream, HandshakeError> {
        let accepted = self.0.accept(stream).await;
        accepted.inspect_err(|error| self.0.metrics.failed(error))
    }

    /// Performs the handshake with a server that must have the role `peer`, and waits until the
    /// server has accepted this client. The caller bounds the duration.
    ///
    /// # Arguments
    /// * `address` - the key under which the server's sessions are remembered: a name or an IP
    ///   address.
    ///
    /// # Errors
    /// Fails if the server does not have that role, or refuses this client.
    pub async fn connect(&self, peer: Role, address: &str, stream: TcpStream) -> Result<Stream, HandshakeError> {
        let connected = self.0.connect(peer, address, stream).await;
        connected.inspect_err(|error| self.0.metrics.failed(error))
    }
}

impl Shared {
    fn install(&self, bundle: &Bundle) -> Result<(), IdentityError> {
        let identity = Identity::of(bundle, self.role, UnixTime::now())?;
        let acceptor = TlsAcceptor::from(Arc::new(config::server(&identity, self.role)?));
        let [operator, router, node] =
            Role::ALL.map(|peer| config::client(&identity, peer).map(|config| TlsConnector::from(Arc::new(config))));
        let connectors = [operator?, router?, node?];
        self.current.store(Some(Arc::new(Current { acceptor, connectors })));
        self.metrics.loaded(&identity);
        tracing::info!(role = %self.role, not_after = identity.validity().not_after, "loaded a certificate");
        Ok(())
    }

    async fn accept(&self, stream: TcpStream) -> Result<Stream, HandshakeError> {
        let failed = |reason, source| HandshakeError { reason, source };
        let mut place = self.crowd.enter();
        let current = self.current.load_full().ok_or(failed(Reason::NoIdentity, None))?;
        let shaken = tokio::select! {
            // A handshake that has just completed takes precedence over its displacement.
            biased;
            shaken = timeout(PATIENCE, current.acceptor.accept(stream)) => shaken,
            () = place.displaced() => return Err(failed(Reason::Crowded, None)),
        };
        let stream = shaken
            .map_err(|_| failed(Reason::Timeout, None))?
            .map_err(|error| failed(Reason::of(&error), Some(error)))?;
        self.metrics.shook_hands(stream.get_ref().1.handshake_kind());
        Ok(Stream::Tls(Box::new(stream.into())))
    }

    async fn connect(&self, peer: Role, address: &str, stream: TcpStream) -> Result<Stream, HandshakeError> {
        let failed = |reason, source| HandshakeError { reason, source };
        let current = self.current.load_full().ok_or(failed(Reason::NoIdentity, None))?;
        // A URL has an IPv6 address in brackets. Sessions of an address that is neither a name nor
        // an IP address are remembered under the name of the role.
        let address = address.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(address).unwrap_or_else(|_| peer.server_name());
        let shaken = async {
            let mut stream = current.connectors[peer as usize].connect(name, stream).await?;
            let_in(&mut stream).await?;
            Ok(stream)
        };
        let stream = shaken.await.map_err(|error| failed(Reason::of(&error), Some(error)))?;
        self.metrics.shook_hands(stream.get_ref().1.handshake_kind());
        Ok(Stream::Tls(Box::new(stream.into())))
    }
}

/// Waits for the server's first message. In TLS 1.3 a client completes the handshake before the
/// server has verified its certificate (RFC 8446, section 2). A request sent at once would reach a
/// server that may still close the connection, and would be counted as lost.
async fn let_in(stream: &mut TlsStream<TcpStream>) -> io::Result<()> {
    let (tcp, session) = stream.get_mut();
    loop {
        let state = session.process_new_packets().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        // A session ticket, which our servers send, or any application data after it.
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

/// Accepts a client with TLS if `tls` is set, and as a plain connection otherwise.
///
/// # Errors
/// Fails if the handshake fails or the client's role is not admitted.
pub async fn accept(tls: Option<&Tls>, stream: TcpStream) -> Result<Stream, HandshakeError> {
    match tls {
        Some(tls) => tls.accept(stream).await,
        None => Ok(Stream::Plain(stream)),
    }
}

/// Returns the URL scheme of the platform's processes, with or without TLS.
pub const fn scheme(tls: bool) -> &'static str {
    if tls { "https" } else { "http" }
}

/// Checks that the scheme of a process's URL matches the use of TLS.
///
/// # Errors
/// Fails if they do not match.
pub fn check_scheme(url: &Uri, tls: bool) -> Result<(), WrongScheme> {
    match (url.scheme_str(), tls) {
        _ if url.authority().is_none() => Err(WrongScheme::Other(url.to_string())),
        (Some("https"), true) | (Some("http"), false) => Ok(()),
        (Some("http"), true) => Err(WrongScheme::Plain(url.to_string())),
        (Some("https"), false) => Err(WrongScheme::Tls(url.to_string())),
        _ => Err(WrongScheme::Other(url.to_string())),
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("role", &self.0.role).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
