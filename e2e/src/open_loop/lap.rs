//! The outcomes of the requests that ended within a period.

use std::fmt;
use std::time::Duration;

use anyhow::ensure;
use serde::{Deserialize, Serialize};

use super::{ClientKind, Ended};

/// Maximum number of failures that are recorded individually; the others are only counted.
const MAX_RECORDED: usize = 20;

/// Maximum length of a recorded body, in characters.
const BODY_CHARS: usize = 300;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Lap {
    pub took: Duration,
    pub sent: u64,
    pub served: u64,
    pub failed: u64,
    /// Latency of the served requests.
    pub latency: Latency,
    /// The failed requests that started first, up to a maximum number. After [`Lap::and`], those of
    /// the first lap come first.
    pub failures: Vec<Failure>,
}

/// Quantiles of the time from when a request was due to the end of its response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    pub p50: Duration,
    pub p99: Duration,
    pub max: Duration,
}

/// A request that was not served.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Failure {
    /// Start of the request, in RFC 3339 format in UTC with milliseconds.
    pub at: String,
    pub latency: Duration,
    pub host: String,
    pub kind: ClientKind,
    /// The status, if there was a response.
    pub status: Option<u16>,
    /// The beginning of the response's body, or the reason why there was none.
    pub reason: String,
}

impl Lap {
    pub(super) fn of(took: Duration, sent: u64, ended: Vec<Ended>) -> Self {
        let (mut latencies, mut failures) = (Vec::new(), Vec::new());
        for Ended { latency, failure } in ended {
            match failure {
                None => latencies.push(latency),
                Some(failure) => failures.push(failure),
            }
        }
        latencies.sort_unstable();
        failures.sort_by(|a, b| a.at.cmp(&b.at));
        let failed = failures.len() as u64;
        failures.truncate(MAX_RECORDED);
        Self {
            took,
            sent,
            served: latencies.len() as u64,
            failed,
            latency: Latency::of(&latencies),
            failures,
        }
    }

    /// Combines two consecutive laps.
    pub fn and(mut self, next: Self) -> Self {
        self.took += next.took;
        self.sent += next.sent;
        self.served += next.served;
        self.failed += next.failed;
        // The quantiles of both laps together cannot be derived from those of each, but the larger
        // of the two is an upper bound.
        self.latency = Latency {
            p50: self.latency.p50.max(next.latency.p50),
            p99: self.latency.p99.max(next.latency.p99),
            max: self.latency.max.max(next.latency.max),
        };
        self.failures.extend(next.failures);
        self.failures.truncate(MAX_RECORDED);
        self
    }

    /// Checks that every request was served.
    ///
    /// # Errors
    /// Fails if a request failed, if none was served, or if the requests started at less than 90 %
    /// of `rate` (requests per second), because such a lap proves nothing.
    pub fn ensure_all_served(&self, rate: u32) -> anyhow::Result<()> {
        ensure!(
            self.failed == 0,
            "of {} requests {} failed:{}",
            self.sent,
            self.failed,
            FailureList(self)
        );
        let due = self.took.as_secs_f64() * f64::from(rate);
        ensure!(self.sent as f64 >= due * 0.9, "the prober did not keep its rate: {self}");
        ensure!(self.served > 0, "no request was served: {self}");
        Ok(())
    }
}

impl Latency {
    /// Computes the quantiles of sorted latencies by the nearest-rank method.
    fn of(sorted: &[Duration]) -> Self {
        let rank = |q: f64| {
            sorted.get(((sorted.len() as f64 * q).ceil() as usize).saturating_sub(1)).copied()
        };
        let quantile = |q| rank(q).unwrap_or_default();
        Self { p50: quantile(0.50), p99: quantile(0.99), max: quantile(1.0) }
    }
}

impl fmt::Display for Lap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { took, sent, served, failed, latency, .. } = self;
        let Latency { p50, p99, max } = latency;
        write!(
            f,
            "{sent} requests in {:.1} s, {served} served, {failed} failed; ",
            took.as_secs_f64()
        )?;
        write!(
            f,
            "p50 {:.1} ms, p99 {:.1} ms, max {:.1} ms",
            millis(*p50),
            millis(*p99),
            millis(*max)
        )
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, latency, host, kind, status, reason } = self;
        write!(f, "{at} {host} {kind:?}, after {:.0} ms: ", millis(*latency))?;
        match status {
            Some(status) => write!(f, "{status} {reason}"),
            None => f.write_str(reason),
        }
    }
}

/// Formats a lap's failures, one per line.
struct FailureList<'a>(&'a Lap);

impl fmt::Display for FailureList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for failure in &self.0.failures {
            write!(f, "\n    {failure}")?;
        }
        let unlisted = self.0.failed.saturating_sub(self.0.failures.len() as u64);
        if unlisted > 0 {
            write!(f, "\n    and {unlisted} more")?;
        }
        Ok(())
    }
}

pub(super) fn beginning_of(body: &str) -> String {
    body.chars().take(BODY_CHARS).collect()
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
