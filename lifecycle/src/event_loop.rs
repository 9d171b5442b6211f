//! Measures the load of the event loops of a process. Each loop is a thread with a runtime of its
//! own, and runs one task at a time.
//!
//! ```text
//!  the runtime itself: wakes ──── busy ──── parks          read when metrics are gathered
//!  a probe task:       due ── lag ──► runs                 sampled four times a second
//! ```

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{CounterVec, Histogram, HistogramOpts, HistogramVec, Opts, Registry};
use tokio::runtime::{Handle, RuntimeMetrics};
use tokio::time::{Instant, sleep_until};

use crate::process::advance;

/// Interval between two samples of the lag.
const INTERVAL: Duration = Duration::from_millis(250);

/// Granularity of tokio's timers, which is the maximum delay of a timer on an idle loop.
const TIMER: Duration = Duration::from_millis(1);

/// Bucket boundaries, in seconds.
const LAG_BUCKETS: [f64; 10] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0, 5.0];

/// Names of the metrics and of their label.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    /// Name of the counter of busy seconds.
    pub busy: &'static str,
    /// Name of the histogram of delays, in seconds.
    pub lag: &'static str,
    /// Name of the label that identifies a loop.
    pub label: &'static str,
}

/// The event loops of a process.
#[derive(Clone)]
pub struct EventLoops {
    loops: Arc<Mutex<Vec<Loop>>>,
    lag: HistogramVec,
}

struct Loop {
    name: String,
    metrics: RuntimeMetrics,
}

impl EventLoops {
    /// Registers the metrics.
    ///
    /// # Errors
    /// Fails if the registry already has metrics of these names.
    pub fn register(registry: &Registry, names: Names) -> prometheus::Result<Self> {
        let busy = Opts::new(names.busy, "Time that the thread has spent running tasks.");
        let busy = CounterVec::new(busy, &[names.label])?;
        let lag =
            HistogramOpts::new(names.lag, "Delay of a due task, sampled four times a second.");
        let lag = HistogramVec::new(lag.buckets(LAG_BUCKETS.to_vec()), &[names.label])?;
        let loops = Arc::default();
        registry.register(Box::new(Busy { busy, loops: Arc::clone(&loops) }))?;
        registry.register(Box::new(lag.clone()))?;
        Ok(Self { loops, lag })
    }

    /// Adds the current thread's event loop to the metrics. The returned future samples the loop's
    /// lag; the caller must run this future on that loop, forever.
    ///
    /// # Panics
    /// Panics outside of a runtime.
    pub fn watch(&self, name: &str) -> impl Future<Output = ()> + use<> {
        let metrics = Handle::current().metrics();
        // Each change of the list is one call, so a panic cannot leave the list half changed.
        let mut loops = self.loops.lock().unwrap_or_else(PoisonError::into_inner);
        loops.push(Loop { name: name.to_owned(), metrics });
        observe_lag(self.lag.with_label_values(&[name]))
    }
}

async fn observe_lag(lag: Histogram) {
    loop {
        let deadline = Instant::now() + INTERVAL;
        sleep_until(deadline).await;
        lag.observe(deadline.elapsed().saturating_sub(TIMER).as_secs_f64());
    }
}

/// Exposes the busy time that the runtimes count.
struct Busy {
    busy: CounterVec,
    loops: Arc<Mutex<Vec<Loop>>>,
}

impl Collector for Busy {
    fn desc(&self) -> Vec<&Desc> {
        self.busy.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        for Loop { name, metrics } in &*self.loops.lock().unwrap_or_else(PoisonError::into_inner) {
            // Each runtime has only this one worker thread.
            let busy = metrics.worker_total_busy_duration(0).as_secs_f64();
            advance(&self.busy.with_label_values(&[name.as_str()]), busy);
        }
        self.busy.collect()
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::{LocalSet, spawn_local, yield_now};

    use super::*;

    const NAMES: Names = Names { busy: "busy_seconds_total", lag: "lag_seconds", label: "loop" };

    fn busy(registry: &Registry) -> f64 {
        let families = registry.gather();
        let family = families
            .iter()
            .find(|family| family.name() == NAMES.busy)
            .expect("the family is not registered");
        family.get_metric().iter().map(|metric| metric.get_counter().get_value()).sum()
    }

    /// Runs a test on an event loop that is set up like that of a shard.
    fn run(test: impl AsyncFnOnce(&Registry, &EventLoops)) {
        let registry = Registry::new();
        let loops = EventLoops::register(&registry, NAMES).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            spawn_local(loops.watch("one"));
            test(&registry, &loops).await;
        });
    }

    #[test]
    fn a_loop_is_idle_while_it_waits_and_busy_while_it_runs_tasks() {
        run(async |registry, _| {
            let pause = Duration::from_millis(50);
            let began = Instant::now();
            // On a busy machine, other processes may interfere with the first few tries.
            let is_idle = loop {
                let before = busy(registry);
                tokio::time::sleep(pause).await;
                if busy(registry) - before < pause.as_secs_f64() / 10.0 {
                    break true;
                }
                if began.elapsed() > Duration::from_secs(10) {
                    break false;
                }
            };
            assert!(is_idle, "the loop was never idle within 10 s");
            let before = busy(registry);
            let began = Instant::now();
            while began.elapsed() < Duration::from_millis(500) {
                let resumed = Instant::now();
                while resumed.elapsed() < Duration::from_millis(2) {
                    std::hint::spin_loop();
                }
                yield_now().await;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
            let increase = busy(registry) - before;
            assert!((0.4..5.0).contains(&increase), "busy for {increase} s");
        });
    }

    #[test]
    fn a_task_that_does_not_yield_makes_the_loop_lag() {
        run(async |_, loops| {
            let lag = loops.lag.with_label_values(&["one"]);
            // Wait for the first sample, then delay the second.
            while lag.get_sample_count() == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let (count, before) = (lag.get_sample_count(), lag.get_sample_sum());
            std::thread::sleep(INTERVAL + Duration::from_millis(200));
            while lag.get_sample_count() == count {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let increase = lag.get_sample_sum() - before;
            assert!((0.15..5.0).contains(&increase), "lagged by {increase} s");
        });
    }
}
