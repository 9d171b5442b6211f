//! Certificates for the processes of an installation with mutual TLS.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use prometheus::Registry;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use tenon_lifecycle::tls::{Role, Tls};

/// The directories with the certificates of each role.
pub struct Authority {
    directory: PathBuf,
}

impl Authority {
    /// Issues the certificates of all roles.
    ///
    /// # Arguments
    /// * `directory` - a new directory for them.
    ///
    /// # Errors
    /// Fails if they cannot be written.
    pub fn new(directory: &Path) -> anyhow::Result<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        for role in Role::ALL {
            let mut params = CertificateParams::new([role.dns_name().to_owned()])?;
            params.extended_key_usages =
                vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
            let key = KeyPair::generate()?;
            let certificate = params.signed_by(&key, &issuer)?;
            let folder = directory.join(role.dns_name());
            fs::create_dir_all(&folder)?;
            for (name, content) in [
                ("tls.crt", certificate.pem()),
                ("tls.key", key.serialize_pem()),
                ("ca.crt", issuer.pem()),
            ] {
                fs::write(folder.join(name), content)?;
            }
        }
        Ok(Self { directory: directory.to_owned() })
    }

    /// Returns the directory with the certificate of a role, as `--tls-dir` takes it.
    pub fn directory(&self, role: Role) -> PathBuf {
        self.directory.join(role.dns_name())
    }

    /// Returns the certificate of the operator, for this process.
    ///
    /// # Errors
    /// Fails if it cannot be read.
    pub fn operator(&self) -> anyhow::Result<Tls> {
        Tls::open(self.directory(Role::Operator), Role::Operator, &Registry::new())
            .context("the certificate of the operator")
    }
}
