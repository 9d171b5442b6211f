//! The metrics of a router's threads. Each group registers and counts its own metrics: requests in
//! [`meters`](crate::meters), clients in [`ClientFamilies`], shards in [`UpstreamFamilies`].
//!
//! A family has a child for each thread if threads would otherwise contend for a cache line.

use prometheus::{IntGauge, Registry};
use tenon_clients::metrics::ClientFamilies;
use tenon_compression::metrics::CompressionMetrics;
use tenon_http3::metrics::Http3Metrics;
use tenon_lifecycle::event_loop;
use tenon_spans::SpanMetrics;

use crate::meters::RequestFamilies;
use crate::sites::metrics::SiteMetrics;
use crate::tunnel::slots;
use crate::upstream::metrics::UpstreamFamilies;

/// The names of the metrics of the threads' event loops.
pub(crate) const LOOPS: event_loop::Names = event_loop::Names {
    busy: "tenon_router_thread_busy_seconds_total",
    lag: "tenon_router_event_loop_lag_seconds",
    label: "thread",
};

/// The metrics of all groups, as all threads share them.
#[derive(Clone)]
pub(crate) struct Metrics {
    pub(crate) requests: RequestFamilies,
    pub(crate) clients: ClientFamilies,
    pub(crate) upstream: UpstreamFamilies,
    pub(crate) compression: CompressionMetrics,
    pub(crate) spans: SpanMetrics,
    pub(crate) tunnels: IntGauge,
    pub(crate) sites: SiteMetrics,
    pub(crate) http3: Http3Metrics,
}

impl Metrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// Fails if the registry already has metrics of these names.
    pub(crate) fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            requests: RequestFamilies::register(registry)?,
            clients: ClientFamilies::register(registry)?,
            upstream: UpstreamFamilies::register(registry)?,
            compression: CompressionMetrics::register(registry)?,
            spans: SpanMetrics::register(registry)?,
            tunnels: slots::register(registry)?,
            sites: SiteMetrics::register(registry)?,
            http3: Http3Metrics::register(registry)?,
        })
    }
}
