//! The metrics of compression.

use prometheus::Registry;
use tenon_lifecycle::label_values;
use tenon_lifecycle::metrics::{EnumCounters, Register as _};

use crate::Coding;

label_values! {
    /// The reason why a stream is sent uncompressed, although its client accepts a coding.
    pub(crate) enum Lack {
        /// The thread, or the client's address, already compresses its maximum number of
        /// streams.
        Slots = "slots",
        /// There is no memory for an encoder.
        Memory = "memory",
    }
}

/// The metrics of all threads.
#[derive(Clone)]
pub struct CompressionMetrics {
    read: EnumCounters<Coding>,
    written: EnumCounters<Coding>,
    refused: EnumCounters<Lack>,
}

impl CompressionMetrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// Fails if the registry already has metrics of these names.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            read: registry.counters_by(
                "tenon_router_compression_read_bytes_total",
                "Bytes of Workers' responses before their compression, by content coding.",
                "coding",
            )?,
            written: registry.counters_by(
                "tenon_router_compression_written_bytes_total",
                "Bytes of Workers' responses after their compression, by content coding.",
                "coding",
            )?,
            refused: registry.counters_by(
                "tenon_router_compression_refused_total",
                "Streams that were sent uncompressed for lack of slots or memory.",
                "lack",
            )?,
        })
    }

    /// Counts bytes of a response before and after their compression.
    pub(crate) fn count(&self, coding: Coding, read: usize, written: usize) {
        self.read.get(coding).inc_by(read as u64);
        self.written.get(coding).inc_by(written as u64);
    }

    /// Counts a stream that is not compressed. Always returns `None`.
    pub(crate) fn lack<T>(&self, lack: Lack) -> Option<T> {
        self.refused.inc(lack);
        None
    }
}
