//! Certificates for tests.

use std::fs;
use std::path::Path;

use tenon_lifecycle::tls::identity::{CERTIFICATE, KEY};

/// The files of a certificate.
pub(super) struct Files {
    pub(super) certificate: Vec<u8>,
    pub(super) key: Vec<u8>,
}

impl Files {
    pub(super) fn issued_for(names: &[&str]) -> Self {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let issued = rcgen::generate_simple_self_signed(names).unwrap();
        Self {
            certificate: issued.cert.pem().into_bytes(),
            key: issued.signing_key.serialize_pem().into_bytes(),
        }
    }

    pub(super) fn write(&self, folder: &Path) {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join(CERTIFICATE), &self.certificate).unwrap();
        fs::write(folder.join(KEY), &self.key).unwrap();
    }
}
