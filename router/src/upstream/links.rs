//! The links of a thread, one for each shard that it has sent a request to.
//!
//! Belongs to one thread.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use tenon_lifecycle::tls::Tls;

use crate::table::{Shard, Table};
use crate::upstream::bulkhead::Bulkhead;
use crate::upstream::link::Link;
use crate::upstream::metrics::UpstreamMetrics;

pub(crate) struct Links {
    by_shard: RefCell<FxHashMap<Arc<Shard>, Rc<Link>>>,
    in_flight: usize,
    tls: Option<Tls>,
    shards_may_pause: bool,
    metrics: Rc<UpstreamMetrics>,
}

impl Links {
    /// Creates an empty collection.
    ///
    /// # Arguments
    /// * `in_flight`: the number of requests that the thread may have in flight.
    /// * `shards_may_pause`: whether the silence of a shard is no failure.
    pub(crate) fn new(
        in_flight: usize,
        tls: Option<Tls>,
        shards_may_pause: bool,
        metrics: Rc<UpstreamMetrics>,
    ) -> Self {
        Self { by_shard: RefCell::default(), in_flight, tls, shards_may_pause, metrics }
    }

    /// Returns the link to a shard, which is created on first use.
    pub(crate) fn to(&self, shard: &Arc<Shard>) -> Rc<Link> {
        let mut links = self.by_shard.borrow_mut();
        match links.get(shard) {
            Some(link) => link.clone(),
            None => {
                let bulkhead = Bulkhead::new(self.in_flight);
                let (tls, metrics) = (self.tls.clone(), self.metrics.clone());
                let link = Link::new(shard.clone(), tls, self.shards_may_pause, metrics, bulkhead);
                links.insert(shard.clone(), link.clone());
                link
            }
        }
    }

    /// Forgets the links to shards that are gone. Requests in flight keep their link, and the link
    /// its connection, until they are done.
    pub(crate) fn retain(&self, current: &Table) {
        self.by_shard.borrow_mut().retain(|shard, _| current.has_shard(shard));
    }
}
