//! Spans of requests: which requests have one, and the export of spans over OTLP (the OpenTelemetry
//! protocol).
//!
//! ```text
//!  thread: sampled? ─► OpenSpan ─► Recorder: up to 512 spans ─┐ once a second
//!  thread: …                                                  ├─► batches ─► Exporter ─► collector
//!  thread: …                                                  ┘   bounded    one task
//! ```
//!
//! A request without a span costs only the choice of a random number. A thread never waits for the
//! collector: if the queue of batches is full, the thread drops its spans and counts them.
//!
//! - [`context`]: the trace context of W3C, in headers. Pure.
//! - [`sampling`]: decides which requests have a span. Pure.
//! - [`span`]: one span, as OTLP encodes it. Pure.
//! - [`recorder`]: the spans of a thread.
//! - [`exporter`]: sends the batches of all threads.
//! - [`collector`]: the address of the collector, and the connection to it.
//! - [`args`]: the arguments of a process that has spans.
//! - [`metrics`]: counts the spans that were exported, dropped or failed.

mod args;
mod collector;
pub mod context;
mod exporter;
mod metrics;
mod recorder;
mod sampling;
pub mod span;

pub use args::{SpanArgs, SpanArgsError};
pub use collector::Collector;
pub use context::Context;
pub use exporter::Exporter;
pub use metrics::SpanMetrics;
pub use recorder::{DISCONNECTED, OpenSpan, Recorder, RecorderParts};
pub use sampling::{Ratio, Sampling};
pub use span::{Origin, Span};

/// The configuration of spans.
#[derive(Clone, Debug)]
pub struct SpansConfig {
    pub sampling: Sampling,
    pub collector: Collector,
}

/// Returns the parts from which each thread creates its recorder, and the exporter of their spans.
///
/// # Arguments
/// * `threads` - the number of threads that record spans.
pub fn channel(
    config: SpansConfig,
    threads: usize,
    metrics: SpanMetrics,
) -> (RecorderParts, Exporter) {
    let SpansConfig { sampling, collector } = config;
    // Each thread can hand over two batches before spans are dropped.
    let (batches_tx, batches_rx) = tokio::sync::mpsc::channel(2 * threads);
    let parts = RecorderParts { sampling, batches_tx, metrics: metrics.clone() };
    (parts, Exporter::new(batches_rx, collector, metrics))
}
