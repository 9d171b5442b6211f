//! The cryptography that every handshake and every check of a certificate uses.

use std::sync::{Arc, LazyLock};

use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{self, cipher_suite};

/// The provider, which prefers AES-128, the cheapest cipher on current processors.
static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| {
    let cipher_suites = vec![
        cipher_suite::TLS13_AES_128_GCM_SHA256,
        cipher_suite::TLS13_AES_256_GCM_SHA384,
        cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    ];
    Arc::new(CryptoProvider { cipher_suites, ..aws_lc_rs::default_provider() })
});

pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::clone(&PROVIDER)
}
