//! The metrics of requests and of the bytes of tunnels.
//!
//! Every request updates these metrics. Each thread therefore counts in [`Meters`] of its own,
//! which it flushes up to ten times a second, so that threads do not contend for the cache lines of
//! shared counters.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use http::{StatusCode, Version};
use prometheus::local::{LocalHistogram, LocalIntCounter};
use prometheus::{Histogram, IntCounterVec, IntGauge, IntGaugeVec, Registry};
use tenon_lifecycle::label_values;
use tenon_lifecycle::metrics::{EnumCounters, EnumMap, LabelValue, Register as _};
use tenon_proto::failure::FailureCode;
use tokio::task::spawn_local;

/// The delay of a flush, which bounds the age of scraped values.
const FLUSH: Duration = Duration::from_millis(100);

/// The buckets of request durations, in seconds: from the time of a warm Worker in the same rack to
/// the default wall limit.
const BUCKETS: [f64; 16] = [
    0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
    30.0,
];

/// The metrics of all threads.
#[derive(Clone)]
pub(crate) struct RequestFamilies {
    ended: EnumCounters<Code>,
    by_thread: IntCounterVec,
    by_version: EnumCounters<HttpVersion>,
    duration: Histogram,
    in_flight: IntGaugeVec,
    carried: EnumCounters<Direction>,
}

/// The result of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    Answered(StatusCode),
    Failed(FailureCode),
}

impl Outcome {
    /// Returns the status that the client gets.
    pub(crate) fn status(self) -> u16 {
        match self {
            Self::Answered(status) => status.as_u16(),
            Self::Failed(code) => code.http_status(),
        }
    }

    /// Returns whether the server is to blame for the result.
    pub(crate) fn is_error(self) -> bool {
        self.status() >= 500
    }
}

label_values! {
    /// The direction of a tunnel's data, by its destination.
    pub(crate) enum Direction {
        FromClient = "node",
        ToClient = "client",
    }
}

label_values! {
    /// The version of HTTP that a client speaks.
    enum HttpVersion {
        Http10 = "1.0",
        Http11 = "1.1",
        Http2 = "2",
        Http3 = "3",
    }
}

impl From<Version> for HttpVersion {
    fn from(version: Version) -> Self {
        match version {
            Version::HTTP_3 => Self::Http3,
            Version::HTTP_2 => Self::Http2,
            Version::HTTP_11 => Self::Http11,
            _ => Self::Http10,
        }
    }
}

/// Returns the number of a version of HTTP, such as `1.1`.
pub(crate) fn version_number(version: Version) -> &'static str {
    HttpVersion::from(version).as_str()
}

label_values! {
    /// The class of a status.
    enum Class {
        Informational = "1xx",
        Successful = "2xx",
        Redirection = "3xx",
        ClientError = "4xx",
        ServerError = "5xx",
    }
}

/// The label of a request's result.
#[derive(Clone, Copy)]
enum Code {
    Answered(Class),
    Failed(FailureCode),
}

impl Code {
    const COUNT: usize = Class::ALL.len() + FailureCode::ALL.len();

    const EVERY: [Self; Self::COUNT] = {
        let mut codes = [Self::Answered(Class::Informational); Self::COUNT];
        let mut at = 0;
        while at < Self::COUNT {
            codes[at] = match at.checked_sub(Class::ALL.len()) {
                None => Self::Answered(Class::ALL[at]),
                Some(at) => Self::Failed(FailureCode::ALL[at]),
            };
            at += 1;
        }
        codes
    };
}

impl LabelValue for Code {
    const ALL: &'static [Self] = &Self::EVERY;

    fn index(self) -> usize {
        match self {
            Self::Answered(class) => class.index(),
            Self::Failed(code) => Class::ALL.len() + code as usize,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Answered(class) => class.as_str(),
            Self::Failed(code) => code.as_str(),
        }
    }
}

impl From<Outcome> for Code {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Answered(status) => Self::Answered(
                Class::ALL[usize::from(status.as_u16() / 100).clamp(1, Class::ALL.len()) - 1],
            ),
            Outcome::Failed(code) => Self::Failed(code),
        }
    }
}

impl RequestFamilies {
    /// Registers the families.
    ///
    /// # Errors
    /// Fails if the registry already has metrics of these names.
    pub(crate) fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            ended: registry.counters_by(
                "tenon_router_requests_total",
                "Requests by status class of the Worker's response, or by failure code.",
                "code",
            )?,
            by_thread: registry.counters(
                "tenon_router_thread_requests_total",
                "Completed requests by thread.",
                &["thread"],
            )?,
            by_version: registry.counters_by(
                "tenon_router_version_requests_total",
                "Completed requests of clients, by HTTP version.",
                "version",
            )?,
            duration: registry.histogram(
                "tenon_router_request_duration_seconds",
                "Time from a request's head to the head of its response.",
                &BUCKETS,
            )?,
            in_flight: registry.gauges(
                "tenon_router_inflight",
                "Requests in flight.",
                &["thread"],
            )?,
            carried: registry.counters_by(
                "tenon_router_tunnel_bytes_total",
                "Bytes carried by WebSockets, by destination.",
                "to",
            )?,
        })
    }

    /// Returns the metrics of one thread.
    ///
    /// # Arguments
    /// * `thread` - identifies the thread.
    pub(crate) fn thread(&self, thread: &str) -> Rc<Meters> {
        let counts = Counts {
            ended: self.ended.local(),
            versions: self.by_version.local(),
            carried: self.carried.local(),
            duration: self.duration.local(),
            requests: self.by_thread.with_label_values(&[thread]).local(),
        };
        let in_flight = self.in_flight.with_label_values(&[thread]);
        Rc::new(Meters { in_flight, counts, dirty: Cell::new(false) })
    }
}

/// The metrics of one thread, which are flushed into those of all threads.
pub(crate) struct Meters {
    /// The number of requests in flight. No other thread writes this gauge.
    pub(crate) in_flight: IntGauge,
    counts: Counts,
    dirty: Cell<bool>,
}

struct Counts {
    ended: EnumMap<Code, LocalIntCounter>,
    versions: EnumMap<HttpVersion, LocalIntCounter>,
    carried: EnumMap<Direction, LocalIntCounter>,
    duration: LocalHistogram,
    requests: LocalIntCounter,
}

impl Meters {
    /// Counts a completed request.
    ///
    /// # Arguments
    /// * `took` - the time from the request's head to the head of its response.
    pub(crate) fn observe(self: &Rc<Self>, outcome: Outcome, took: Duration) {
        let counts = &self.counts;
        counts.ended.get(outcome.into()).inc();
        counts.duration.observe(took.as_secs_f64());
        counts.requests.inc();
        self.flush_soon();
    }

    /// Counts a request of a client by the version of HTTP. The caller also calls
    /// [`observe`](Self::observe).
    pub(crate) fn count_version(&self, version: Version) {
        self.counts.versions.get(version.into()).inc();
    }

    /// Counts bytes of a tunnel.
    pub(crate) fn count_carried(self: &Rc<Self>, direction: Direction, bytes: usize) {
        self.counts.carried.get(direction).inc_by(bytes as u64);
        self.flush_soon();
    }

    fn flush_soon(self: &Rc<Self>) {
        if !self.dirty.replace(true) {
            let meters = self.clone();
            spawn_local(async move {
                tokio::time::sleep(FLUSH).await;
                meters.flush();
            });
        }
    }

    pub(crate) fn flush(&self) {
        self.dirty.set(false);
        let counts = &self.counts;
        counts.ended.flush();
        counts.versions.flush();
        counts.carried.flush();
        counts.duration.flush();
        counts.requests.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_result_has_its_own_label() {
        let indexes: Vec<usize> = Code::ALL.iter().map(|code| code.index()).collect();
        assert_eq!(indexes, (0..Code::COUNT).collect::<Vec<_>>());
        let class =
            |status| Code::from(Outcome::Answered(StatusCode::from_u16(status).unwrap())).as_str();
        assert_eq!(
            [101, 204, 308, 404, 599, 999].map(class),
            ["1xx", "2xx", "3xx", "4xx", "5xx", "5xx"]
        );
        assert_eq!(Code::from(Outcome::Failed(FailureCode::Internal)).as_str(), "internal");
    }
}
