//! The news about Workers that is not in their status yet. Pure, and bounded however many reports
//! arrive and however long the API server is unavailable.

use std::collections::HashMap;
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use tenon_crds::{Quarantine, QuarantineCause};
use tenon_proto::id::WorkerId;

use super::News;
use super::verdict::{Said, Told, longer, whole_seconds};
use crate::catalog::{Cause, Heard, Word};

/// Maximum number of Workers with news. News about others is dropped; nodes report again.
const WORKERS: usize = 10_000;

/// Maximum number of nodes with news about one Worker, several times as many as its status can
/// name.
const NODES: usize = 64;

#[derive(Default)]
pub struct Backlog {
    news: HashMap<WorkerId, News>,
}

impl Backlog {
    /// Adds a node's report. Returns whether there was room.
    pub fn hear(&mut self, heard: Heard, now: Timestamp) -> bool {
        let Heard { worker, revision, node, word } = heard;
        if !self.has_room(&worker) {
            return false;
        }
        let news = self.news.entry(worker).or_default();
        let crash_loop = match word {
            Word::Recovered => None,
            Word::CrashLoop { code, failures, age, place } => {
                Some(Told { code, failures, place, since: now.checked_sub(signed(age)).unwrap_or(now) })
            }
            Word::Quarantined { cause, duration, times } => {
                let until = now.checked_add(signed(duration)).unwrap_or(now);
                let cause = match cause {
                    Cause::Crashed => QuarantineCause::Crashed,
                    Cause::Hung => QuarantineCause::Hung,
                };
                let times = i32::try_from(times).unwrap_or(i32::MAX);
                let (since, until) = (whole_seconds(now), whole_seconds(until));
                news.add(Quarantine { revision, cause, node, times, since, until });
                return true;
            }
        };
        if news.said.len() >= NODES && !news.said.contains_key(&node) {
            return false;
        }
        news.said.insert(node, Said { revision, crash_loop });
        true
    }

    /// Discards all earlier news about the Worker.
    pub fn redeployed(&mut self, worker: &WorkerId, now: Timestamp) {
        if self.has_room(worker) {
            self.news.insert(worker.clone(), News { redeployed_at: Some(now), ..News::default() });
        }
    }

    pub fn take(&mut self, worker: &WorkerId) -> News {
        self.news.remove(worker).unwrap_or_default()
    }

    /// Puts back news that could not be written. Newer news takes precedence.
    pub fn put_back(&mut self, worker: WorkerId, older: News) {
        if !self.has_room(&worker) {
            return;
        }
        let news = self.news.entry(worker).or_default();
        if news.redeployed_at.is_some() {
            return;
        }
        news.redeployed_at = older.redeployed_at;
        for (node, said) in older.said {
            news.said.entry(node).or_insert(said);
        }
        if let Some(newer) = news.quarantine.take() {
            news.quarantine = older.quarantine;
            news.add(newer);
        } else {
            news.quarantine = older.quarantine;
        }
    }

    fn has_room(&self, worker: &WorkerId) -> bool {
        self.news.len() < WORKERS || self.news.contains_key(worker)
    }
}

impl News {
    /// Adds a quarantine. It replaces one of another revision, because only reports about the
    /// serving revision are accepted.
    fn add(&mut self, told: Quarantine) {
        self.quarantine = Some(match self.quarantine.take() {
            Some(known) if known.revision == told.revision => longer(known, told),
            _ => told,
        });
    }
}

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

#[cfg(test)]
mod tests {
    use tenon_proto::failure::FailureCode;

    use super::*;

    fn heard(worker: &str, node: &str, word: Word) -> Heard {
        let worker = WorkerId::new("shop", worker);
        Heard { worker, revision: "cart-1".to_owned(), node: node.to_owned(), word }
    }

    fn crash_loop(seconds: u64) -> Word {
        Word::CrashLoop { code: FailureCode::Internal, failures: 2, age: Duration::from_secs(seconds), place: None }
    }

    fn now() -> Timestamp {
        Timestamp::from_second(1_000).unwrap()
    }

    #[test]
    fn a_nodes_latest_word_stays() {
        let (mut backlog, cart) = (Backlog::default(), WorkerId::new("shop", "cart"));
        assert!(backlog.hear(heard("cart", "node-a", crash_loop(10)), now()));
        let older = backlog.take(&cart);
        assert_eq!(older.said["node-a"].crash_loop.as_ref().map(|told| told.since.as_second()), Some(990));
        assert!(backlog.hear(heard("cart", "node-a", Word::Recovered), now()));
        backlog.put_back(cart.clone(), older);
        assert_eq!(backlog.take(&cart).said["node-a"].crash_loop, None);
        assert_eq!(backlog.take(&cart), News::default());
    }

    #[test]
    fn what_was_said_before_a_redeployment_is_void() {
        let (mut backlog, cart) = (Backlog::default(), WorkerId::new("shop", "cart"));
        backlog.hear(heard("cart", "node-a", crash_loop(10)), now());
        let older = backlog.take(&cart);
        backlog.hear(heard("cart", "node-b", crash_loop(10)), now());
        backlog.redeployed(&cart, now());
        backlog.hear(heard("cart", "node-c", crash_loop(10)), now());
        backlog.put_back(cart.clone(), older);
        let news = backlog.take(&cart);
        assert_eq!((news.redeployed_at, news.said.len()), (Some(now()), 1));
        assert!(news.said.contains_key("node-c"));
    }

    fn quarantined(seconds: u64, times: u32) -> Word {
        Word::Quarantined { cause: Cause::Crashed, duration: Duration::from_secs(seconds), times }
    }

    #[test]
    fn of_all_quarantines_the_longest_stays_with_the_highest_number_of_times() {
        let (mut backlog, cart) = (Backlog::default(), WorkerId::new("shop", "cart"));
        backlog.hear(heard("cart", "node-a", quarantined(10, 3)), now());
        let older = backlog.take(&cart);
        backlog.hear(heard("cart", "node-b", quarantined(20, 2)), now());
        backlog.put_back(cart.clone(), older);
        backlog.hear(heard("cart", "node-c", quarantined(5, 1)), now());
        let told = backlog.take(&cart).quarantine.unwrap();
        assert_eq!((told.node.as_str(), told.times, told.until.0.as_second()), ("node-b", 3, 1_020));
    }

    #[test]
    fn a_quarantine_is_heard_from_any_number_of_nodes() {
        let (mut backlog, cart) = (Backlog::default(), WorkerId::new("shop", "cart"));
        (0..NODES).for_each(|i| assert!(backlog.hear(heard("cart", &format!("node-{i}"), crash_loop(0)), now())));
        assert!(backlog.hear(heard("cart", "one-more", quarantined(10, 1)), now()));
        assert!(backlog.take(&cart).quarantine.is_some());
    }

    #[test]
    fn nodes_cannot_make_it_grow_without_end() {
        let mut backlog = Backlog::default();
        let nodes = (0..10_000).filter(|i| backlog.hear(heard("cart", &format!("node-{i}"), crash_loop(0)), now()));
        assert_eq!(nodes.count(), NODES);
        let workers = (0..20_000).filter(|i| backlog.hear(heard(&format!("w-{i}"), "node-a", crash_loop(0)), now()));
        assert_eq!(workers.count(), WORKERS - 1);
    }

    #[test]
    fn an_age_that_cannot_be_is_none() {
        let mut backlog = Backlog::default();
        backlog.hear(heard("cart", "node-a", crash_loop(u64::MAX)), now());
        let told = backlog.take(&WorkerId::new("shop", "cart")).said["node-a"].crash_loop.clone().unwrap();
        assert_eq!(told.since, now());
    }
}
