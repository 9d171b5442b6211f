//! What a router counts.
//!
//! [`Metrics`] are shared by all threads. What every request touches is counted per thread in [`Meters`] first
//! and added up a few times a second, so that threads do not fight over the cache lines of common counters.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use http::StatusCode;
use prometheus::local::{LocalHistogram, LocalIntCounter};
use prometheus::{Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, Opts, Registry};
use tenon_proto::failure::FailureCode;
use tokio::task::spawn_local;

/// The longest that a scrape can lag behind.
const FLUSH: Duration = Duration::from_millis(100);

/// From what a warm Worker in the same rack takes to the default wall limit, in seconds.
const BUCKETS: [f64; 16] =
    [0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

#[derive(Clone)]
pub(crate) struct Metrics {
    requests: IntCounterVec,
    duration: Histogram,
    retries: IntCounterVec,
    carried: IntCounterVec,
    pub(crate) tunnels: IntGauge,
    pub(crate) connections: IntGauge,
    pub(crate) ejections: IntCounter,
    pub(crate) routes: IntGauge,
    pub(crate) nodes: IntGauge,
}

impl Metrics {
    /// # Errors
    /// When the registry has metrics of these names already.
    pub(crate) fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let requests = Opts::new(
            "tenon_router_requests_total",
            "Requests by the class of the Worker's status, or by the code of the failure.",
        );
        let duration = HistogramOpts::new(
            "tenon_router_request_duration_seconds",
            "From a request's head to the head of its answer.",
        );
        let retries = Opts::new("tenon_router_retries_total", "Attempts made again elsewhere, by what had happened.");
        let carried = Opts::new("tenon_router_tunnel_bytes_total", "Bytes that WebSockets have carried, by whither.");
        let metrics = Self {
            requests: IntCounterVec::new(requests, &["code"])?,
            duration: Histogram::with_opts(duration.buckets(BUCKETS.to_vec()))?,
            retries: IntCounterVec::new(retries, &["reason"])?,
            carried: IntCounterVec::new(carried, &["to"])?,
            tunnels: IntGauge::new("tenon_router_tunnels", "WebSockets that are open or asked for.")?,
            connections: IntGauge::new("tenon_router_connections", "Connections that are open and speak HTTP.")?,
            ejections: IntCounter::new("tenon_router_ejections_total", "Shards found unreachable, once per thread.")?,
            routes: IntGauge::new("tenon_router_routes", "Routes in the table.")?,
            nodes: IntGauge::new("tenon_router_nodes", "Nodes in the table.")?,
        };
        registry.register(Box::new(metrics.requests.clone()))?;
        registry.register(Box::new(metrics.duration.clone()))?;
        registry.register(Box::new(metrics.retries.clone()))?;
        registry.register(Box::new(metrics.carried.clone()))?;
        registry.register(Box::new(metrics.tunnels.clone()))?;
        registry.register(Box::new(metrics.connections.clone()))?;
        registry.register(Box::new(metrics.ejections.clone()))?;
        registry.register(Box::new(metrics.routes.clone()))?;
        registry.register(Box::new(metrics.nodes.clone()))?;
        Ok(metrics)
    }

    /// Counts an attempt that is made again.
    pub(crate) fn retry(&self, reason: &str) {
        self.retries.with_label_values(&[reason]).inc();
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    Answered(StatusCode),
    Failed(FailureCode),
}

/// Of what a tunnel carries.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    FromClient,
    ToClient,
}

/// One thread's share of the counting.
pub(crate) struct Meters {
    counts: RefCell<Counts>,
    dirty: Cell<bool>,
}

struct Counts {
    /// By the first digit of the status.
    classes: [LocalIntCounter; 5],
    /// In the order of [`FailureCode::ALL`].
    failures: Vec<LocalIntCounter>,
    /// In the order of [`Way`].
    carried: [LocalIntCounter; 2],
    duration: LocalHistogram,
}

impl Meters {
    pub(crate) fn new(metrics: &Metrics) -> Rc<Self> {
        let counter = |code: &str| metrics.requests.with_label_values(&[code]).local();
        let counts = Counts {
            classes: ["1xx", "2xx", "3xx", "4xx", "5xx"].map(counter),
            failures: FailureCode::ALL.iter().map(|code| counter(code.as_str())).collect(),
            carried: ["node", "client"].map(|to| metrics.carried.with_label_values(&[to]).local()),
            duration: metrics.duration.local(),
        };
        Rc::new(Self { counts: RefCell::new(counts), dirty: Cell::new(false) })
    }

    pub(crate) fn observe(self: &Rc<Self>, outcome: Outcome, took: Duration) {
        let counts = &mut *self.counts.borrow_mut();
        match outcome {
            Outcome::Answered(status) => counts.classes[usize::from(status.as_u16() / 100).clamp(1, 5) - 1].inc(),
            Outcome::Failed(code) => {
                let at = FailureCode::ALL.iter().position(|other| *other == code);
                counts.failures[at.expect("ALL has every code")].inc();
            }
        }
        counts.duration.observe(took.as_secs_f64());
        self.flush_soon();
    }

    /// Counts bytes.
    pub(crate) fn carried(self: &Rc<Self>, way: Way, bytes: usize) {
        self.counts.borrow_mut().carried[way as usize].inc_by(bytes as u64);
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
        let counts = &mut *self.counts.borrow_mut();
        let counters = counts.classes.iter_mut().chain(&mut counts.failures).chain(&mut counts.carried);
        counters.for_each(|counter| counter.flush());
        counts.duration.flush();
    }
}
