//! The links of a thread, one for each shard to which the thread has sent a request. One of them
//! may lead to the shard of the thread itself.
//!
//! The links belong to one thread.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use tenon_lifecycle::tls::Tls;
use tenon_table::{Shard, Table};

use crate::upstream::bulkhead::Bulkhead;
use crate::upstream::inline::Colocated;
use crate::upstream::link::Link;
use crate::upstream::metrics::UpstreamMetrics;

/// The links of a thread, by shard.
pub(crate) struct Links {
    by_shard: RefCell<FxHashMap<Arc<Shard>, Rc<Link>>>,
    /// The number of requests that the thread may have in flight.
    in_flight: usize,
    tls: Option<Tls>,
    colocated: Option<Colocated>,
    shards_may_pause: bool,
    metrics: Rc<UpstreamMetrics>,
}

impl Links {
    /// Creates an empty collection.
    ///
    /// # Arguments
    /// * `in_flight` - the number of requests that the thread may have in flight.
    /// * `colocated` - the shard of this thread, if it has one.
    /// * `shards_may_pause` - whether shards may be silent without having failed.
    pub(crate) fn new(
        in_flight: usize,
        tls: Option<Tls>,
        colocated: Option<Colocated>,
        shards_may_pause: bool,
        metrics: Rc<UpstreamMetrics>,
    ) -> Self {
        Self { by_shard: RefCell::default(), in_flight, tls, colocated, shards_may_pause, metrics }
    }

    /// Returns the link to a shard, which is created on first use.
    pub(crate) fn to(&self, shard: &Arc<Shard>) -> Rc<Link> {
        let mut links = self.by_shard.borrow_mut();
        match links.get(shard) {
            Some(link) => link.clone(),
            None => {
                let bulkhead = Bulkhead::new(self.in_flight);
                let (tls, metrics) = (self.tls.clone(), self.metrics.clone());
                let own = self.colocated.as_ref().filter(|own| own.is(shard));
                let inline = own.map(|own| Rc::clone(&own.shard));
                let may_pause = self.shards_may_pause;
                let link = Link::new(shard.clone(), tls, inline, may_pause, metrics, bulkhead);
                links.insert(shard.clone(), link.clone());
                link
            }
        }
    }

    /// Drops the links to shards that no longer exist. A request in flight keeps its link, and the
    /// link keeps its connection, until the request has ended.
    pub(crate) fn retain(&self, current: &Table) {
        self.by_shard.borrow_mut().retain(|shard, _| current.has_shard(shard));
    }
}
