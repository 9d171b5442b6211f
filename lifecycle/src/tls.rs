//! Mutual TLS between the platform's processes.
//!
//! ```text
//!  --tls-dir: tls.crt, tls.key, ca.crt ─► Bundle ─► Identity, checked ─┬─► how we let others in ─► accept ─┐
//!     ▲ looked at every few seconds;                                   └─► how we reach others ─► connect ─┴─► Stream
//!     │ a bad change leaves what there is
//!  a Secret, renewed by whoever makes certificates
//! ```
//!
//! - [`role`]: who may call whom. The rule is here and nowhere else.
//! - [`identity`]: a certificate with its key and the authorities that are believed.
//! - [`config`](mod@config): either side's handshake, by rustls with aws-lc.
//! - [`files`]: the directory and its changes.
//! - [`crowd`]: a bound on handshakes under way.
//! - [`failure`], [`metrics`]: what becomes of handshakes.
//! - [`stream`], [`connector`]: connections with and without TLS, for those who speak HTTP/2 over them.
//!
//! A process reads the identity of the moment when a connection is made; those that are open stay as they are. Without
//! `--tls-dir` all is plain, as for the embedded default, where nothing leaves the process.

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

/// Who has not shaken hands by then is hung up on.
const PATIENCE: Duration = Duration::from_secs(10);

/// Handshakes under way at once, of all threads of a process: some ten kilobytes each.
const HANDSHAKES: usize = 1024;

/// Where a process has its certificate.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct TlsArgs {
    /// Directory with this process's certificate (tls.crt), its key (tls.key) and the authorities that it believes (ca.crt), all
    /// PEM, read again when they change: with it, processes of the platform speak TLS to one another, and each shows who it is.
    /// Without it they speak plain HTTP/2 to whoever reaches them.
    #[arg(long, env = "TENON_TLS_DIR", value_name = "DIR")]
    pub tls_dir: Option<PathBuf>,
}

impl TlsArgs {
    /// # Errors
    /// When there is no good certificate in the directory.
    pub fn open(&self, role: Role, registry: &Registry) -> Result<Option<Tls>, TlsError> {
        self.tls_dir.as_ref().map(|directory| Tls::open(directory.clone(), role, registry)).transpose()
    }
}

/// The TLS of a process. Clones share it; any thread may use it.
#[derive(Clone)]
pub struct Tls(Arc<Shared>);

struct Shared {
    role: Role,
    current: ArcSwapOption<Current>,
    metrics: Metrics,
    crowd: Crowd,
}

/// How hands are shaken by the identity of the moment.
struct Current {
    acceptor: TlsAcceptor,
    /// By the role of who is called, in the order of [`Role::ALL`].
    connectors: [TlsConnector; Role::ALL.len()],
}

/// Why a process can have no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read {}: {source}; mount a Secret with tls.crt, tls.key and ca.crt there", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("in {}: {source}", directory.display())]
    Identity { directory: PathBuf, source: IdentityError },
    #[error("the metrics of TLS are registered already: {0}")]
    Metrics(#[from] prometheus::Error),
    #[error("cannot start the thread that looks at certificates: {0}")]
    Thread(io::Error),
}

/// A URL whose scheme is not how its server is spoken to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrongScheme {
    #[error("{0} is to begin with https://, for processes that have a certificate speak TLS")]
    Plain(String),
    #[error("{0} is to begin with http://, or set --tls-dir: without a certificate there is no TLS")]
    Tls(String),
    #[error("{0} is no URL such as http://HOST:PORT")]
    Other(String),
}

impl Tls {
    /// Reads the certificate, and goes on looking for its changes.
    ///
    /// # Errors
    /// When there is none that is good for this role.
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

    /// Without a certificate for now: until it is there no handshake succeeds.
    ///
    /// # Errors
    /// When the registry has such metrics already.
    pub fn to_come(role: Role, registry: &Registry) -> Result<Self, TlsError> {
        let metrics = Metrics::register(registry)?;
        let crowd = Crowd::new(HANDSHAKES);
        Ok(Self(Arc::new(Shared { role, current: ArcSwapOption::empty(), metrics, crowd })))
    }

    /// Shakes hands by this from now on.
    ///
    /// # Errors
    /// When it is not good; then all is as it was.
    pub fn install(&self, bundle: &Bundle) -> Result<(), IdentityError> {
        self.0.install(bundle)
    }

    /// Lets a client in, if it is of a role that may come. It is hung up on if it takes too long, or longest of too many.
    ///
    /// # Errors
    /// When it may not come.
    pub async fn accept(&self, stream: TcpStream) -> Result<Stream, HandshakeError> {
        let accepted = self.0.accept(stream).await;
        accepted.inspect_err(|error| self.0.metrics.failed(error))
    }

    /// Shakes hands with a server, which is let be of that role only, and waits until it has let us in. The caller bounds the
    /// time that it may take.
    ///
    /// # Arguments
    /// * `address` - by which its sessions are remembered: a name, or an IP address.
    ///
    /// # Errors
    /// When it is not of that role, or would not have us.
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
        tracing::info!(role = %self.role, not_after = identity.validity().not_after, "a certificate is in use");
        Ok(())
    }

    async fn accept(&self, stream: TcpStream) -> Result<Stream, HandshakeError> {
        let failed = |reason, source| HandshakeError { reason, source };
        let mut place = self.crowd.enter();
        let current = self.current.load_full().ok_or(failed(Reason::NoIdentity, None))?;
        let shaken = tokio::select! {
            // Whoever has just come to an end is not turned away.
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
        // A URL has an address of IPv6 in brackets. What is no name is remembered like all others of its role.
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

/// Waits for the server's first word. In TLS 1.3 a client is done before the server has seen its certificate (RFC 8446,
/// section 2): what is sent at once goes to somebody who may be about to hang up, and would be taken for lost.
async fn let_in(stream: &mut TlsStream<TcpStream>) -> io::Result<()> {
    let (tcp, session) = stream.get_mut();
    loop {
        let state = session.process_new_packets().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        // A ticket of the session, which our servers send, or what comes after.
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

/// What has come already.
struct Ready<'a>(&'a TcpStream);

impl Read for Ready<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(buf)
    }
}

/// Lets a client in by TLS, or as it is where there is none.
///
/// # Errors
/// When it may not come.
pub async fn accept(tls: Option<&Tls>, stream: TcpStream) -> Result<Stream, HandshakeError> {
    match tls {
        Some(tls) => tls.accept(stream).await,
        None => Ok(Stream::Plain(stream)),
    }
}

/// How URLs of the platform's processes begin, with TLS and without.
pub const fn scheme(tls: bool) -> &'static str {
    if tls { "https" } else { "http" }
}

/// Holds a URL of one of the platform's processes against how they are spoken to.
///
/// # Errors
/// When the two do not fit.
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
