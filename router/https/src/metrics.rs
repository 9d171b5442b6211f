//! The metrics of TLS with clients.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus::{IntCounter, IntGauge, IntGaugeVec, Registry};
use rustls::HandshakeKind;
use tenon_lifecycle::metrics::Register as _;

/// The metrics of all threads.
#[derive(Clone)]
pub(super) struct HttpsMetrics {
    full: IntCounter,
    resumed: IntCounter,
    failed: IntCounter,
    /// The number of folders whose current content cannot be used.
    pub(super) rejected: IntGauge,
    expiry: IntGaugeVec,
    /// The folders that have a gauge of their expiry.
    folders: Arc<Mutex<BTreeSet<String>>>,
}

impl HttpsMetrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// Fails if the registry already has metrics of these names.
    pub(super) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let handshakes = registry.counters(
            "tenon_router_https_handshakes_total",
            "TLS handshakes with clients, by outcome: full, resumed or failed.",
            &["outcome"],
        )?;
        Ok(Self {
            full: handshakes.with_label_values(&["full"]),
            resumed: handshakes.with_label_values(&["resumed"]),
            failed: handshakes.with_label_values(&["failed"]),
            rejected: registry.gauge(
                "tenon_router_https_certificates_rejected",
                "Folders of HTTPS certificates whose current content cannot be used.",
            )?,
            expiry: registry.gauges(
                "tenon_router_https_certificate_expiry_timestamp_seconds",
                "Expiry of the HTTPS certificates, by folder, in Unix time.",
                &["folder"],
            )?,
            folders: Arc::default(),
        })
    }

    /// Counts a completed handshake.
    pub(super) fn record_handshake(&self, kind: Option<HandshakeKind>) {
        if kind == Some(HandshakeKind::Resumed) { &self.resumed } else { &self.full }.inc();
    }

    /// Counts a failed handshake. Failures are frequent, so they are logged only for debugging.
    pub(super) fn record_failure(&self, error: &io::Error) {
        self.failed.inc();
        tracing::debug!(%error, "a client failed its TLS handshake");
    }

    /// Sets the expiry of each folder's certificate, in Unix time.
    pub(super) fn set_expiries<'a>(&self, expiries: impl Iterator<Item = (&'a str, i64)>) {
        let mut folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::take(&mut *folders);
        for (folder, expiry) in expiries {
            self.expiry.with_label_values(&[folder]).set(expiry);
            folders.insert(folder.to_owned());
        }
        for folder in before.difference(&folders) {
            // The gauge exists, because it was set before.
            let _ = self.expiry.remove_label_values(&[folder]);
        }
    }
}
