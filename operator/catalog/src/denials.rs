//! Counts and logs the calls that the catalog refuses because of the caller's identity.

use prometheus::{IntCounterVec, Opts};
use tenon_lifecycle::metrics::{EnumCounters, EnumMap};
use tenon_lifecycle::warnings::Warnings;
use tonic::Status;

use super::access::{Call, Caller, Denial};

pub(super) struct Denials {
    pub(super) family: IntCounterVec,
    counters: EnumCounters<Call>,
    /// Limits the rate of log lines, because callers choose how often they call.
    warnings: Warnings,
}

impl Denials {
    pub(super) fn new() -> Self {
        let help =
            "Calls that the catalog refused because of the caller's certificate or pool, by call.";
        let opts = Opts::new("tenon_operator_catalog_denied_total", help);
        let family = IntCounterVec::new(opts, &["call"]).expect("invalid name");
        Self { counters: EnumMap::of(&family, &[]), family, warnings: Warnings::default() }
    }

    /// Counts a refused call, logs it unless another one was logged moments ago, and returns the
    /// answer to the caller.
    pub(super) fn record(&self, call: Call, caller: &Caller, denial: Denial) -> Status {
        self.counters.inc(call);
        if let Some(more) = self.warnings.due() {
            let (address, call) = (caller.address, call.as_str());
            match &denial {
                Denial::OtherPool { caller, pools } => {
                    let pools = pools.join(", ");
                    tracing::warn!(
                        %address, call, pool = %caller, pools, more,
                        "refused a node a revision that belongs to other pools"
                    );
                }
                denial => tracing::warn!(%address, call, %denial, more, "refused a call"),
            }
        }
        denial.into()
    }

    #[cfg(test)]
    pub(super) fn count(&self, call: Call) -> u64 {
        self.counters.get(call).get()
    }
}
