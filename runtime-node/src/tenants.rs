//! Decides the share of a shard that one namespace may take. This module is pure: the time is an
//! argument.
//!
//! | other tenants with recent requests | share |
//! | --- | --- |
//! | none | all but an eighth, which is kept for the next tenant |
//! | any | half |
//!
//! The share applies to every resource that a tenant could exhaust with many Workers: invocations
//! in flight, queue entries, tunnels (open WebSockets of clients), and slots for isolates (see
//! [`crate::pool`]). When another tenant arrives, a tenant that holds more than its share loses
//! nothing, but gets nothing new until it is below its share. [`Tenants`] belongs to one thread.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use tenon_engine::share::Share;

use crate::admission::{DeadlineSemaphore, Permit, Refusal};

/// Time after a tenant's last request during which other tenants get half of the shard at most.
const RECENT: Duration = Duration::from_secs(10);

/// Number of known tenants at which the tenants that hold nothing are first forgotten.
const FIRST_PRUNE: usize = 64;

/// The tenants whose Workers have been requested on a shard.
pub struct Tenants {
    /// Maximum number of the shard's invocations in flight.
    in_flight: u32,
    /// Maximum number of requests that wait for one tenant's permits.
    max_waiting: usize,
    /// Maximum number of requests that wait in all queues of the shard together.
    max_waiting_total: u32,
    /// Counts the queue entries of all tenants together.
    queue_slots: DeadlineSemaphore,
    tunnels: DeadlineSemaphore,
    known: FxHashMap<Rc<str>, Rc<Tenant>>,
    /// Number of known tenants at which absent tenants are next forgotten.
    prune_at: usize,
    visits: Visits,
}

/// A namespace on a shard.
pub struct Tenant {
    namespace: Rc<str>,
    share: Cell<Share>,
    in_flight: DeadlineSemaphore,
    queue_slots: DeadlineSemaphore,
    tunnels: DeadlineSemaphore,
}

/// The right to wait in a queue, or to hold a tunnel.
pub struct TenantSlot {
    _tenant: Permit,
    _shard: Permit,
}

impl Tenants {
    /// Creates an empty set of tenants.
    ///
    /// # Arguments
    /// * `in_flight` - maximum number of the shard's invocations in flight.
    /// * `max_waiting` - maximum number of requests that wait for one tenant's permits.
    /// * `max_waiting_total` - maximum number of requests that wait in all queues of the shard
    ///   together.
    /// * `tunnels` - maximum number of WebSockets of the shard's clients.
    pub fn new(in_flight: u32, max_waiting: usize, max_waiting_total: u32, tunnels: u32) -> Self {
        Self {
            in_flight,
            max_waiting,
            max_waiting_total,
            queue_slots: DeadlineSemaphore::new(max_waiting_total, 0),
            tunnels: DeadlineSemaphore::new(tunnels, 0),
            known: FxHashMap::default(),
            prune_at: FIRST_PRUNE,
            visits: Visits::default(),
        }
    }

    /// Records a request for one of the namespace's Workers, and adjusts the tenant's share.
    pub fn arrive(&mut self, namespace: &str, now: Instant) -> Rc<Tenant> {
        let tenant = match self.known.get(namespace) {
            Some(tenant) => Rc::clone(tenant),
            None => self.insert(namespace),
        };
        let share = if self.visits.has_others(namespace, now) { Share::Half } else { Share::Most };
        self.visits.add(&tenant.namespace, now);
        if tenant.share.replace(share) != share {
            tenant.in_flight.resize(part(share, self.in_flight), self.max_waiting);
            tenant.queue_slots.resize(part(share, self.max_waiting_total), 0);
            tenant.tunnels.resize(part(share, self.tunnels.limit()), 0);
        }
        tenant
    }

    /// Takes the right to wait in a queue.
    ///
    /// # Errors
    /// Fails if the tenant, or all tenants together, have the maximum number of queue entries.
    pub fn reserve_queue_slot(&self, tenant: &Tenant) -> Result<TenantSlot, Refusal> {
        TenantSlot::acquire(&tenant.queue_slots, &self.queue_slots)
    }

    /// Takes the right to hold a tunnel.
    ///
    /// # Errors
    /// Fails if the tenant, or all tenants together, have the maximum number of tunnels.
    pub fn reserve_tunnel(&self, tenant: &Tenant) -> Result<TenantSlot, Refusal> {
        TenantSlot::acquire(&tenant.tunnels, &self.tunnels)
    }

    fn insert(&mut self, namespace: &str) -> Rc<Tenant> {
        if self.known.len() >= self.prune_at {
            self.known.retain(|_, tenant| Rc::strong_count(tenant) > 1 || tenant.is_present());
            // The threshold grows, so that a large number of present tenants is not scanned for
            // each new tenant.
            self.prune_at = FIRST_PRUNE.max(self.known.len() * 2);
        }
        let share = Share::Half;
        let tenant = Rc::new(Tenant {
            namespace: namespace.into(),
            share: Cell::new(share),
            in_flight: DeadlineSemaphore::new(part(share, self.in_flight), self.max_waiting),
            queue_slots: DeadlineSemaphore::new(part(share, self.max_waiting_total), 0),
            tunnels: DeadlineSemaphore::new(part(share, self.tunnels.limit()), 0),
        });
        self.known.insert(Rc::clone(&tenant.namespace), Rc::clone(&tenant));
        tenant
    }
}

impl TenantSlot {
    fn acquire(tenant: &DeadlineSemaphore, shard: &DeadlineSemaphore) -> Result<Self, Refusal> {
        let of_tenant = tenant.try_acquire().ok_or(Refusal::TenantFull)?;
        let of_shard = shard.try_acquire().ok_or(Refusal::ShardFull)?;
        Ok(Self { _tenant: of_tenant, _shard: of_shard })
    }
}

impl Tenant {
    pub fn namespace(&self) -> &Rc<str> {
        &self.namespace
    }

    /// Returns the share as of the tenant's latest request.
    pub fn share(&self) -> Share {
        self.share.get()
    }

    /// Returns the semaphore of the tenant's invocations.
    pub fn semaphore(&self) -> &DeadlineSemaphore {
        &self.in_flight
    }

    fn is_present(&self) -> bool {
        [&self.in_flight, &self.queue_slots, &self.tunnels]
            .iter()
            .any(|semaphore| semaphore.in_flight() > 0)
    }
}

fn part(share: Share, whole: u32) -> u32 {
    u32::try_from(share.of(whole as usize)).expect("a share is larger than the whole")
}

/// The latest request of any tenant, and the latest request of any other tenant. These two suffice
/// to find, for each tenant, the latest request of another tenant.
#[derive(Default)]
struct Visits {
    latest: Option<(Rc<str>, Instant)>,
    other: Option<(Rc<str>, Instant)>,
}

impl Visits {
    fn add(&mut self, tenant: &Rc<str>, now: Instant) {
        match &mut self.latest {
            Some((latest, at)) if latest == tenant => *at = now,
            latest => self.other = latest.replace((Rc::clone(tenant), now)),
        }
    }

    /// Returns whether any other tenant had a recent request.
    fn has_others(&self, tenant: &str, now: Instant) -> bool {
        let other = match &self.latest {
            Some((latest, _)) if &**latest == tenant => &self.other,
            latest => latest,
        };
        other.as_ref().is_some_and(|(_, at)| now.saturating_duration_since(*at) < RECENT)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_lone_tenant_gets_seven_eighths_and_two_get_half_each() {
        let (mut tenants, now) = (Tenants::new(16, 8, 8, 8), Instant::now());
        let shop = tenants.arrive("shop", now);
        assert_eq!((shop.share(), shop.semaphore().limit()), (Share::Most, 14));
        let news = tenants.arrive("news", now);
        assert_eq!((news.share(), news.semaphore().limit()), (Share::Half, 8));
        tenants.arrive("shop", now);
        assert_eq!((shop.share(), shop.semaphore().limit()), (Share::Half, 8));
        tenants.arrive("shop", now + RECENT);
        assert_eq!((shop.share(), shop.semaphore().limit()), (Share::Most, 14));
    }

    #[test]
    fn a_share_of_one_is_one() {
        assert_eq!([Share::Half, Share::Most].map(|share| share.of(1)), [1, 1]);
        assert_eq!([Share::Half, Share::Most].map(|share| share.of(0)), [0, 0]);
    }

    #[test]
    fn tenants_share_the_queue_slots() {
        let (mut tenants, now) = (Tenants::new(16, 4, 4, 4), Instant::now());
        let [shop, news, mail] = ["shop", "news", "mail"].map(|name| tenants.arrive(name, now));
        tenants.arrive("shop", now);
        let taken = [&shop, &shop, &news].map(|tenant| tenants.reserve_queue_slot(tenant).ok());
        assert!(taken.iter().all(Option::is_some));
        assert_eq!(tenants.reserve_queue_slot(&shop).err(), Some(Refusal::TenantFull));
        let last = tenants.reserve_queue_slot(&news);
        assert!(last.is_ok());
        assert_eq!(tenants.reserve_queue_slot(&mail).err(), Some(Refusal::ShardFull));
        drop(taken);
        assert!(tenants.reserve_queue_slot(&mail).is_ok());
    }

    #[test]
    fn tenants_share_the_tunnels() {
        let (mut tenants, now) = (Tenants::new(16, 4, 4, 4), Instant::now());
        let [shop, news] = ["shop", "news"].map(|name| tenants.arrive(name, now));
        tenants.arrive("shop", now);
        let taken = [&shop, &shop].map(|tenant| tenants.reserve_tunnel(tenant).ok());
        assert!(taken.iter().all(Option::is_some));
        assert_eq!(tenants.reserve_tunnel(&shop).err(), Some(Refusal::TenantFull));
        assert!(tenants.reserve_tunnel(&news).is_ok() && tenants.reserve_queue_slot(&shop).is_ok());
    }

    #[test]
    fn absent_tenants_are_forgotten() {
        let (mut tenants, now) = (Tenants::new(16, 4, 4, 4), Instant::now());
        let stays = tenants.arrive("stays", now);
        let permit = tenants.arrive("works", now).semaphore().try_acquire();
        (0..1_000).for_each(|n| drop(tenants.arrive(&format!("tenant-{n}"), now)));
        assert!(tenants.known.len() <= FIRST_PRUNE, "{}", tenants.known.len());
        assert!(tenants.known.contains_key("stays") && tenants.known.contains_key("works"));
        drop((stays, permit));
    }

    proptest! {
        #[test]
        fn has_others_returns_the_same_as_if_every_visit_were_kept(
            visits in prop::collection::vec((0..4_usize, 0..6_u64), 0..40),
        ) {
            let names = ["a", "b", "c", "d"].map(Rc::<str>::from);
            let (mut known, mut kept, mut now) = (Visits::default(), Vec::new(), Instant::now());
            for (tenant, pause) in visits {
                now += Duration::from_secs(pause);
                for (n, name) in names.iter().enumerate() {
                    let others = kept.iter().any(|(other, at)| *other != n && now - *at < RECENT);
                    prop_assert_eq!(known.has_others(name, now), others);
                }
                known.add(&names[tenant], now);
                kept.push((tenant, now));
            }
        }

        #[test]
        fn two_halves_cover_the_whole_and_the_larger_share_of_eight_or_more_leaves_room(
            whole in 0..10_000_usize,
        ) {
            let (half, most) = (Share::Half.of(whole), Share::Most.of(whole));
            prop_assert!(half * 2 >= whole && half <= most.max(1));
            prop_assert!(whole < 8 || most < whole);
        }
    }
}
