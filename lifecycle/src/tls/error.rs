//! The reasons why a process cannot use TLS.

use std::io;
use std::path::PathBuf;

use super::identity::IdentityError;

/// The reason why TLS could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read {}: {source}; mount a Secret that contains this file", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}: {source}", directory.display())]
    Identity { directory: PathBuf, source: IdentityError },
    #[error("cannot register the TLS metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    #[error("cannot start the thread that reloads certificates: {0}")]
    Thread(io::Error),
}
