//! Which shard a request goes to: the first candidate that takes requests, on a node that has not failed it yet.

use std::rc::Rc;
use std::sync::Arc;

use tenon_proto::failure::FailureCode;

use crate::lane::Lane;
use crate::link::Link;
use crate::retry::Mishap;
use crate::ring::{Candidates, Key};
use crate::table::Pool;

/// So many candidates are looked at for one request. If all of these are out of order, so is the pool.
const MAX_CANDIDATES: usize = 64;

/// One request's walk through its candidates.
pub(crate) struct Picker<'a> {
    lane: &'a Lane,
    pool: &'a Pool,
    nodes_version: u64,
    candidates: Candidates,
    left: usize,
    /// Nodes that have failed this request.
    avoided: Vec<Arc<str>>,
    /// A shard that may be out of order is better than none.
    last_resort: Option<Rc<Link>>,
}

impl<'a> Picker<'a> {
    pub(crate) fn new(lane: &'a Lane, pool: &'a Pool, key: Key, nodes_version: u64) -> Self {
        let candidates = Candidates::new(key);
        Self { lane, pool, nodes_version, candidates, left: MAX_CANDIDATES, avoided: Vec::new(), last_resort: None }
    }

    /// This shard has failed the request.
    pub(crate) fn failed(&mut self, link: &Rc<Link>, mishap: &Mishap) {
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
            let link = self.lane.link(shard);
            if link.takes_requests(self.nodes_version) {
                return Some(link);
            }
            self.last_resort.get_or_insert(link);
        }
        self.left = 0;
        self.last_resort.take()
    }
}
