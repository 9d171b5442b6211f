//! The rate limits of a Worker's requests.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tenon_clients::quota::Peer;
use tenon_clients::rate::{Bucket, ClientBuckets, Rate};
use tenon_proto::catalog;

use crate::Worker;

/// The rate limits of a Worker's requests.
#[derive(Debug, Default)]
pub struct Rates {
    worker: Option<SharedRate>,
    client: Option<Rate>,
    namespace: Option<SharedRate>,
}

/// A rate, and its state.
type SharedRate = (Rate, Arc<Bucket>);

/// A namespace, and a pool.
type NamespaceKey = (Arc<str>, Arc<str>);

/// The rates of namespaces, by namespace and pool.
pub(crate) type NamespaceRates = BTreeMap<NamespaceKey, SharedRate>;

/// The limit that a request has exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limited {
    /// The name of the limit, as in `rateLimits`.
    pub limit: &'static str,
    pub rate: Rate,
    /// The time after which the next request is admitted.
    pub wait: Duration,
}

impl Rates {
    /// Returns the rate limits of an entry of the catalog, if there are any.
    pub(crate) fn new(limits: &catalog::RateLimits) -> Option<Self> {
        let rate = |limit: &Option<catalog::RateLimit>| {
            let catalog::RateLimit { requests_per_second, burst } = limit.as_ref()?;
            Rate::new(*requests_per_second, *burst)
        };
        let catalog::RateLimits { worker, client, namespace } = limits;
        let [worker, client, namespace] = [worker, client, namespace].map(rate);
        worker.or(client).or(namespace)?;
        let limited = |rate: Rate| (rate, Arc::default());
        Some(Self { worker: worker.map(limited), client, namespace: namespace.map(limited) })
    }

    /// Returns the rates of the Worker, of each client and of the namespace.
    pub(crate) fn all(&self) -> [Option<Rate>; 3] {
        [
            self.worker.as_ref().map(|(rate, _)| *rate),
            self.client,
            self.namespace.as_ref().map(|(rate, _)| *rate),
        ]
    }

    /// Admits a request, if every rate allows it. The rates are examined from the narrowest to the
    /// widest, and a request that one rate refuses does not count toward those after it.
    ///
    /// # Arguments
    /// * `key` - identifies the Worker among those whose clients are limited.
    /// * `clients` - the state of the limits of clients.
    /// * `routers` - the number of routers that share the rates.
    ///
    /// # Errors
    /// Returns the first limit that the request exceeds.
    pub fn admit(
        &self,
        key: u64,
        peer: Peer,
        clients: &ClientBuckets,
        routers: NonZeroU32,
    ) -> Result<(), Limited> {
        let now = clients.now();
        let limited = |limit, rate| move |wait| Limited { limit, rate, wait };
        if let Some(rate) = self.client {
            clients.admit(key, peer, rate, now, routers).map_err(limited("client", rate))?;
        }
        // A Worker that is flooded beyond its own rate must not use up the rate of its namespace.
        for (limit, shared) in [("worker", &self.worker), ("namespace", &self.namespace)] {
            if let Some((rate, bucket)) = shared {
                bucket.admit(*rate, now, routers).map_err(limited(limit, *rate))?;
            }
        }
        Ok(())
    }
}

impl Worker {
    /// Sets the rates of the Worker and its variants.
    pub(crate) fn set_rates(&mut self, rates: Option<Arc<Rates>>) {
        self.for_each_variant(|variant| variant.rates.clone_from(&rates));
        self.rates = rates;
    }

    /// Returns the rate of the Worker's namespace, with the namespace and the pool, or `None` if
    /// the namespace has no rate.
    pub(crate) fn namespace_rate(&self) -> Option<(NamespaceKey, SharedRate)> {
        let rate = self.rates.as_ref()?.namespace.clone()?;
        Some((self.namespace_key(), rate))
    }

    fn namespace_key(&self) -> NamespaceKey {
        (Arc::from(self.id.namespace()), Arc::clone(&self.pool))
    }

    /// Takes over the state of the Worker's limit from the previous entry, and the state of the
    /// namespace's limit from the namespace's other Workers, so that a deployment does not admit
    /// another burst.
    pub(crate) fn keep_rates(&mut self, last: Option<&Self>, namespaces: &mut NamespaceRates) {
        let Some(rates) = &self.rates else { return };
        // The accounted time of one rate says nothing about another.
        let before = last.and_then(|last| last.rates.as_ref()?.worker.clone());
        let worker = rates.worker.clone().map(|fresh| match before {
            Some(before) if before.0 == fresh.0 => before,
            _ => fresh,
        });
        let namespace = rates.namespace.clone().map(|fresh| {
            let known = namespaces.entry(self.namespace_key()).or_insert_with(|| fresh.clone());
            if known.0 != fresh.0 {
                *known = fresh;
            }
            known.clone()
        });
        let rates = Rates { worker, client: rates.client, namespace };
        self.set_rates(Some(Arc::new(rates)));
    }
}

#[cfg(test)]
mod tests {
    use tenon_proto::catalog::{RateLimit, RateLimits, WatchResponse};

    use super::*;
    use crate::Table;

    fn limit(burst: u32) -> Option<RateLimit> {
        Some(RateLimit { requests_per_second: 1, burst })
    }

    fn entry(id: &str, rate_limits: RateLimits) -> catalog::Worker {
        catalog::Worker {
            id: id.into(),
            digest: vec![7; 32],
            rate_limits: Some(rate_limits),
            variants: vec![catalog::Variant { digest: vec![8; 32], ..Default::default() }],
            ..Default::default()
        }
    }

    fn apply(table: &mut Table, id: &str, rate_limits: RateLimits) {
        let workers = vec![entry(id, rate_limits)];
        table.apply(WatchResponse { workers, ..Default::default() });
    }

    /// Returns the number of requests of a client that are admitted until one is refused, and the
    /// name of the limit that refuses it.
    fn burst(worker: &Worker, clients: &ClientBuckets, client: u8) -> (usize, &'static str) {
        let peer = Peer::from(std::net::IpAddr::from([10, 0, 0, client]));
        let rates = worker.rates.as_ref().unwrap();
        for admitted in 0.. {
            if let Err(limited) = rates.admit(1, peer, clients, NonZeroU32::MIN) {
                return (admitted, limited.limit);
            }
        }
        unreachable!("the loop ends at the limit")
    }

    fn worker<'a>(table: &'a Table, id: &str) -> &'a Worker {
        table.worker(&id.parse().unwrap()).unwrap()
    }

    #[test]
    fn the_narrowest_limit_ends_a_burst() {
        let (mut table, clients) = (Table::default(), ClientBuckets::default());
        let limits = RateLimits { worker: limit(5), client: limit(3), namespace: limit(100) };
        apply(&mut table, "shop/cart", limits);
        let cart = worker(&table, "shop/cart");
        assert_eq!(burst(cart, &clients, 1), (3, "client"));
        assert_eq!(burst(cart, &clients, 2), (2, "worker"));
        assert!(cart.variants().all(|variant| burst(variant, &clients, 3) == (0, "worker")));
    }

    #[test]
    fn workers_of_a_namespace_share_its_limit() {
        let (mut table, clients) = (Table::default(), ClientBuckets::default());
        let limits = RateLimits { namespace: limit(4), ..Default::default() };
        for id in ["shop/cart", "shop/till", "bank/cart"] {
            apply(&mut table, id, limits);
        }
        assert_eq!(burst(worker(&table, "shop/cart"), &clients, 1), (4, "namespace"));
        assert_eq!(burst(worker(&table, "shop/till"), &clients, 1), (0, "namespace"));
        assert_eq!(burst(worker(&table, "bank/cart"), &clients, 1), (4, "namespace"));
    }

    #[test]
    fn a_changed_entry_does_not_admit_another_burst() {
        let (mut table, clients) = (Table::default(), ClientBuckets::default());
        let limits = RateLimits { worker: limit(4), ..Default::default() };
        apply(&mut table, "shop/cart", limits);
        assert_eq!(burst(worker(&table, "shop/cart"), &clients, 1), (4, "worker"));
        apply(&mut table, "shop/cart", limits);
        assert_eq!(burst(worker(&table, "shop/cart"), &clients, 1), (0, "worker"));
        apply(&mut table, "shop/cart", RateLimits::default());
        assert!(worker(&table, "shop/cart").rates.is_none());
    }

    #[test]
    fn a_snapshot_does_not_admit_another_burst() {
        let (mut table, clients) = (Table::default(), ClientBuckets::default());
        let limits = RateLimits { worker: limit(4), namespace: limit(6), ..Default::default() };
        apply(&mut table, "shop/cart", limits);
        assert_eq!(burst(worker(&table, "shop/cart"), &clients, 1), (4, "worker"));
        let mut snapshot = table.begin_snapshot();
        apply(&mut snapshot, "shop/cart", limits);
        assert_eq!(burst(worker(&snapshot, "shop/cart"), &clients, 1), (0, "worker"));
        apply(&mut snapshot, "shop/till", limits);
        assert_eq!(burst(worker(&snapshot, "shop/till"), &clients, 1), (2, "namespace"));
    }

    #[test]
    fn a_changed_rate_holds_immediately() {
        let (mut table, clients) = (Table::default(), ClientBuckets::default());
        let limits = |burst| RateLimits {
            worker: limit(burst),
            client: limit(burst),
            namespace: limit(burst),
        };
        apply(&mut table, "shop/cart", limits(50));
        assert_eq!(burst(worker(&table, "shop/cart"), &clients, 1).0, 50);
        apply(&mut table, "shop/cart", limits(3));
        assert_eq!(burst(worker(&table, "shop/cart"), &clients, 1).0, 3);
    }

    #[test]
    fn entries_with_other_rates_are_different() {
        let with = |burst| {
            Worker::new(entry("a/b", RateLimits { worker: limit(burst), ..Default::default() }))
                .unwrap()
        };
        assert!(with(1).has_same_content(&with(1)) && !with(1).has_same_content(&with(2)));
    }
}
