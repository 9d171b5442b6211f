//! Rates of requests, which routers enforce.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Limits on the rates of clients' requests to the Worker. Requests beyond these limits get the
/// status 429. Static files, calls by other Workers and scheduled calls are not limited.
#[derive(KubeSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimits {
    /// Rate of all clients together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<RateLimit>,
    /// Rate of each client, by its IPv4 address or the first 64 bits of its IPv6 address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<RateLimit>,
}

/// A rate, which the routers share equally.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RateLimit {
    /// Requests per second, in the long run.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub requests_per_second: i32,
    /// Requests that may arrive at once. Defaults to `requestsPerSecond`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub burst: Option<i32>,
}
