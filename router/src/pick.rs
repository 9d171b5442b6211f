//! Which shard a request goes to: the first candidate that takes requests, on a node that has not failed it yet.

use std::rc::Rc;
use std::sync::Arc;

use tenon_proto::failure::FailureCode;

use crate::thread::RouterThread;
use crate::link::Link;
use crate::metrics::Spill;
use crate::retry::Mishap;
use crate::ring::{Candidates, Key};
use crate::table::Pool;

/// So many candidates are looked at for one request. If all of these are out of order, so is the pool.
const MAX_CANDIDATES: usize = 64;

/// One request's walk through its candidates.
pub(crate) struct Picker<'a> {
    thread: &'a RouterThread,
    pool: &'a Pool,
    nodes_version: u64,
    candidates: Candidates,
    left: usize,
    /// Nodes that have failed this request.
    avoided: Vec<Arc<str>>,
    /// A shard that may be out of order is better than none.
    last_resort: Option<Rc<Link>>,
    /// Why the first candidate, where the Worker is pinned, is not the one.
    passed: Option<Spill>,
    spilled: bool,
}

impl<'a> Picker<'a> {
    pub(crate) fn new(thread: &'a RouterThread, pool: &'a Pool, key: Key, nodes_version: u64) -> Self {
        let candidates = Candidates::new(key);
        let (left, avoided) = (MAX_CANDIDATES, Vec::new());
        Self { thread, pool, nodes_version, candidates, left, avoided, last_resort: None, passed: None, spilled: false }
    }

    /// This shard has failed the request.
    pub(crate) fn failed(&mut self, link: &Rc<Link>, mishap: &Mishap) {
        let why = match mishap {
            Mishap::Said(failure) if failure.code == FailureCode::Overloaded => Spill::Overloaded,
            Mishap::Said(failure) if failure.code == FailureCode::Draining => Spill::Draining,
            _ => Spill::Failed,
        };
        self.passed.get_or_insert(why);
        match mishap {
            // The shard's next connection may well work.
            Mishap::NotBegun | Mishap::Lost => _ = self.last_resort.get_or_insert_with(|| link.clone()),
            Mishap::Said(failure) if failure.code == FailureCode::Draining => link.drains(self.nodes_version),
            Mishap::Unreachable => {}
            // Not the node's fault, or not that of its other shards.
            _ => return,
        }
        self.avoided.push(link.shard().node.clone());
    }

    /// Each candidate at most once, but for one as a last resort.
    pub(crate) fn next(&mut self) -> Option<Rc<Link>> {
        while self.left > 0 {
            self.left -= 1;
            let Some(slot) = self.candidates.next(&self.pool.ring) else { break };
            let shard = &self.pool.shards[slot.get()];
            if self.avoided.contains(&shard.node) {
                continue;
            }
            let link = self.thread.link(shard);
            let Some(why) = link.refuses(self.nodes_version) else {
                // Counted once.
                self.passed.filter(|_| !self.spilled).inspect(|why| self.thread.metrics.spill(*why));
                self.spilled = self.passed.is_some();
                return Some(link);
            };
            self.passed.get_or_insert(why);
            self.last_resort.get_or_insert(link);
        }
        self.left = 0;
        self.last_resort.take()
    }
}
