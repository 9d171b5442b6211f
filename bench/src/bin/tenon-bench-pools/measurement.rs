//! What one process measured, as it travels to the one that makes the table.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measurement {
    pub latencies: Histogram,
    /// Requests in a second.
    pub throughput: f64,
    /// Of all threads, for one request.
    pub cpu: Duration,
    /// Resident, the most there was, over what there was before the first isolate. Bytes.
    pub memory: u64,
}
