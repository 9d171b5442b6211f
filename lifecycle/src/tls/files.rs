//! The directory with a process's certificate, and its changes.
//!
//! ```text
//!  tls.crt ─► ..data/tls.crt      ..data ─► ..2026_11_22_…/      the kubelet makes a new directory and turns ..data to it
//! ```
//!
//! It is looked at every few seconds, and not watched by inotify: of watches a user may have few on a machine, and all Pods
//! on it share the user that ours run as. Three small files are read that are nearly always in the page cache.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Weak;
use std::thread;
use std::time::Duration;

use super::identity::{AUTHORITIES, Bundle, CERTIFICATE, KEY};
use super::{Shared, TlsError};
use crate::vital;

/// The kubelet takes up to a minute or two to bring a change here.
const PERIOD: Duration = Duration::from_secs(2);

/// What the kubelet turns when a volume changes.
const DATA: &str = "..data";

/// A directory that is being looked at.
pub(super) struct Files {
    directory: PathBuf,
    used: Bundle,
    /// What was wrong when it was looked at last, said already.
    wrong: Option<String>,
}

/// All files, of one turn of the volume.
pub(super) fn read(directory: &Path) -> Result<Bundle, TlsError> {
    // Three reads by way of a link that is turned between them would give parts of two.
    let turned = directory.join(DATA);
    let place = turned.canonicalize().unwrap_or_else(|_| directory.to_owned());
    let read = |file: &str| {
        let cannot = |source| TlsError::Read { path: directory.join(file), source };
        fs::read(place.join(file)).map_err(cannot)
    };
    Ok(Bundle { certificate: read(CERTIFICATE)?, key: read(KEY)?, authorities: read(AUTHORITIES)? })
}

impl Files {
    /// # Arguments
    /// * `used` - what was read from there and is in use.
    pub(super) fn new(directory: PathBuf, used: Bundle) -> Self {
        Self { directory, used, wrong: None }
    }

    /// Looks at it every few seconds on a thread of its own, until nobody has the identity any more.
    pub(super) fn watch(mut self, shared: Weak<Shared>) -> io::Result<()> {
        vital::spawn("certificates".to_owned(), move || {
            loop {
                thread::sleep(PERIOD);
                let Some(shared) = shared.upgrade() else { return };
                self.look(&shared);
            }
        })
        .map(drop)
    }

    /// Takes what is there now if it is another identity, and a good one.
    pub(super) fn look(&mut self, shared: &Shared) {
        let directory = &self.directory;
        let taken = read(directory).and_then(|bundle| {
            if bundle != self.used {
                let wrong = |source| TlsError::Identity { directory: directory.clone(), source };
                shared.install(&bundle).map_err(wrong)?;
                self.used = bundle;
            }
            Ok(())
        });
        match taken {
            Ok(()) => self.wrong = None,
            Err(error) => {
                // Until it is right: a certificate that is not valid yet will be, with no change of any file.
                let said = error.to_string();
                if self.wrong.as_ref() != Some(&said) {
                    shared.metrics.not_loaded();
                    tracing::error!(
                        error = said,
                        "the certificate in use stays, for there is no good one in its place"
                    );
                    self.wrong = Some(said);
                }
            }
        }
    }
}
