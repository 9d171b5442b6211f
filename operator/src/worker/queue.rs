//! The work queue. Each key, such as a Worker, is queued at most once and runs at most once at a
//! time. Failed work is retried with exponential backoff, and finished work is repeated after the
//! delay that it names, if it names one.
//!
//! Tenants take turns, and the number of running keys of each tenant is limited. A tenant with
//! thousands of Workers, or with Workers that are slow to compile, delays only its own Workers.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt::Display;
use std::hash::Hash;
use std::time::Duration;

use prometheus::{IntGauge, IntGaugeVec, Registry};
use tenon_lifecycle::metrics::Register as _;
use tenon_proto::id::WorkerId;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_stream::StreamExt;
use tokio_util::time::{DelayQueue, delay_queue};

/// Delay of the first retry. The delay doubles with each further failure.
const FIRST_RETRY: Duration = Duration::from_millis(200);
/// Maximum delay of a retry.
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// Maximum number of running keys. Most of these keys wait for a permit to compile or to write, of
/// which there are fewer.
const CONCURRENCY: usize = 256;
/// Maximum number of running keys of one tenant.
const PER_TENANT: usize = 16;

/// Gauges of a queue's depth.
#[derive(Clone)]
pub struct QueueGauges {
    pub waiting: IntGauge,
    pub running: IntGauge,
    /// Number of keys that have failed and will be retried.
    pub retrying: IntGauge,
}

impl QueueGauges {
    /// Registers the family of the gauges of all queues.
    ///
    /// # Errors
    /// Fails if the registry already has this family.
    pub fn register(registry: &Registry) -> prometheus::Result<IntGaugeVec> {
        registry.gauges(
            "tenon_operator_queue_depth",
            "Items in the work queues, by queue and state.",
            &["queue", "state"],
        )
    }

    /// Returns the gauges of a queue from the family.
    pub fn of(family: &IntGaugeVec, queue: &str) -> Self {
        let of = |state| family.with_label_values(&[queue, state]);
        Self { waiting: of("waiting"), running: of("running"), retrying: of("retrying") }
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
/// * `gauges` - the queue's metrics.
pub async fn run<K, E, Work, Done>(
    mut touched_rx: mpsc::UnboundedReceiver<K>,
    mut leading_rx: watch::Receiver<bool>,
    all: impl Fn() -> Vec<K>,
    work: Work,
    gauges: QueueGauges,
) where
    K: Tenanted + Clone + Eq + Hash + Display + Send + 'static,
    E: Display + Send + 'static,
    Work: Fn(K) -> Done,
    Done: Future<Output = Result<Option<Duration>, E>> + Send + 'static,
{
    let mut queue = Queue::<K>::default();
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
                all().into_iter().for_each(|key| queue.touch(key));
            }
        }
        while leads && running.len() < CONCURRENCY {
            let Some(key) = queue.next() else { break };
            let done = work(key.clone());
            running.spawn(async move { (key, done.await) });
        }
        gauges.waiting.set(queue.waiting.len() as i64);
        gauges.running.set(running.len() as i64);
        gauges.retrying.set(retries.by_key.len() as i64);
        tokio::select! {
            key = touched_rx.recv() => match key {
                Some(key) if leads => queue.touch(key),
                // All keys are queued when this replica begins to lead.
                Some(_) => {}
                None => return,
            },
            Some(key) = retries.next() => queue.touch(key),
            Some(key) = repetitions.next() => queue.touch(key),
            Some(ended) = running.join_next() => {
                let (key, result) = ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
                if let Err(error) = &result {
                    tracing::warn!(%key, %error, "cannot reconcile; retrying");
                }
                let retry = queue.end(&key, result.is_ok());
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

/// The waiting and running keys, and the number of failures of each. This type is pure.
struct Queue<K> {
    /// Tenants with waiting keys, in the order of their turns.
    turns: VecDeque<Box<str>>,
    tenants: HashMap<Box<str>, Tenant<K>>,
    waiting: HashSet<K>,
    running: HashSet<K>,
    /// Keys that were touched while they ran.
    again: HashSet<K>,
    failures: HashMap<K, u32>,
}

/// The state of one tenant.
struct Tenant<K> {
    order: VecDeque<K>,
    running: usize,
}

impl<K> Default for Tenant<K> {
    fn default() -> Self {
        Self { order: VecDeque::new(), running: 0 }
    }
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        Self {
            turns: VecDeque::new(),
            tenants: HashMap::new(),
            waiting: HashSet::new(),
            running: HashSet::new(),
            again: HashSet::new(),
            failures: HashMap::new(),
        }
    }
}

impl<K: Tenanted + Clone + Eq + Hash> Queue<K> {
    fn touch(&mut self, key: K) {
        if self.running.contains(&key) {
            self.again.insert(key);
        } else if self.waiting.insert(key.clone()) {
            let tenant = self.tenants.entry(key.tenant().into()).or_default();
            if tenant.order.is_empty() {
                self.turns.push_back(key.tenant().into());
            }
            tenant.order.push_back(key);
        }
    }

    fn next(&mut self) -> Option<K> {
        let at = self.turns.iter().position(|name| {
            self.tenants.get(name).is_some_and(|tenant| tenant.running < PER_TENANT)
        })?;
        let name = self.turns.remove(at)?;
        let tenant = self.tenants.get_mut(&name)?;
        let key = tenant.order.pop_front()?;
        tenant.running += 1;
        if !tenant.order.is_empty() {
            self.turns.push_back(name);
        }
        self.waiting.remove(&key);
        self.running.insert(key.clone());
        Some(key)
    }

    /// Records the end of a run. Returns the delay of the retry, if the run failed.
    fn end(&mut self, key: &K, succeeded: bool) -> Option<Duration> {
        if self.running.remove(key)
            && let Some(tenant) = self.tenants.get_mut(key.tenant())
        {
            tenant.running -= 1;
            if tenant.running == 0 && tenant.order.is_empty() {
                self.tenants.remove(key.tenant());
            }
        }
        if self.again.remove(key) {
            self.touch(key.clone());
        }
        if succeeded {
            self.failures.remove(key);
            return None;
        }
        let failures = self.failures.entry(key.clone()).or_insert(0);
        *failures += 1;
        Some(backoff(*failures))
    }

    fn forget_waiting(&mut self) {
        self.turns.clear();
        self.tenants.retain(|_, tenant| {
            tenant.order.clear();
            tenant.running > 0
        });
        self.waiting.clear();
        self.again.clear();
    }
}

#[cfg(test)]
mod tests;
