//! The metrics of clients' connections.

use prometheus::{IntCounter, IntGauge, IntGaugeVec, Registry};
use tenon_lifecycle::metrics::Register as _;

/// The metrics of all threads.
#[derive(Clone)]
pub struct ClientFamilies {
    connections: IntGaugeVec,
    memory: IntGaugeVec,
    shed: IntCounter,
    left_fast_path: IntCounter,
}

/// The metrics of one thread. No other thread writes the gauges.
pub struct ClientMetrics {
    /// The number of open connections of clients, and of the platform's own processes.
    pub connections: IntGauge,
    /// The memory that clients hold, in bytes.
    pub memory: IntGauge,
    /// The number of connections that all threads have closed or refused for lack of memory or
    /// descriptors.
    pub shed: IntCounter,
    /// The number of times that a connection of any thread has left the fast path of HTTP/1.1.
    pub left_fast_path: IntCounter,
}

impl ClientFamilies {
    /// Registers the families.
    ///
    /// # Errors
    /// Fails if the registry already has metrics of these names.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            connections: registry.gauges(
                "tenon_router_connections",
                "Open HTTP connections.",
                &["thread"],
            )?,
            memory: registry.gauges(
                "tenon_router_client_memory_bytes",
                "Memory charged to clients.",
                &["thread"],
            )?,
            shed: registry.counter(
                "tenon_router_connections_shed_total",
                "Connections closed or refused because the memory or the descriptors for clients were exhausted.",
            )?,
            left_fast_path: registry.counter(
                "tenon_router_fast_path_exits_total",
                "HTTP/1.1 connections that left the fast path because of a request with a body, a WebSocket or an unusual head.",
            )?,
        })
    }

    /// Returns the metrics of one thread.
    ///
    /// # Arguments
    /// * `thread` - identifies the thread.
    pub fn thread(&self, thread: &str) -> ClientMetrics {
        ClientMetrics {
            connections: self.connections.with_label_values(&[thread]),
            memory: self.memory.with_label_values(&[thread]),
            shed: self.shed.clone(),
            left_fast_path: self.left_fast_path.clone(),
        }
    }
}
