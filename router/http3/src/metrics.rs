//! The metrics of HTTP/3, in addition to those of all clients.

use prometheus::{IntCounter, Registry};
use tenon_lifecycle::label_values;
use tenon_lifecycle::metrics::{EnumCounters, Register as _};

label_values! {
    /// The outcome of an attempt to connect.
    pub enum Outcome {
        /// The handshake was completed.
        Connected = "connected",
        /// The client failed the handshake, or did not complete it in time.
        Failed = "failed",
        /// The client has to prove its address first.
        Retried = "retried",
        /// There was no capacity, or the router is shutting down.
        Refused = "refused",
    }
}

/// The metrics of all threads.
#[derive(Clone)]
pub struct Http3Metrics {
    pub attempts: EnumCounters<Outcome>,
    handed_over: IntCounter,
    lost: IntCounter,
}

/// The metrics of a thread's socket.
#[derive(Clone)]
pub(crate) struct ThreadMetrics {
    /// The number of datagrams that were handed to other threads.
    pub(crate) handed_over: IntCounter,
    /// The number of datagrams that were dropped because the queue of their thread was full, or
    /// because they were too large.
    pub(crate) lost: IntCounter,
}

impl Http3Metrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// Fails if the registry already has metrics of these names.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            attempts: registry.counters_by(
                "tenon_router_http3_attempts_total",
                "Attempts of clients to connect with HTTP/3, by outcome.",
                "outcome",
            )?,
            handed_over: registry.counter(
                "tenon_router_http3_datagrams_handed_over_total",
                "Datagrams that arrived at a thread other than that of their connection, because the client's address has changed.",
            )?,
            lost: registry.counter(
                "tenon_router_http3_datagrams_lost_total",
                "Datagrams that were dropped because the queue of their connection's thread was full.",
            )?,
        })
    }

    pub(crate) fn thread(&self) -> ThreadMetrics {
        ThreadMetrics { handed_over: self.handed_over.clone(), lost: self.lost.clone() }
    }
}
