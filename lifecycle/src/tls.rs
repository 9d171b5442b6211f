//! Mutual TLS between the platform's processes.
//!
//! ```text
//!  --tls-dir: tls.crt, tls.key, ca.crt ─► Bundle ─► Identity, checked
//!     ▲ checked every few seconds;                     ├─► server side ─► accept ──┐
//!     │ an invalid change is ignored                   └─► client side ─► connect ─┴─► Stream
//!  a Secret, renewed by cert-manager, an administrator or the operator
//! ```
//!
//! - [`role`]: which processes may call which. No other module defines this rule.
//! - [`principal`]: the URI by which a certificate names its holder, such as the pool of a node.
//! - [`identity`]: a certificate with its key and the trusted authorities.
//! - [`config`](mod@config): the handshake of either side, performed by rustls with aws-lc.
//! - [`endpoint`]: the process's current identity, and the connections made with it.
//! - [`files`]: the directory and its changes.
//! - [`limiter`]: a bound on the number of handshakes in progress.
//! - [`failure`], [`metrics`]: the outcomes of handshakes.
//! - [`stream`], [`connector`]: connections with and without TLS, for code that speaks HTTP/2 over
//!   them.
//!
//! A new connection uses the identity that is current when the connection is made; an open
//! connection keeps its identity. If `--tls-dir` is not set, all connections are plain, as in
//! `tenon dev`, where none of them leaves the process.

mod config;
mod connector;
mod crypto;
mod endpoint;
mod error;
mod failure;
mod files;
#[cfg(test)]
mod fixtures;
pub mod identity;
mod limiter;
mod metrics;
mod principal;
mod role;
mod stream;

use std::path::PathBuf;

use http::Uri;
use prometheus::Registry;
use tokio::net::TcpStream;

pub use self::connector::Connector;
pub use self::endpoint::Tls;
pub use self::error::TlsError;
pub use self::failure::{HandshakeError, Reason};
pub use self::files::read_volume;
pub use self::identity::{Bundle, Identity, IdentityError};
pub use self::principal::{Principal, PrincipalError, TRUST_DOMAIN};
pub use self::role::Role;
pub use self::stream::Stream;

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
    /// Opens the directory, or returns `None` if none is set.
    ///
    /// # Errors
    /// Fails if the directory does not contain a valid certificate for this role, if the registry
    /// already has the TLS metrics, or if no thread can be started.
    pub fn open(&self, role: Role, registry: &Registry) -> Result<Option<Tls>, TlsError> {
        self.tls_dir
            .as_ref()
            .map(|directory| Tls::open(directory.clone(), role, registry))
            .transpose()
    }
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
/// Fails if the scheme does not match, or the URL has no authority.
pub fn check_scheme(url: &Uri, tls: bool) -> Result<(), WrongScheme> {
    match (url.scheme_str(), tls) {
        _ if url.authority().is_none() => Err(WrongScheme::Other(url.to_string())),
        (Some("https"), true) | (Some("http"), false) => Ok(()),
        (Some("http"), true) => Err(WrongScheme::Plain(url.to_string())),
        (Some("https"), false) => Err(WrongScheme::Tls(url.to_string())),
        _ => Err(WrongScheme::Other(url.to_string())),
    }
}

#[cfg(test)]
mod tests;
