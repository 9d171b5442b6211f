//! Forces garbage collections, in addition to those that V8 starts itself.
//!
//! A collection is forced in three cases. First, data that a Worker sends or receives does not fit
//! into its budget of array buffers, some of which may be garbage. Second, the array buffers have
//! grown a lot since the last collection (both in [`make_room`]): a stream's pieces are garbage as
//! soon as they have been passed on, but V8, which looks at its own heap, lets about 100 MiB of
//! them accumulate first. Third, a shard that is short of memory makes an idle isolate release
//! what it does not need (`release_unneeded`).
//!
//! A collection runs on the shard's thread and cannot be interrupted. Its cost depends on the live
//! objects in V8's heap, and hardly on garbage or array buffers: about 3 ms for a small Worker, and
//! 3 to 5 ms more for each MiB of small objects, so half a second for a heap of 100 MiB. A Worker
//! can cause the first two cases as often as it likes. Each isolate therefore has a
//! [`CollectionBudget`], and a collection that exceeds the budget is skipped: the call fails as if
//! nothing had been garbage.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::cpu_clock::CpuClock;
use super::heap::BufferBudget;
use super::slot::slot_value;

/// Divisor of an isolate's time for the part that collections may take: a twentieth, or 5 %.
const SHARE: u32 = 20;

/// Longest debt with which an isolate may still have a collection. It allows consecutive
/// collections that together take a [`SHARE`]th of this time, which is 50 ms.
const SAVINGS: Duration = Duration::from_secs(1);

/// Size of the largest heap that is collected without need, in bytes: collecting it takes about as
/// long as a Worker may delay others anyway. Evicting an isolate with a larger heap frees more
/// memory in less time.
const LARGEST_HEAP: usize = 16 << 20;

/// Growth of array buffers, in bytes, above which it is worthwhile to collect garbage because of
/// them. A stream that produces this many bytes in a tenth of a second spends 3 % of its time on
/// collections.
const GROWTH: usize = 16 << 20;

/// The state of one isolate's forced collections, with the budget of array buffers in which they
/// make room. An isolate has this in a slot.
pub(crate) struct Collections {
    buffers: Arc<BufferBudget>,
    budget: Cell<CollectionBudget>,
    /// Number of bytes in array buffers after the last collection that their growth made due, or
    /// when such a collection was last omitted because of a large heap; or the smallest number
    /// since.
    kept: Cell<usize>,
}

impl Collections {
    pub(crate) fn new(buffers: Arc<BufferBudget>) -> Rc<Self> {
        Rc::new(Self { buffers, budget: Cell::default(), kept: Cell::default() })
    }

    /// Returns whether most of `used` bytes in array buffers are likely to be garbage. As for V8's
    /// own heap, this is presumed if more than half of the bytes are new, but only if the new bytes
    /// are more than [`GROWTH`].
    fn are_due(&self, used: usize) -> bool {
        let kept = self.kept.get().min(used);
        self.kept.set(kept);
        used - kept > kept.max(GROWTH)
    }
}

/// The share of an isolate's time that forced collections may take.
///
/// Each collection has to be earned: after a collection of 2 ms, the isolate is in debt for 40 ms.
/// An isolate whose debt is at most [`SAVINGS`] may have another collection.
#[derive(Clone, Copy, Debug, Default)]
pub struct CollectionBudget {
    /// The time at which all collections so far will have been earned.
    earned: Option<Instant>,
}

impl CollectionBudget {
    /// Returns whether a collection is allowed now.
    fn allows(&self, now: Instant) -> bool {
        self.earned.is_none_or(|earned| earned <= now + SAVINGS)
    }

    /// Records a collection.
    fn spend(&mut self, began: Instant, cost: Duration) {
        let debt_from = self.earned.map_or(began, |earned| earned.max(began));
        self.earned = Some(debt_from + cost * SHARE);
    }
}

/// Returns the isolate's budget of array buffers.
pub fn buffers(isolate: &v8::Isolate) -> Arc<BufferBudget> {
    Arc::clone(&slot_value::<Rc<Collections>>(isolate).buffers)
}

/// Returns the isolate's budget of array buffers if it has room for `length` more bytes, if
/// necessary after a collection: the buffers may be garbage, which V8 itself collects only when it
/// allocates an array buffer. Returns `None` if there is no room, or if the isolate cannot afford
/// the collection.
pub fn make_room(scope: &mut v8::PinScope<'_, '_>, length: usize) -> Option<Arc<BufferBudget>> {
    let collections = slot_value::<Rc<Collections>>(scope);
    let buffers = &collections.buffers;
    if length <= buffers.limit() {
        if !buffers.has_room(length.max(1)) {
            within(&collections.budget, || collect_all(scope));
        } else if collections.are_due(buffers.used() + length)
            && (!is_small(scope) || within(&collections.budget, || buffers.force_collection(scope)))
        {
            collections.kept.set(buffers.used());
        }
    }
    buffers.has_room(length).then(|| Arc::clone(buffers))
}

/// Makes an idle isolate release memory that it does not need, which blocks the thread for a few
/// milliseconds. Returns false, and does nothing, if the isolate has been collected too often
/// recently.
pub(crate) fn release_unneeded(isolate: &mut v8::Isolate) -> bool {
    let collections = slot_value::<Rc<Collections>>(isolate);
    within(&collections.budget, || collect_all(isolate))
}

/// Returns whether an isolate's heap is small enough to be collected without need.
pub(crate) fn is_small(isolate: &mut v8::Isolate) -> bool {
    isolate.get_heap_statistics().used_heap_size() <= LARGEST_HEAP
}

/// Collects all garbage, and drops V8's caches.
fn collect_all(isolate: &mut v8::Isolate) {
    // `low_memory_notification` would collect repeatedly until it finds no further garbage.
    isolate.memory_pressure_notification(v8::MemoryPressureLevel::Critical);
    isolate.memory_pressure_notification(v8::MemoryPressureLevel::None);
}

/// Runs `collect` if the budget allows it. Returns whether `collect` ran.
fn within(budget: &Cell<CollectionBudget>, collect: impl FnOnce()) -> bool {
    let mut left = budget.get();
    let began = Instant::now();
    if !left.allows(began) {
        return false;
    }
    // The time that the thread waits for its processor is not charged.
    let clock = CpuClock::of_this_thread();
    let before = clock.now();
    collect();
    left.spend(began, clock.now().saturating_sub(before));
    budget.set(left);
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn collections_take_no_more_than_their_share_of_any_stretch_of_time(
            requests in prop::collection::vec((0_u64..200_000, 0_u64..100_000), 1..200),
        ) {
            let start = Instant::now();
            let mut now = start;
            let mut budget = CollectionBudget::default();
            let mut done: Vec<(Instant, Duration)> = Vec::new();
            for (pause, cost) in requests {
                now += Duration::from_micros(pause);
                if budget.allows(now) {
                    let cost = Duration::from_micros(cost);
                    budget.spend(now, cost);
                    done.push((now, cost));
                    now += cost;
                }
            }
            for first in 0..done.len() {
                for last in first..done.len() {
                    // The duration of the last collection is not bounded.
                    let spent: Duration = done[first..last].iter().map(|(_, cost)| *cost).sum();
                    let stretch = done[last].0 - done[first].0;
                    prop_assert!(spent * SHARE <= stretch + SAVINGS, "{spent:?} of {stretch:?}");
                }
            }
        }

        #[test]
        fn collections_spaced_by_their_cost_are_always_allowed(
            costs in prop::collection::vec(0_u64..100_000, 0..50),
        ) {
            let mut now = Instant::now();
            let mut budget = CollectionBudget::default();
            for cost in costs {
                prop_assert!(budget.allows(now));
                let cost = Duration::from_micros(cost);
                budget.spend(now, cost);
                now += cost * SHARE;
            }
        }
    }

    #[test]
    fn a_collection_is_due_when_buffers_have_grown_a_lot_and_more_than_doubled() {
        let collections = Collections::new(BufferBudget::new(0));
        assert!(!collections.are_due(GROWTH));
        assert!(collections.are_due(GROWTH + 1));
        collections.kept.set(3 * GROWTH);
        assert!(!collections.are_due(6 * GROWTH));
        assert!(collections.are_due(6 * GROWTH + 1));
        assert!(!collections.are_due(0));
        assert!(collections.are_due(GROWTH + 1), "the kept size did not fall to the present size");
    }

    #[test]
    fn a_long_collection_delays_the_next_one() {
        let now = Instant::now();
        let mut budget = CollectionBudget::default();
        assert!(budget.allows(now));
        budget.spend(now, Duration::from_millis(200));
        assert!(!budget.allows(now + Duration::from_millis(2_999)));
        assert!(budget.allows(now + Duration::from_secs(3)));
    }
}
