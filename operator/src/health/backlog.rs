//! What has been heard of Workers and is not in their status yet. Pure, and bounded: whatever nodes say, and however
//! long the API server is away.

use std::collections::HashMap;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use tenon_proto::id::WorkerId;

use super::News;
use super::verdict::{Said, Told};
use crate::catalog::{Heard, Word};

/// Workers with news. What is said of others is lost; nodes say it again.
const WORKERS: usize = 10_000;

/// Nodes with news of one Worker: some times those that its status can name.
const NODES: usize = 64;

#[derive(Default)]
pub struct Backlog {
    news: HashMap<WorkerId, News>,
}

impl Backlog {
    /// Takes in what a node said. Whether there was room.
    pub fn hear(&mut self, heard: Heard, now: Timestamp) -> bool {
        let Heard { worker, revision, node, word } = heard;
        if !self.has_room(&worker) {
            return false;
        }
        let said = &mut self.news.entry(worker).or_default().said;
        if said.len() >= NODES && !said.contains_key(&node) {
            return false;
        }
        let crash_loop = match word {
            Word::Recovered => None,
            Word::CrashLoop { code, failures, age, place } => {
                let age = SignedDuration::try_from(age).unwrap_or(SignedDuration::MAX);
                Some(Told { code, failures, place, since: now.checked_sub(age).unwrap_or(now) })
            }
        };
        said.insert(node, Said { revision, crash_loop });
        true
    }

    /// What was said of the Worker until now is void.
    pub fn redeployed(&mut self, worker: &WorkerId, now: Timestamp) {
        if self.has_room(worker) {
            self.news.insert(worker.clone(), News { redeployed_at: Some(now), ..News::default() });
        }
    }

    pub fn take(&mut self, worker: &WorkerId) -> News {
        self.news.remove(worker).unwrap_or_default()
    }

    /// Takes in what could not be written. What was heard since stays.
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
    }

    fn has_room(&self, worker: &WorkerId) -> bool {
        self.news.len() < WORKERS || self.news.contains_key(worker)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
