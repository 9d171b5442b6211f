//! The TLS metrics of a process.

use prometheus::{IntCounter, IntGauge, Registry};
use rustls::HandshakeKind;

use super::failure::{HandshakeError, Reason};
use super::identity::Identity;
use crate::metrics::{EnumCounters, Register as _};
use crate::warnings::Warnings;

pub(super) struct Metrics {
    full: IntCounter,
    resumed: IntCounter,
    failures: EnumCounters<Reason>,
    leaf_expiry: IntGauge,
    authority_expiry: IntGauge,
    loaded: IntCounter,
    load_failures: IntCounter,
    /// Bounds the rate of warnings, because a client that can reach a port could otherwise cause
    /// any number of log lines.
    warnings: Warnings,
}

impl Metrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// Fails if the registry already has these metrics.
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let handshakes = registry.counters(
            "tenon_tls_handshakes_total",
            "Completed TLS handshakes with other processes, by kind.",
            &["kind"],
        )?;
        let loads = registry.counters(
            "tenon_tls_reloads_total",
            "Loads of the certificate, by outcome.",
            &["outcome"],
        )?;
        let expiry = registry.gauges(
            "tenon_certificate_expiry_timestamp_seconds",
            "Expiry of the process's certificate and of its authority, in Unix time.",
            &["certificate"],
        )?;
        Ok(Self {
            full: handshakes.with_label_values(&["full"]),
            resumed: handshakes.with_label_values(&["resumed"]),
            failures: registry.counters_by(
                "tenon_tls_handshake_failures_total",
                "Failed TLS handshakes, by reason.",
                "reason",
            )?,
            leaf_expiry: expiry.with_label_values(&["leaf"]),
            authority_expiry: expiry.with_label_values(&["ca"]),
            loaded: loads.with_label_values(&["ok"]),
            load_failures: loads.with_label_values(&["error"]),
            warnings: Warnings::default(),
        })
    }

    pub(super) fn record_handshake(&self, kind: Option<HandshakeKind>) {
        if kind == Some(HandshakeKind::Resumed) { &self.resumed } else { &self.full }.inc();
    }

    pub(super) fn record_failure(&self, error: &HandshakeError) {
        let reason = error.reason;
        self.failures.inc(reason);
        tracing::debug!(reason = reason.as_str(), %error, "a TLS handshake failed");
        // Port scans and TCP probes close connections too, so a closed one is not worth a warning.
        if reason != Reason::Closed
            && let Some(more) = self.warnings.due()
        {
            tracing::warn!(reason = reason.as_str(), %error, more, "a TLS handshake failed");
        }
    }

    pub(super) fn record_load(&self, identity: &Identity) {
        self.loaded.inc();
        self.leaf_expiry.set(identity.validity().not_after);
        self.authority_expiry.set(identity.issuer_validity().not_after);
    }

    pub(super) fn record_failed_load(&self) {
        self.load_failures.inc();
    }
}

#[cfg(test)]
impl Metrics {
    pub(super) fn full(&self) -> u64 {
        self.full.get()
    }

    pub(super) fn resumed(&self) -> u64 {
        self.resumed.get()
    }

    /// Returns the numbers of successful and of failed loads.
    pub(super) fn loads(&self) -> (u64, u64) {
        (self.loaded.get(), self.load_failures.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tls_failure_is_counted_under_its_own_label() {
        let registry = Registry::new();
        let metrics = Metrics::register(&registry).unwrap();
        for reason in Reason::ALL {
            metrics.record_failure(&HandshakeError { reason, source: None });
            assert_eq!(metrics.failures.get(reason).get(), 1, "{}", reason.as_str());
        }
        let families = registry.gather();
        let failures = families
            .iter()
            .find(|family| family.name() == "tenon_tls_handshake_failures_total")
            .unwrap();
        assert_eq!(failures.get_metric().len(), Reason::ALL.len());
    }
}
