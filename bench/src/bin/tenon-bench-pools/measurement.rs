//! The result of one measurement. The measuring process prints the result for its parent, which
//! prints the table.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measurement {
    pub latencies: Histogram,
    /// Requests per second.
    pub throughput: f64,
    /// The CPU time of all threads, per request.
    pub cpu: Duration,
    /// The peak of resident memory, less the resident memory before the first isolate, in bytes.
    pub memory: u64,
}
