//! The work queue. Each key, such as a Worker, is queued at most once and runs at most once at a
//! time. Failed work is retried with exponential backoff, and finished work is repeated after the
//! delay that it names, if it names one.
//!
//! Tenants take turns, and the number of running keys of each tenant is limited. A tenant with
//! thousands of Workers, or with Workers that are slow to compile, delays only its own Workers.
//! [`turns`] decides which key is next.

mod turns;

use std::collections::HashMap;
use std::fmt::Display;
use std::hash::Hash;
use std::time::{Duration, Instant};

use prometheus::{Histogram, HistogramVec, IntGauge, IntGaugeVec, Registry};
use tenon_lifecycle::metrics::Register as _;
use tenon_proto::id::WorkerId;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_stream::StreamExt;
use tokio_util::time::{DelayQueue, delay_queue};

use turns::Queue;
pub use turns::{Author, Order};

/// Delay of the first retry. The delay doubles with each further failure.
const FIRST_RETRY: Duration = Duration::from_millis(200);
/// Maximum delay of a retry.
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// Maximum number of running keys. Most of these keys wait for a permit to compile or to write, of
/// which there are fewer.
const CONCURRENCY: usize = 256;
/// Maximum number of running keys of one tenant.
const PER_TENANT: usize = 16;

/// Bucket boundaries in seconds of the time that a key waits. A change that is alone waits for
/// less than a millisecond, and the oldest key of an import may wait for minutes.
const WAIT_BUCKETS: &[f64] = &[0.001, 0.01, 0.1, 0.5, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0];

/// The families of the metrics of all queues.
pub struct QueueFamilies {
    depth: IntGaugeVec,
    wait: HistogramVec,
}

/// The metrics of a queue.
#[derive(Clone)]
pub struct QueueMetrics {
    pub waiting: IntGauge,
    pub running: IntGauge,
    /// Number of keys that have failed and will be retried.
    pub retrying: IntGauge,
    /// The time that each key waited.
    pub wait: Histogram,
}

impl QueueFamilies {
    /// Registers the families.
    ///
    /// # Errors
    /// Fails if the registry already has these families.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            depth: registry.gauges(
                "tenon_operator_queue_depth",
                "Items in the work queues, by queue and state.",
                &["queue", "state"],
            )?,
            wait: registry.histograms(
                "tenon_operator_queue_wait_duration_seconds",
                "Time that items waited in the work queues, by queue.",
                WAIT_BUCKETS,
                &["queue"],
            )?,
        })
    }

    /// Returns the metrics of the queue with this name.
    pub fn of(&self, queue: &str) -> QueueMetrics {
        let of = |state| self.depth.with_label_values(&[queue, state]);
        let wait = self.wait.with_label_values(&[queue]);
        QueueMetrics {
            waiting: of("waiting"),
            running: of("running"),
            retrying: of("retrying"),
            wait,
        }
    }
}

/// Returns the delay of a retry after a number of consecutive failures.
pub fn backoff(failures: u32) -> Duration {
    FIRST_RETRY.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(LONGEST_RETRY)
}

/// A key that belongs to a tenant.
pub trait Tenanted {
    fn tenant(&self) -> &str;
}

impl Tenanted for WorkerId {
    fn tenant(&self) -> &str {
        self.namespace()
    }
}

/// Works on touched keys while this replica leads, until `touched_rx` or `leading_rx` is closed.
///
/// # Arguments
/// * `touched_rx` - the keys to work on.
/// * `leading_rx` - whether this replica leads.
/// * `all` - a function that returns the keys to queue when this replica becomes the leader.
/// * `work` - a function that performs the work of one key, and returns the delay after which the
///   key is due again, if time alone makes it due. It never runs concurrently for the same key.
/// * `order` - the order of the keys of one author.
/// * `author` - a function that returns the author of a key's latest change.
/// * `metrics` - the queue's metrics.
pub async fn run<K, E, Work, Done>(
    mut touched_rx: mpsc::UnboundedReceiver<K>,
    mut leading_rx: watch::Receiver<bool>,
    all: impl Fn() -> Vec<K>,
    work: Work,
    order: Order,
    author: impl Fn(&K) -> Author,
    metrics: QueueMetrics,
) where
    K: Tenanted + Clone + Eq + Hash + Display + Send + 'static,
    E: Display + Send + 'static,
    Work: Fn(K) -> Done,
    Done: Future<Output = Result<Option<Duration>, E>> + Send + 'static,
{
    let mut queue = Queue::<K>::new(order);
    let touch = |queue: &mut Queue<K>, key: K| {
        let author = author(&key);
        queue.touch(key, author, Instant::now());
    };
    let mut running = JoinSet::new();
    let (mut retries, mut repetitions) = (Timers::default(), Timers::default());
    let mut led = false;
    loop {
        let leads = *leading_rx.borrow_and_update();
        if leads != led {
            led = leads;
            queue.forget_waiting();
            retries.clear();
            repetitions.clear();
            if leads {
                all().into_iter().for_each(|key| touch(&mut queue, key));
            }
        }
        while leads && running.len() < CONCURRENCY {
            let Some((key, waited)) = queue.next(Instant::now()) else { break };
            metrics.wait.observe(waited.as_secs_f64());
            let done = work(key.clone());
            running.spawn(async move { (key, done.await) });
        }
        metrics.waiting.set(queue.len() as i64);
        metrics.running.set(running.len() as i64);
        metrics.retrying.set(retries.by_key.len() as i64);
        tokio::select! {
            key = touched_rx.recv() => match key {
                Some(key) if leads => touch(&mut queue, key),
                // All keys are queued when this replica begins to lead.
                Some(_) => {}
                None => return,
            },
            Some(key) = retries.next() => touch(&mut queue, key),
            Some(key) = repetitions.next() => touch(&mut queue, key),
            Some(ended) = running.join_next() => {
                let (key, result) =
                    ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
                if let Err(error) = &result {
                    tracing::warn!(%key, %error, "cannot reconcile; retrying");
                }
                let retry = queue.end(&key, result.is_ok(), Instant::now());
                retries.set(&key, retry.filter(|_| leads));
                repetitions.set(&key, result.ok().flatten().filter(|_| leads));
            },
            changed = leading_rx.changed() => if changed.is_err() {
                return;
            },
        }
    }
}

/// Timers of keys, at most one for each key.
struct Timers<K> {
    timers: DelayQueue<K>,
    by_key: HashMap<K, delay_queue::Key>,
}

impl<K> Default for Timers<K> {
    fn default() -> Self {
        Self { timers: DelayQueue::new(), by_key: HashMap::new() }
    }
}

impl<K: Clone + Eq + Hash> Timers<K> {
    /// Sets, replaces or removes the timer of a key that was worked on.
    fn set(&mut self, key: &K, delay: Option<Duration>) {
        match (self.by_key.get(key), delay) {
            (Some(timer), Some(delay)) => self.timers.reset(timer, delay),
            (None, Some(delay)) => {
                self.by_key.insert(key.clone(), self.timers.insert(key.clone(), delay));
            }
            (Some(timer), None) => {
                self.timers.remove(timer);
                self.by_key.remove(key);
            }
            (None, None) => {}
        }
    }

    fn clear(&mut self) {
        self.timers.clear();
        self.by_key.clear();
    }

    /// Waits for the first timer to expire, and returns its key. Returns `None` if there are no
    /// timers.
    async fn next(&mut self) -> Option<K> {
        let key = self.timers.next().await?.into_inner();
        self.by_key.remove(&key);
        Some(key)
    }
}

#[cfg(test)]
mod tests;
