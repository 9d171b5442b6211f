//! A thread's resources for its clients, in bytes or in other units, and how addresses share them.
//!
//! ```text
//!   capacity ├── address A ──┼─ B ─┼─ C ─┼────── free ──────┤
//!                  └── may take more while it holds at most MAX_HELD_TO_FREE times what is free
//! ```
//!
//! A single address gets three quarters, the next one three quarters of the rest, and so on
//! (Choudhury and Hahne's dynamic thresholds). The more is taken, the less an address that already
//! holds much may take, while an address that holds little can still take some. A proxy with many
//! clients behind it is hardly limited while there is no other demand.
//!
//! This module is pure. The counts are atomic because hyper requires connections to be `Send`; only
//! one thread reads and writes them.

use std::cell::RefCell;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use rustc_hash::FxHashMap;

/// The maximum ratio of the amount that an address holds to the amount that is free. An address
/// that holds nothing may always take one free unit. A single address gets three quarters; two
/// addresses that repeatedly take and release get three sevenths each.
const MAX_HELD_TO_FREE: usize = 3;

/// The minimum number of entries at which the map is cleaned up: addresses whose accounts have all
/// been dropped are then removed.
const MIN_CLEANUP: usize = 1024;

/// An address that has a share: an IPv4 address, or a prefix of 64 bits, which is what an IPv6
/// subscriber has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Peer(IpAddr);

impl From<IpAddr> for Peer {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(address) => {
                Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into()
            }
            address => address,
        })
    }
}

/// A resource that addresses share.
pub struct Quota {
    capacity: usize,
    used: Arc<AtomicUsize>,
    peers: RefCell<Peers>,
}

#[derive(Default)]
struct Peers {
    by_address: FxHashMap<Peer, Weak<Share>>,
    /// The number of entries at which the map is next cleaned up.
    sweep_at: usize,
}

/// The share that one address has of a quota.
#[derive(Debug, Default)]
struct Share {
    amount: AtomicUsize,
    /// The period of the last unmet demand in the high half, and the number of unmet demands in
    /// this period in the low half.
    unmet_demands: AtomicU64,
}

/// One address's account with a quota.
#[derive(Clone, Debug)]
pub struct Account {
    capacity: usize,
    used: Arc<AtomicUsize>,
    share: Arc<Share>,
}

/// An amount that has been taken. Dropping the hold releases the amount.
#[derive(Debug)]
pub struct Hold {
    account: Account,
    amount: usize,
}

impl Quota {
    /// Creates a quota of which nothing has been taken.
    pub fn new(capacity: usize) -> Self {
        Self { capacity, used: Arc::default(), peers: RefCell::default() }
    }

    /// Returns the amount that all addresses hold together.
    pub fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// Returns whether more than half of the capacity is taken.
    /// Returns whether more than half of the capacity is taken.
    pub(crate) fn is_half_taken(&self) -> bool {
        self.used() > self.capacity / 2
    }

    /// Returns the account of an address.
    pub fn account(&self, peer: Peer) -> Account {
        let peers = &mut *self.peers.borrow_mut();
        let known = peers.by_address.get(&peer).and_then(Weak::upgrade);
        let share = known.unwrap_or_else(|| {
            if peers.by_address.len() >= peers.sweep_at.max(MIN_CLEANUP) {
                peers.by_address.retain(|_, share| share.strong_count() > 0);
                peers.sweep_at = 2 * peers.by_address.len();
            }
            let share = Arc::default();
            peers.by_address.insert(peer, Arc::downgrade(&share));
            share
        });
        Account { capacity: self.capacity, used: self.used.clone(), share }
    }
}

impl Account {
    /// Takes an amount if it is free and this address may have it.
    #[inline]
    pub fn take(&self, amount: usize) -> Option<Hold> {
        let mut hold = Hold { account: self.clone(), amount: 0 };
        hold.resize(amount).then_some(hold)
    }

    /// Returns the amount that this address holds.
    pub(crate) fn held(&self) -> usize {
        self.share.amount.load(Relaxed)
    }

    /// Counts a demand of this address that was not met, and returns the number of such demands in
    /// this period.
    pub(crate) fn count_unmet_demand(&self, period: u32) -> u32 {
        let [last_period, count] =
            [32, 0].map(|shift| (self.share.unmet_demands.load(Relaxed) >> shift) as u32);
        let count = if last_period == period { count.saturating_add(1) } else { 1 };
        let counted = u64::from(period) << 32 | u64::from(count);
        self.share.unmet_demands.store(counted, Relaxed);
        count
    }

    fn allows(&self, amount: usize) -> bool {
        let free = self.capacity.saturating_sub(self.used.load(Relaxed));
        amount <= free
            && self.held() + amount <= MAX_HELD_TO_FREE.saturating_mul(free - amount).max(1)
    }

    fn change(&self, from: usize, to: usize) {
        for count in [&*self.used, &self.share.amount] {
            count.store(count.load(Relaxed) + to - from, Relaxed);
        }
    }
}

impl Hold {
    /// Returns the amount that is held.
    #[inline]
    pub fn amount(&self) -> usize {
        self.amount
    }

    /// Grows the hold to `amount` if the difference is available, or shrinks it. Shrinking always
    /// succeeds.
    #[must_use = "nothing has been taken if the result is false"]
    #[inline]
    pub fn resize(&mut self, amount: usize) -> bool {
        let allowed = amount <= self.amount || self.account.allows(amount - self.amount);
        if allowed {
            self.account.change(self.amount, amount);
            self.amount = amount;
        }
        allowed
    }
}

impl Drop for Hold {
    #[inline]
    fn drop(&mut self) {
        self.account.change(self.amount, 0);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn peer(last: u8) -> Peer {
        IpAddr::from([10, 0, 0, last]).into()
    }

    /// Takes single units until the account gets no more.
    fn all(account: &Account) -> Vec<Hold> {
        std::iter::from_fn(|| account.take(1)).collect()
    }

    #[test]
    fn one_address_gets_most_of_the_quota_and_leaves_room_for_another() {
        let quota = Quota::new(16_384);
        let hog = all(&quota.account(peer(1)));
        assert!((12_000..13_000).contains(&hog.len()), "the first address got {}", hog.len());
        let next = all(&quota.account(peer(2)));
        assert!(next.len() > 1_000, "the second address got {}", next.len());
        drop((hog, next));
        assert_eq!(quota.used(), 0);
    }

    #[test]
    fn five_greedy_addresses_leave_room_for_one_more() {
        let quota = Quota::new(16_384);
        let hogs: Vec<_> = (0..5).map(|i| all(&quota.account(peer(i)))).collect();
        assert!(quota.account(peer(200)).take(8).is_some());
        drop(hogs);
    }

    #[test]
    fn an_address_without_holds_may_take_the_last_unit() {
        let quota = Quota::new(2);
        let first = quota.account(peer(1)).take(1);
        assert!(first.is_some());
        assert!(quota.account(peer(1)).take(1).is_none());
        assert!(quota.account(peer(2)).take(1).is_some());
    }

    #[test]
    fn a_prefix_of_ipv6_is_one_address() {
        let of = |address: &str| Peer::from(address.parse::<IpAddr>().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    }

    #[test]
    fn addresses_without_accounts_are_forgotten() {
        let quota = Quota::new(16);
        let kept = quota.account(peer(1));
        for i in 0..10_000_u32 {
            drop(quota.account(IpAddr::from(i.to_be_bytes()).into()));
        }
        assert!(quota.peers.borrow().by_address.len() <= 2 * MIN_CLEANUP);
        assert!(kept.take(1).is_some());
        assert_eq!(quota.account(peer(1)).held(), 0);
    }

    #[test]
    fn unmet_demands_are_counted_by_address_and_period() {
        let quota = Quota::new(16);
        let (one, other) = (quota.account(peer(1)), quota.account(peer(2)));
        let again = quota.account(peer(1));
        let counts = [&one, &one, &again].map(|account| account.count_unmet_demand(7));
        assert_eq!(counts, [1, 2, 3]);
        assert_eq!([other.count_unmet_demand(7), one.count_unmet_demand(8)], [1, 1]);
    }

    proptest! {
        #[test]
        fn holds_are_counted_and_never_exceed_the_quota(
            steps in prop::collection::vec((0_u8..4, 0_usize..300, any::<bool>()), 0..200),
        ) {
            let quota = Quota::new(1000);
            let mut holds: Vec<Hold> = Vec::new();
            for (address, amount, releases) in steps {
                match holds.pop() {
                    Some(mut hold) if releases => {
                        if hold.resize(amount / 2) {
                            holds.insert(0, hold);
                        }
                    }
                    last => {
                        let taken = quota.account(peer(address)).take(amount);
                        holds.extend(last.into_iter().chain(taken));
                    }
                }
                prop_assert_eq!(quota.used(), holds.iter().map(Hold::amount).sum::<usize>());
                prop_assert!(quota.used() <= 1000);
                for address in 0..4 {
                    prop_assert!(quota.account(peer(address)).held() <= quota.used());
                }
            }
            drop(holds);
            prop_assert_eq!(quota.used(), 0);
        }
    }
}
