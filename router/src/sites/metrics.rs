//! The metrics of static files.

use prometheus::Registry;
use tenon_lifecycle::label_values;
use tenon_lifecycle::metrics::{EnumCounters, Register as _};

label_values! {
    /// The result of a request for a static file.
    pub(crate) enum AssetResult {
        /// The file, or a part of it.
        File = "file",
        NotModified = "not_modified",
        Redirect = "redirect",
        NotFound = "not_found",
        /// The site is unavailable.
        Unavailable = "unavailable",
    }
}

label_values! {
    /// The result of a fetch from an operator.
    enum Fetch {
        Done = "done",
        Failed = "failed",
    }
}

/// The metrics of all threads.
#[derive(Clone)]
pub(crate) struct SiteMetrics {
    pub(crate) answers: EnumCounters<AssetResult>,
    fetches: EnumCounters<Fetch>,
}

impl SiteMetrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// Fails if the registry already has metrics of these names.
    pub(crate) fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            answers: registry.counters_by(
                "tenon_router_asset_responses_total",
                "Responses with static files, by result.",
                "result",
            )?,
            fetches: registry.counters_by(
                "tenon_router_site_fetches_total",
                "Sites of static files that were fetched from operators, by result.",
                "result",
            )?,
        })
    }

    /// Counts a fetch.
    pub(crate) fn record_fetch(&self, is_done: bool) {
        self.fetches.inc(if is_done { Fetch::Done } else { Fetch::Failed });
    }
}
