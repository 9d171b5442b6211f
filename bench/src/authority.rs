//! Certificates for the processes of an installation with mutual TLS.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use prometheus::Registry;
use tenon_certificates::issue::{self, CertifiedKey};
use tenon_lifecycle::tls::{Role, Tls};

/// Lifetime of the certificates, longer than any benchmark.
const LIFETIME: SignedDuration = SignedDuration::from_hours(24);

/// The directories with the certificates of each role.
pub struct Authority {
    directory: PathBuf,
}

impl Authority {
    /// Issues the certificates of all roles.
    ///
    /// # Arguments
    /// * `directory` - a new directory for the certificates.
    ///
    /// # Errors
    /// Fails if the certificates cannot be issued or written.
    pub fn new(directory: &Path) -> anyhow::Result<Self> {
        let now = Timestamp::now();
        let authority = issue::authority(now, LIFETIME)?;
        for role in Role::ALL {
            let CertifiedKey { certificate, key } =
                issue::certificate(&authority, role, None, now, LIFETIME)?;
            let folder = directory.join(role.dns_name());
            fs::create_dir_all(&folder)?;
            for (name, content) in
                [("tls.crt", &certificate), ("tls.key", &key), ("ca.crt", &authority.certificate)]
            {
                fs::write(folder.join(name), content)?;
            }
        }
        Ok(Self { directory: directory.to_owned() })
    }

    /// Returns the directory with the certificate of a role, as `--tls-dir` takes it.
    pub fn directory(&self, role: Role) -> PathBuf {
        self.directory.join(role.dns_name())
    }

    /// Returns the certificate of the operator, which this process uses.
    ///
    /// # Errors
    /// Fails if the certificate cannot be read.
    pub fn operator(&self) -> anyhow::Result<Tls> {
        Tls::open(self.directory(Role::Operator), Role::Operator, &Registry::new())
            .context("cannot read the operator's certificate")
    }
}
