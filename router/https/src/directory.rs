//! Reads certificates from a directory, and reloads them when the directory changes.
//!
//! The directory is polled, as is the directory of the process's own certificate: inotify limits
//! the number of its watches per user and machine, and many Pods on a machine run as the same user.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use tenon_lifecycle::tls::identity::{CERTIFICATE, KEY};
use tenon_lifecycle::tls::read_volume;
use tenon_lifecycle::vital;

use super::certificate::{Certificate, CertificateError};
use super::metrics::HttpsMetrics;
use super::selection::Selection;

/// The interval between two polls. The kubelet itself takes up to two minutes to update a volume.
const PERIOD: Duration = Duration::from_secs(2);

/// The contents of `tls.crt` and `tls.key`.
type Files = [Vec<u8>; 2];

/// A directory with a folder for each certificate.
pub(super) struct Directory {
    path: PathBuf,
    /// The certificates in use, and the files from which they were parsed, by the name of the
    /// folder.
    used: BTreeMap<String, (Files, Certificate)>,
    /// The message of the last error of each folder, which has been logged.
    errors: BTreeMap<String, String>,
    metrics: HttpsMetrics,
}

impl Directory {
    pub(super) fn new(path: PathBuf, metrics: HttpsMetrics) -> Self {
        Self { path, used: BTreeMap::new(), errors: BTreeMap::new(), metrics }
    }

    /// Reads the directory. Returns the certificates, or `None` if they have not changed.
    ///
    /// # Errors
    /// Fails if the directory cannot be listed; the current certificates then stay in use.
    pub(super) fn reload(&mut self) -> io::Result<Option<Selection>> {
        let folders = folders(&self.path)?;
        let before = self.used.len();
        self.used.retain(|name, _| folders.contains(name));
        self.errors.retain(|name, _| folders.contains(name));
        let mut has_changed = self.used.len() != before;
        for name in folders {
            match self.reload_folder(&name) {
                Ok(changed) => {
                    has_changed |= changed;
                    self.errors.remove(&name);
                }
                Err(error) => self.report(name, &error),
            }
        }
        self.metrics.rejected.set(self.errors.len() as i64);
        if !has_changed {
            return Ok(None);
        }
        let expiries = self.used.iter().map(|(name, (_, used))| (name.as_str(), used.not_after));
        self.metrics.set_expiries(expiries);
        Ok(Some(Selection::new(self.used.values().map(|(_, certificate)| certificate))))
    }

    /// Reads a folder, and returns whether its certificate has changed.
    fn reload_folder(&mut self, name: &str) -> Result<bool, CertificateError> {
        let files = read_volume(&self.path.join(name), [CERTIFICATE, KEY])
            .map_err(|error| CertificateError::Read(error.to_string()))?;
        if self.used.get(name).is_some_and(|(used, _)| *used == files) {
            return Ok(false);
        }
        let certificate = Certificate::parse(&files[0], &files[1])?;
        tracing::info!(folder = name, names = ?certificate.names, "loaded an HTTPS certificate");
        self.used.insert(name.to_owned(), (files, certificate));
        Ok(true)
    }

    /// Logs an error of a folder, unless it is the same as the folder's last error.
    fn report(&mut self, name: String, error: &CertificateError) {
        let message = error.to_string();
        if self.errors.get(&name) != Some(&message) {
            let keeps_current = self.used.contains_key(&name);
            tracing::error!(
                directory = %self.path.join(&name).display(),
                error = message,
                keeps_current,
                "cannot use an HTTPS certificate"
            );
            self.errors.insert(name, message);
        }
    }

    /// Polls the directory on a thread of its own.
    ///
    /// # Arguments
    /// * `install` - called with the certificates after a change, unless none is left; in this
    ///   case, the previous certificates stay in use. The thread ends when `install` returns
    ///   `false`.
    ///
    /// # Errors
    /// Fails if the thread cannot be started.
    pub(super) fn watch(
        mut self,
        install: impl Fn(Selection) -> bool + Send + 'static,
    ) -> io::Result<()> {
        vital::spawn("https".to_owned(), move || {
            let mut has_failed = false;
            loop {
                thread::sleep(PERIOD);
                match self.reload() {
                    Ok(changed) => {
                        has_failed = false;
                        let usable = changed.filter(|selection| !selection.is_empty());
                        if usable.is_some_and(|selection| !install(selection)) {
                            return;
                        }
                    }
                    Err(error) => {
                        if !std::mem::replace(&mut has_failed, true) {
                            tracing::error!(
                                %error,
                                directory = %self.path.display(),
                                "cannot list the HTTPS certificates; keeping the current ones"
                            );
                        }
                    }
                }
            }
        })
        .map(drop)
    }
}

/// Returns the names of a directory's folders, except those that begin with a dot, which belong to
/// the kubelet.
fn folders(path: &Path) -> io::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') && entry.path().is_dir() {
            names.insert(name);
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use prometheus::Registry;

    use super::*;
    use crate::fixtures::Files;

    struct Scenario {
        directory: Directory,
        path: PathBuf,
        _folder: tempfile::TempDir,
    }

    impl Scenario {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().to_owned();
            let metrics = HttpsMetrics::register(&Registry::new()).unwrap();
            Self { directory: Directory::new(path.clone(), metrics), path, _folder: folder }
        }

        /// Returns whether the certificates have changed.
        fn has_changed(&mut self) -> bool {
            self.directory.reload().unwrap().is_some()
        }

        fn rejected(&self) -> i64 {
            self.directory.metrics.rejected.get()
        }
    }

    #[test]
    fn certificates_change_with_their_folders() {
        let mut scenario = Scenario::new();
        assert!(!scenario.has_changed());
        Files::issued_for(&["a"]).write(&scenario.path.join("a"));
        assert!(scenario.has_changed());
        assert!(!scenario.has_changed());
        Files::issued_for(&["a"]).write(&scenario.path.join("a"));
        assert!(scenario.has_changed());
        fs::remove_dir_all(scenario.path.join("a")).unwrap();
        assert!(scenario.directory.reload().unwrap().is_some_and(|selection| selection.is_empty()));
    }

    #[test]
    fn a_broken_certificate_is_counted_and_the_previous_one_stays_in_use() {
        let mut scenario = Scenario::new();
        let folder = scenario.path.join("a");
        Files::issued_for(&["a"]).write(&folder);
        assert!(scenario.has_changed());
        fs::write(folder.join(KEY), "no key").unwrap();
        assert!(!scenario.has_changed());
        assert_eq!((scenario.rejected(), scenario.directory.used.len()), (1, 1));
        Files::issued_for(&["a"]).write(&folder);
        assert!(scenario.has_changed());
        assert_eq!(scenario.rejected(), 0);
    }
}
