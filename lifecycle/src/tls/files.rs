//! Reads a process's certificate from a directory, and reloads the certificate when the directory
//! changes.
//!
//! ```text
//!  tls.crt ─► ..data/tls.crt      ..data ─► ..2026_11_22_…/
//!                                   ▲ on a change, the kubelet creates a new directory
//!                                     and points ..data to it
//! ```
//!
//! The directory is polled every few seconds. inotify is not used, because its watches are limited
//! per user and machine, and many Pods on a machine run as the same user. Each poll reads three
//! small files that are nearly always in the page cache.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use prometheus::Registry;

use super::endpoint::{Shared, Tls};
use super::error::TlsError;
use super::identity::{AUTHORITIES, Bundle, CERTIFICATE, KEY};
use super::role::Role;
use crate::vital;

/// Interval between two polls. The kubelet itself takes up to two minutes to update a volume.
const PERIOD: Duration = Duration::from_secs(2);

/// The symbolic link that the kubelet switches when a volume changes.
const DATA: &str = "..data";

/// A polled directory.
pub(super) struct Files {
    directory: PathBuf,
    /// The bundle in use.
    used: Bundle,
    /// The message of the last error, which has been logged and counted.
    last_error: Option<String>,
}

/// Reads files of a volume, all from the same version of the volume.
///
/// # Errors
/// Fails if a file cannot be read; the error names the file.
pub fn read_volume<const N: usize>(
    directory: &Path,
    files: [&str; N],
) -> Result<[Vec<u8>; N], TlsError> {
    // Reads through the link could return files of two versions if the link were switched between
    // two reads.
    let data = directory.join(DATA);
    let version = data.canonicalize().unwrap_or_else(|_| directory.to_owned());
    let mut contents = files.map(|_| Vec::new());
    for (content, file) in contents.iter_mut().zip(files) {
        let failed = |source| TlsError::Read { path: directory.join(file), source };
        *content = fs::read(version.join(file)).map_err(failed)?;
    }
    Ok(contents)
}

pub(super) fn read(directory: &Path) -> Result<Bundle, TlsError> {
    let [certificate, key, authorities] = read_volume(directory, [CERTIFICATE, KEY, AUTHORITIES])?;
    Ok(Bundle { certificate, key, authorities })
}

impl Tls {
    /// Reads the certificate, and starts a thread that polls the directory for changes.
    ///
    /// # Errors
    /// Fails if the directory does not contain a valid certificate for this role, if the registry
    /// already has the TLS metrics, or if no thread can be started.
    pub fn open(directory: PathBuf, role: Role, registry: &Registry) -> Result<Self, TlsError> {
        let (tls, files) = Self::read(directory, role, registry)?;
        files.watch(Arc::downgrade(&tls.0)).map_err(TlsError::Thread)?;
        Ok(tls)
    }

    pub(super) fn read(
        directory: PathBuf,
        role: Role,
        registry: &Registry,
    ) -> Result<(Self, Files), TlsError> {
        let bundle = read(&directory)?;
        let tls = Self::without_certificate(role, registry)?;
        tls.install(&bundle)
            .map_err(|source| TlsError::Identity { directory: directory.clone(), source })?;
        Ok((tls, Files::new(directory, bundle)))
    }
}

impl Files {
    /// Creates the reader of a directory.
    ///
    /// # Arguments
    /// * `used` - the bundle that was read from the directory and is in use.
    pub(super) fn new(directory: PathBuf, used: Bundle) -> Self {
        Self { directory, used, last_error: None }
    }

    /// Polls the directory on a thread of its own, until the TLS state is dropped.
    pub(super) fn watch(mut self, shared: Weak<Shared>) -> io::Result<()> {
        vital::spawn("certificates".to_owned(), move || {
            loop {
                thread::sleep(PERIOD);
                let Some(shared) = shared.upgrade() else { return };
                self.reload(&shared);
            }
        })
        .map(drop)
    }

    /// Installs the directory's current content if the content has changed and is valid.
    pub(super) fn reload(&mut self, shared: &Shared) {
        let directory = &self.directory;
        let loaded = read(directory).and_then(|bundle| {
            if bundle != self.used {
                let invalid = |source| TlsError::Identity { directory: directory.clone(), source };
                shared.install(&bundle).map_err(invalid)?;
                self.used = bundle;
            }
            Ok(())
        });
        match loaded {
            Ok(()) => self.last_error = None,
            Err(error) => {
                // Retry on every poll: a certificate that is not valid yet becomes valid without a
                // change of any file.
                let message = error.to_string();
                if self.last_error.as_ref() != Some(&message) {
                    shared.metrics.record_failed_load();
                    tracing::error!(
                        error = message,
                        "cannot load the new certificate; keeping the current one"
                    );
                    self.last_error = Some(message);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
