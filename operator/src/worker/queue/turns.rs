//! The waiting and running keys of a queue, and whose turn is next. This module is pure.
//!
//! ```text
//!  tenant ─┬─ author ─── queue: oldest │ … │ newest
//!          └─ author ─── queue                 ▲
//!  tenant ─── author ─── queue                 └─ three of four turns
//! ```
//!
//! Tenants take turns, and so do the authors within a tenant: a program that imports thousands of
//! Workers delays neither other namespaces, nor other authors in its namespace. Within a queue, the
//! newest change is served first, as in adaptive LIFO: a person waits for the change that was just
//! made, and an order by age alone would make each change wait for the whole backlog. Every fourth
//! turn goes to the key that has waited the longest, so a queue with constant changes still works
//! off its backlog: the n-th oldest key is served within 4n turns of its queue, however often the
//! author touches it or the others.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{PER_TENANT, Tenanted, backoff};

/// Of this many turns of a queue, one goes to the oldest key.
const OLDEST_EVERY: u32 = 4;

/// The origin of a change, such as a field manager. It is no proof of identity: a tenant may name
/// as many authors as it likes, but they delay only that tenant.
pub type Author = Arc<str>;

/// The order in which the keys of a queue are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    OldestFirst,
    /// The newest key first, but every fourth turn goes to the oldest key.
    NewestFirst,
}

/// The waiting and running keys, and the number of failures of each.
pub(super) struct Queue<K> {
    order: Order,
    tenants: Rotation<Tenant<K>>,
    waiting: HashMap<K, Waiting>,
    running: HashSet<K>,
    /// Number of running keys of each tenant.
    shares: HashMap<Box<str>, usize>,
    /// Keys that were touched while they ran.
    again: HashMap<K, Author>,
    failures: HashMap<K, u32>,
    /// Number of touches so far.
    touches: u64,
}

/// A waiting key's place in its queue.
struct Waiting {
    author: Author,
    /// Numbers of the first and of the latest touch.
    first: u64,
    latest: u64,
    since: Instant,
}

/// The queues of one tenant that have waiting keys.
type Tenant<K> = Rotation<AuthorQueue<K>>;

/// The waiting keys of one author in one tenant.
struct AuthorQueue<K> {
    /// Keys by their first touch since they began to wait.
    by_first: BTreeMap<u64, K>,
    /// Keys by their latest touch.
    by_latest: BTreeMap<u64, K>,
    /// Number of turns so far.
    turns: u32,
}

/// Members that take turns.
struct Rotation<T> {
    order: VecDeque<Arc<str>>,
    members: HashMap<Arc<str>, T>,
}

impl<T> Default for Rotation<T> {
    fn default() -> Self {
        Self { order: VecDeque::new(), members: HashMap::new() }
    }
}

impl<T> Rotation<T> {
    /// Returns the member of this name. A new member gets its turn after all others.
    fn entry(&mut self, name: &str, new: impl FnOnce() -> T) -> &mut T {
        if !self.members.contains_key(name) {
            let name: Arc<str> = name.into();
            self.order.push_back(name.clone());
            self.members.insert(name, new());
        }
        self.members.get_mut(name).expect("the member has been inserted")
    }

    /// Gives a turn to the first member for which `may` holds. The member is removed if `take`
    /// returns that it is finished, and otherwise gets its next turn after all others.
    fn turn<R>(
        &mut self,
        may: impl Fn(&str) -> bool,
        take: impl FnOnce(&mut T) -> (R, bool),
    ) -> Option<R> {
        let at = self.order.iter().position(|name| may(name))?;
        let name = self.order.remove(at)?;
        let (result, is_finished) = take(self.members.get_mut(&name)?);
        if is_finished {
            self.members.remove(&name);
        } else {
            self.order.push_back(name);
        }
        Some(result)
    }

    fn remove(&mut self, name: &str) {
        self.members.remove(name);
        self.order.retain(|other| &**other != name);
    }

    fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}

impl<K> Default for AuthorQueue<K> {
    fn default() -> Self {
        Self { by_first: BTreeMap::new(), by_latest: BTreeMap::new(), turns: 0 }
    }
}

impl<K: Clone> AuthorQueue<K> {
    fn insert(&mut self, key: &K, waiting: &Waiting) {
        self.by_first.insert(waiting.first, key.clone());
        self.by_latest.insert(waiting.latest, key.clone());
    }

    fn remove(&mut self, waiting: &Waiting) {
        self.by_first.remove(&waiting.first);
        self.by_latest.remove(&waiting.latest);
    }

    /// Returns the key whose turn it is, and leaves it in the queue.
    fn turn(&mut self, order: Order) -> Option<K> {
        self.turns = self.turns.wrapping_add(1);
        let is_oldest = order == Order::OldestFirst || self.turns.is_multiple_of(OLDEST_EVERY);
        let found = if is_oldest {
            self.by_first.first_key_value()
        } else {
            self.by_latest.last_key_value()
        };
        found.map(|(_, key)| key.clone())
    }

    fn is_empty(&self) -> bool {
        self.by_first.is_empty()
    }
}

impl<K: Tenanted + Clone + Eq + Hash> Queue<K> {
    pub(super) fn new(order: Order) -> Self {
        Self {
            order,
            tenants: Rotation::default(),
            waiting: HashMap::new(),
            running: HashSet::new(),
            shares: HashMap::new(),
            again: HashMap::new(),
            failures: HashMap::new(),
            touches: 0,
        }
    }

    /// Returns the number of waiting keys.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Queues a key. A key that already waits keeps its place among the oldest, and becomes the
    /// newest. A key that runs is queued when it ends.
    ///
    /// # Arguments
    /// * `author` - the author of the change, whose queue the key joins.
    pub(super) fn touch(&mut self, key: K, author: Author, now: Instant) {
        if self.running.contains(&key) {
            self.again.insert(key, author);
            return;
        }
        self.touches += 1;
        let (mut first, latest, mut since) = (self.touches, self.touches, now);
        // Neither the tenant nor the author's queue is removed in between, so neither loses its
        // turn.
        let queues = self.tenants.entry(key.tenant(), Rotation::default);
        queues.entry(&author, AuthorQueue::default);
        if let Some(before) = self.waiting.remove(&key) {
            (first, since) = (before.first, before.since);
            let queue = queues.entry(&before.author, AuthorQueue::default);
            queue.remove(&before);
            if queue.is_empty() && before.author != author {
                queues.remove(&before.author);
            }
        }
        let waiting = Waiting { author, first, latest, since };
        queues.entry(&waiting.author, AuthorQueue::default).insert(&key, &waiting);
        self.waiting.insert(key, waiting);
    }

    /// Returns the key to work on next, which runs from now on, and the time that it has waited.
    pub(super) fn next(&mut self, now: Instant) -> Option<(K, Duration)> {
        let (order, shares) = (self.order, &self.shares);
        let has_room = |tenant: &str| shares.get(tenant).is_none_or(|share| *share < PER_TENANT);
        let waiting = &mut self.waiting;
        let found = self.tenants.turn(has_room, |queues| {
            let taken = queues.turn(
                |_| true,
                |queue| {
                    let taken = queue.turn(order).and_then(|key| waiting.remove_entry(&key));
                    taken.iter().for_each(|(_, place)| queue.remove(place));
                    (taken, queue.is_empty())
                },
            );
            (taken.flatten(), queues.is_empty())
        });
        let (key, Waiting { since, .. }) = found.flatten()?;
        *self.shares.entry(key.tenant().into()).or_default() += 1;
        self.running.insert(key.clone());
        Some((key, now.saturating_duration_since(since)))
    }

    /// Records the end of a run. Returns the delay of the retry, if the run failed.
    pub(super) fn end(&mut self, key: &K, succeeded: bool, now: Instant) -> Option<Duration> {
        if self.running.remove(key)
            && let Some(share) = self.shares.get_mut(key.tenant())
        {
            *share -= 1;
            if *share == 0 {
                self.shares.remove(key.tenant());
            }
        }
        if let Some(author) = self.again.remove(key) {
            self.touch(key.clone(), author, now);
        }
        if succeeded {
            self.failures.remove(key);
            return None;
        }
        let failures = self.failures.entry(key.clone()).or_insert(0);
        *failures += 1;
        Some(backoff(*failures))
    }

    pub(super) fn forget_waiting(&mut self) {
        self.tenants = Rotation::default();
        self.waiting.clear();
        self.again.clear();
    }
}

#[cfg(test)]
mod tests;
