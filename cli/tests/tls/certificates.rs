//! Issues certificates for the tests, and mounts and opens them as processes do.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use prometheus::Registry;
use tenon_certificates::issue::{self, CertifiedKey};
use tenon_lifecycle::tls::{Bundle, Principal, Role, Tls, TlsArgs};

/// The namespace of the platform, which certificates name.
pub(crate) const NAMESPACE: &str = "tenon-system";

const DAY: SignedDuration = SignedDuration::from_hours(24);

/// A directory laid out like a Secret volume of the kubelet.
pub(crate) struct Volume(tempfile::TempDir);

impl Volume {
    pub(crate) fn with(bundle: &Bundle) -> Self {
        let volume = Self(tempfile::tempdir().unwrap());
        for file in ["tls.crt", "tls.key", "ca.crt"] {
            symlink(Path::new("..data").join(file), volume.path().join(file)).unwrap();
        }
        volume.switch(bundle);
        volume
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().to_owned()
    }

    /// Switches the volume to new content atomically, as the kubelet does.
    pub(crate) fn switch(&self, bundle: &Bundle) {
        let new = tempfile::Builder::new().prefix("..").tempdir_in(self.0.path()).unwrap().keep();
        fs::write(new.join("tls.crt"), &bundle.certificate).unwrap();
        fs::write(new.join("tls.key"), &bundle.key).unwrap();
        fs::write(new.join("ca.crt"), &bundle.authorities).unwrap();
        symlink(new.file_name().unwrap(), self.path().join("..new")).unwrap();
        fs::rename(self.path().join("..new"), self.path().join("..data")).unwrap();
    }
}

pub(crate) fn authority() -> CertifiedKey {
    issue::authority(Timestamp::now(), DAY).unwrap()
}

/// Returns a bundle that contains a certificate for a role and trusts `authority` and `others`. The
/// certificate of a node names the pool `default`.
pub(crate) fn bundle(authority: &CertifiedKey, role: Role, others: &[&CertifiedKey]) -> Bundle {
    let uri = match role {
        Role::Operator => Principal::Operator.uri(NAMESPACE),
        Role::Router => Principal::Router.uri(NAMESPACE),
        Role::RuntimeNode => Principal::Pool("default".to_owned()).uri(NAMESPACE),
    };
    bundle_with(authority, role, Some(&uri), others)
}

/// Returns a bundle like [`bundle`] does, with this URI in the certificate.
pub(crate) fn bundle_with(
    authority: &CertifiedKey,
    role: Role,
    uri: Option<&str>,
    others: &[&CertifiedKey],
) -> Bundle {
    let pair = issue::certificate(authority, role, uri, Timestamp::now(), DAY).unwrap();
    let trusted: String =
        [authority].iter().chain(others).map(|pair| pair.certificate.as_str()).collect();
    Bundle {
        certificate: pair.certificate.into(),
        key: pair.key.into(),
        authorities: trusted.into(),
    }
}

pub(crate) fn open(volume: &Volume, role: Role, registry: &Registry) -> Tls {
    TlsArgs { tls_dir: Some(volume.path()) }.open(role, registry).unwrap().unwrap()
}

/// Returns the TLS configuration of a client that presents a certificate for a role.
pub(crate) fn client_tls(authority: &CertifiedKey, role: Role) -> Tls {
    let tls = Tls::without_certificate(role, &Registry::new()).unwrap();
    tls.install(&bundle(authority, role, &[])).unwrap();
    tls
}

/// Returns the TLS configuration of a node whose certificate has this URI, if any.
pub(crate) fn node_tls(authority: &CertifiedKey, uri: Option<&str>) -> Tls {
    let tls = Tls::without_certificate(Role::RuntimeNode, &Registry::new()).unwrap();
    tls.install(&bundle_with(authority, Role::RuntimeNode, uri, &[])).unwrap();
    tls
}

/// Returns the number of times that a process has loaded its certificate successfully.
pub(crate) fn load_count(registry: &Registry) -> u64 {
    let families = registry.gather();
    let reloads =
        families.iter().find(|family| family.name() == "tenon_tls_reloads_total").unwrap();
    let ok =
        reloads.get_metric().iter().find(|metric| metric.get_label()[0].value() == "ok").unwrap();
    ok.get_counter().get_value() as u64
}
