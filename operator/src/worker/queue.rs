//! The work queue: each Worker at most once waiting and at most once running; what failed is tried again, later
//! each time.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt::Display;
use std::hash::Hash;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_stream::StreamExt;
use tokio_util::time::DelayQueue;

/// How long the first retry waits, and the longest. Doubled with each failure.
const FIRST_RETRY: Duration = Duration::from_millis(200);
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// How many are worked on at once: enough to hide the API server's latency, few enough not to press it.
const CONCURRENCY: usize = 16;

/// Works on what is touched for as long as there may be more, while this replica leads.
///
/// # Arguments
/// * `touched_rx` - what is to be worked on.
/// * `leading_rx` - whether this replica may write. When it begins to, `all` is worked on.
/// * `work` - one piece of work. Two of one key never run at once.
pub async fn run<K, E, Work, Done>(
    mut touched_rx: mpsc::UnboundedReceiver<K>,
    mut leading_rx: watch::Receiver<bool>,
    all: impl Fn() -> Vec<K>,
    work: Work,
) where
    K: Clone + Eq + Hash + Display + Send + 'static,
    E: Display + Send + 'static,
    Work: Fn(K) -> Done,
    Done: Future<Output = Result<(), E>> + Send + 'static,
{
    let mut queue = Queue::<K>::default();
    let mut running = JoinSet::new();
    let mut retries = DelayQueue::new();
    loop {
        let leads = *leading_rx.borrow_and_update();
        while leads && running.len() < CONCURRENCY {
            let Some(key) = queue.next() else { break };
            let done = work(key.clone());
            running.spawn(async move { (key, done.await) });
        }
        tokio::select! {
            key = touched_rx.recv() => match key {
                Some(key) => queue.touch(key),
                None => return,
            },
            Some(key) = retries.next() => queue.touch(key.into_inner()),
            Some(ended) = running.join_next() => {
                let (key, result) = ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
                if let Err(error) = &result {
                    tracing::warn!(%key, %error, "cannot reconcile; trying again");
                }
                if let Some(delay) = queue.ended(&key, result.is_ok()) {
                    retries.insert(key, delay);
                }
            },
            changed = leading_rx.changed() => match changed {
                Ok(()) if *leading_rx.borrow() => all().into_iter().for_each(|key| queue.touch(key)),
                Ok(()) => queue.forget_waiting(),
                Err(_) => return,
            },
        }
    }
}

/// Who waits, who runs, and how often each has failed. Pure.
struct Queue<K> {
    order: VecDeque<K>,
    waiting: HashSet<K>,
    running: HashSet<K>,
    /// Touched while they ran.
    again: HashSet<K>,
    failures: HashMap<K, u32>,
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        Self {
            order: VecDeque::new(),
            waiting: HashSet::new(),
            running: HashSet::new(),
            again: HashSet::new(),
            failures: HashMap::new(),
        }
    }
}

impl<K: Clone + Eq + Hash> Queue<K> {
    fn touch(&mut self, key: K) {
        if self.running.contains(&key) {
            self.again.insert(key);
        } else if self.waiting.insert(key.clone()) {
            self.order.push_back(key);
        }
    }

    fn next(&mut self) -> Option<K> {
        let key = self.order.pop_front()?;
        self.waiting.remove(&key);
        self.running.insert(key.clone());
        Some(key)
    }

    /// How long to wait before the next attempt, if there must be one.
    fn ended(&mut self, key: &K, well: bool) -> Option<Duration> {
        self.running.remove(key);
        if self.again.remove(key) {
            self.touch(key.clone());
        }
        if well {
            self.failures.remove(key);
            return None;
        }
        let failures = self.failures.entry(key.clone()).or_insert(0);
        *failures += 1;
        Some(FIRST_RETRY.saturating_mul(1 << (*failures - 1).min(16)).min(LONGEST_RETRY))
    }

    fn forget_waiting(&mut self) {
        self.order.clear();
        self.waiting.clear();
        self.again.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_waits_once_however_often_it_is_touched() {
        let mut queue = Queue::default();
        queue.touch("a");
        queue.touch("b");
        queue.touch("a");
        assert_eq!([queue.next(), queue.next(), queue.next()], [Some("a"), Some("b"), None]);
    }

    #[test]
    fn one_touched_while_it_runs_runs_once_more_and_not_at_the_same_time() {
        let mut queue = Queue::default();
        queue.touch("a");
        queue.next();
        queue.touch("a");
        queue.touch("a");
        assert_eq!(queue.next(), None);
        assert_eq!(queue.ended(&"a", true), None);
        assert_eq!([queue.next(), queue.next()], [Some("a"), None]);
    }

    #[test]
    fn what_keeps_failing_is_tried_less_and_less_up_to_a_minute() {
        let mut queue = Queue::default();
        let delays: Vec<_> = (0..20).map(|_| queue.ended(&"a", false).unwrap()).collect();
        assert_eq!(delays[0], FIRST_RETRY);
        assert_eq!(delays[1], FIRST_RETRY * 2);
        assert_eq!(delays[19], LONGEST_RETRY);
        assert_eq!(queue.ended(&"a", true), None);
        assert_eq!(queue.ended(&"a", false), Some(FIRST_RETRY));
    }
}
