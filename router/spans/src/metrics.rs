//! The metrics of spans.

use prometheus::Registry;
use tenon_lifecycle::label_values;
use tenon_lifecycle::metrics::{EnumCounters, Register as _};

label_values! {
    /// The fate of a span.
    pub(crate) enum Fate {
        /// The collector has accepted the span.
        Exported = "exported",
        /// There was no room for the span: the collector was too slow, or too many requests failed.
        Dropped = "dropped",
        /// The collector could not be reached, or has refused the span.
        Failed = "failed",
    }
}

/// The metrics of all threads.
#[derive(Clone)]
pub struct SpanMetrics {
    spans: EnumCounters<Fate>,
}

impl SpanMetrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// Fails if the registry already has metrics of these names.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            spans: registry.counters_by(
                "tenon_router_spans_total",
                "Spans of requests, by whether they were exported, dropped or failed.",
                "fate",
            )?,
        })
    }

    pub(crate) fn count(&self, fate: Fate, spans: usize) {
        self.spans.get(fate).inc_by(spans as u64);
    }
}
