//! The metrics of a router.
//!
//! [`Metrics`] are shared by all threads. The values that every request updates are counted per
//! thread in [`Meters`] first and flushed up to ten times a second, so that threads do not contend
//! for the cache lines of common counters. [`Gauges`] belong to one thread from the start.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use http::StatusCode;
use prometheus::local::{LocalHistogram, LocalIntCounter};
use prometheus::{Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};
use tenon_lifecycle::event_loop;
use tenon_proto::failure::FailureCode;
use tokio::task::spawn_local;

/// The delay of a flush, which bounds how stale a scrape is.
const FLUSH: Duration = Duration::from_millis(100);

/// The buckets of request durations, in seconds: from the time of a warm Worker in the same rack to
/// the default wall limit.
const BUCKETS: [f64; 16] =
    [0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// The metrics of the threads' event loops. Their names and label keep the word that dashboards
/// use: "lane" is a router thread here, and not a lane of a node.
pub(crate) const LOOPS: event_loop::Names = event_loop::Names {
    busy: "tenon_router_lane_busy_seconds_total",
    lag: "tenon_router_event_loop_lag_seconds",
    label: "lane",
};

/// The reasons for a retry. They are exported from the start, so that the first retry appears as an
/// increase and not as a new series.
const RETRIES: [&str; 6] = ["unreachable", "not_begun", "node_lost", "unresponsive", "draining", "overloaded"];

/// The targets of redirects within a node.
const MOVES: [&str; 2] = ["lane", "shard"];

#[derive(Clone)]
pub(crate) struct Metrics {
    requests: IntCounterVec,
    by_lane: IntCounterVec,
    duration: Histogram,
    retries: IntCounterVec,
    spills: IntCounterVec,
    moves: IntCounterVec,
    ejections: IntCounterVec,
    carried: IntCounterVec,
    connections: IntGaugeVec,
    in_flight: IntGaugeVec,
    client_memory: IntGaugeVec,
    pub(crate) shed: IntCounter,
    links: IntGaugeVec,
    ejected: IntGaugeVec,
    pub(crate) tunnels: IntGauge,
    pub(crate) workers: IntGauge,
    pub(crate) routes: IntGauge,
    pub(crate) nodes: IntGauge,
    /// 1 while the catalog is watched.
    pub(crate) connected: IntGauge,
}

/// One thread's gauges, which no other thread writes.
#[derive(Clone)]
pub(crate) struct Gauges {
    /// Connections of clients, and of the platform's own processes.
    pub(crate) connections: IntGauge,
    pub(crate) in_flight: IntGauge,
    /// The memory that clients hold, in bytes.
    pub(crate) client_memory: IntGauge,
    /// Connections to shards.
    pub(crate) links: IntGauge,
    /// Shards that are ejected now.
    pub(crate) ejected: IntGauge,
}

/// The reason why requests pass a shard by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ejection {
    /// It cannot be connected to, or it disappeared while it drained.
    Unreachable,
    /// It has a connection and sends nothing.
    Silent,
}

impl Ejection {
    const ALL: [Self; 2] = [Self::Unreachable, Self::Silent];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Silent => "silent",
        }
    }
}

/// The reason why a request is not sent to the shard that its Worker is pinned to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spill {
    /// The shard is known to be unavailable.
    Ejected,
    Draining,
    /// The shard has no capacity.
    Overloaded,
    /// The shard has failed this request.
    Failed,
}

impl Spill {
    const ALL: [Self; 4] = [Self::Ejected, Self::Draining, Self::Overloaded, Self::Failed];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Ejected => "ejected",
            Self::Draining => "draining",
            Self::Overloaded => "overloaded",
            Self::Failed => "failed",
        }
    }
}

impl Metrics {
    /// Creates and registers the metrics.
    ///
    /// # Errors
    /// Fails if the registry already has metrics of these names.
    pub(crate) fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let requests = Opts::new(
            "tenon_router_requests_total",
            "Requests by status class of the Worker's response, or by failure code.",
        );
        let duration = HistogramOpts::new(
            "tenon_router_request_duration_seconds",
            "Time from a request's head to the head of its response.",
        );
        let retries =
            Opts::new("tenon_router_retries_total", "Retries, by the reason why the previous attempt failed.");
        let carried = Opts::new("tenon_router_tunnel_bytes_total", "Bytes carried by WebSockets, by destination.");
        let spills =
            Opts::new("tenon_router_spills_total", "Requests sent to another shard than their Worker's, by reason.");
        let moves = Opts::new(
            "tenon_router_moves_total",
            "Requests redirected within a node, by destination: a shard or a lane.",
        );
        let ejections = Opts::new(
            "tenon_router_ejections_total",
            "Ejections of shards and lanes by reason, counted once for each thread.",
        );
        let by_lane = Opts::new("tenon_router_lane_requests_total", "Completed requests by thread.");
        let gauge = |name, help| IntGaugeVec::new(Opts::new(name, help), &["lane"]);
        let metrics = Self {
            requests: IntCounterVec::new(requests, &["code"])?,
            by_lane: IntCounterVec::new(by_lane, &["lane"])?,
            duration: Histogram::with_opts(duration.buckets(BUCKETS.to_vec()))?,
            retries: IntCounterVec::new(retries, &["reason"])?,
            spills: IntCounterVec::new(spills, &["reason"])?,
            moves: IntCounterVec::new(moves, &["to"])?,
            ejections: IntCounterVec::new(ejections, &["reason"])?,
            carried: IntCounterVec::new(carried, &["to"])?,
            connections: gauge("tenon_router_connections", "Open HTTP connections.")?,
            in_flight: gauge("tenon_router_inflight", "Requests in flight.")?,
            client_memory: gauge("tenon_router_client_memory_bytes", "Memory charged to clients.")?,
            shed: IntCounter::new(
                "tenon_router_connections_shed_total",
                "Connections closed or refused because the memory for clients was exhausted.",
            )?,
            links: gauge("tenon_router_shard_connections", "Open connections to shards.")?,
            ejected: gauge("tenon_router_ejected_shards", "Shards and lanes that are ejected now.")?,
            tunnels: IntGauge::new("tenon_router_tunnels", "WebSockets that are open or being opened.")?,
            workers: IntGauge::new("tenon_router_workers", "Workers in the table.")?,
            routes: IntGauge::new("tenon_router_routes", "Routes in the table.")?,
            nodes: IntGauge::new("tenon_router_nodes", "Nodes in the table.")?,
            connected: IntGauge::new("tenon_router_catalog_connected", "1 while the catalog is watched, 0 otherwise.")?,
        };
        RETRIES.iter().for_each(|reason| _ = metrics.retries.with_label_values(&[reason]));
        Spill::ALL.iter().for_each(|why| _ = metrics.spills.with_label_values(&[why.as_str()]));
        MOVES.iter().for_each(|to| _ = metrics.moves.with_label_values(&[to]));
        Ejection::ALL.iter().for_each(|why| _ = metrics.ejections.with_label_values(&[why.as_str()]));
        registry.register(Box::new(metrics.requests.clone()))?;
        registry.register(Box::new(metrics.moves.clone()))?;
        registry.register(Box::new(metrics.duration.clone()))?;
        registry.register(Box::new(metrics.retries.clone()))?;
        registry.register(Box::new(metrics.carried.clone()))?;
        registry.register(Box::new(metrics.tunnels.clone()))?;
        registry.register(Box::new(metrics.ejections.clone()))?;
        registry.register(Box::new(metrics.shed.clone()))?;
        registry.register(Box::new(metrics.client_memory.clone()))?;
        registry.register(Box::new(metrics.spills.clone()))?;
        registry.register(Box::new(metrics.by_lane.clone()))?;
        for gauges in [&metrics.connections, &metrics.in_flight, &metrics.links, &metrics.ejected] {
            registry.register(Box::new(gauges.clone()))?;
        }
        for gauge in [&metrics.workers, &metrics.routes, &metrics.nodes, &metrics.connected] {
            registry.register(Box::new(gauge.clone()))?;
        }
        Ok(metrics)
    }

    pub(crate) fn gauges(&self, thread: &str) -> Gauges {
        let of = |family: &IntGaugeVec| family.with_label_values(&[thread]);
        Gauges {
            connections: of(&self.connections),
            in_flight: of(&self.in_flight),
            client_memory: of(&self.client_memory),
            links: of(&self.links),
            ejected: of(&self.ejected),
        }
    }

    /// Counts a retry.
    pub(crate) fn retry(&self, reason: &str) {
        self.retries.with_label_values(&[reason]).inc();
    }

    /// Counts a redirect within a node.
    pub(crate) fn moved(&self, to: &str) {
        self.moves.with_label_values(&[to]).inc();
    }

    /// Counts a shard that requests pass by from now on.
    pub(crate) fn ejected(&self, why: Ejection) {
        self.ejections.with_label_values(&[why.as_str()]).inc();
    }

    /// Counts a request that is not sent to its Worker's shard.
    pub(crate) fn spill(&self, why: Spill) {
        self.spills.with_label_values(&[why.as_str()]).inc();
    }
}

/// The result of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    Answered(StatusCode),
    Failed(FailureCode),
}

/// The direction of a tunnel's data.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    FromClient,
    ToClient,
}

/// The counters of one thread, flushed into the common ones.
pub(crate) struct Meters {
    counts: RefCell<Counts>,
    dirty: Cell<bool>,
}

struct Counts {
    /// Answered requests, by the first digit of the status.
    classes: [LocalIntCounter; 5],
    /// Failed requests, in the order of [`FailureCode::ALL`].
    failures: Vec<LocalIntCounter>,
    /// Tunnel bytes, in the order of [`Way`].
    carried: [LocalIntCounter; 2],
    duration: LocalHistogram,
    requests: LocalIntCounter,
}

impl Meters {
    pub(crate) fn new(metrics: &Metrics, thread: &str) -> Rc<Self> {
        let counter = |code: &str| metrics.requests.with_label_values(&[code]).local();
        let counts = Counts {
            classes: ["1xx", "2xx", "3xx", "4xx", "5xx"].map(counter),
            failures: FailureCode::ALL.iter().map(|code| counter(code.as_str())).collect(),
            carried: ["node", "client"].map(|to| metrics.carried.with_label_values(&[to]).local()),
            duration: metrics.duration.local(),
            requests: metrics.by_lane.with_label_values(&[thread]).local(),
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
        counts.requests.inc();
        self.flush_soon();
    }

    /// Counts bytes of a tunnel.
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
        counts.requests.flush();
    }
}
