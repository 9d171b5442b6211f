//! Collections of garbage that we have V8 do, beside those that it does when it finds fit.
//!
//! There are three occasions. What a Worker wants to hand out, or is to be given, finds no room in the budget of its array
//! buffers, some of which may be garbage, or these have become many since the last time ([`make_room`]): a stream's pieces
//! are garbage as soon as they have been passed on, but V8, which looks at its own heap, lets some 100 MiB of them come
//! together first. And a shard that is short of memory has an idle isolate give back what it can ([`Isolate::collect`]).
//!
//! A collection runs on the shard's thread and cannot be interrupted. What it takes goes by what is alive in V8's heap,
//! and hardly by what is garbage or in array buffers: some 3 ms for a small Worker, and 3 to 5 ms more for each MiB of
//! small objects, so half a second for a heap of 100 MiB. A Worker can bring about the first two as often as it
//! likes. So each isolate has a [`CollectionBudget`], and what it cannot pay for is not done: the call fails as if
//! nothing had been garbage.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Isolate;
use super::heap::BufferBudget;
use super::state::State;
use super::watchdog::CpuClock;

/// Of how much time one part may go into collections: 5 %.
const SHARE: u32 = 20;

/// How much time may be saved up: so many times [`SHARE`] less of collections in a row, which is as much as an
/// invocation may use by default.
const SAVINGS: Duration = Duration::from_secs(1);

/// The largest heap that is collected without need, in bytes: about as long as that takes, a Worker may keep the others
/// waiting anyway. Where a shard is to be relieved, to let go of a larger one gives back more, and sooner.
const LARGEST_HEAP: usize = 16 << 20;

/// By how much array buffers have to grow, at least, before it is worth a collection to see which of them are garbage, in
/// bytes. A stream that fills this in a tenth of a second spends 3 % of its time on that.
const GROWTH: usize = 16 << 20;

/// The collections of one isolate that we have forced.
#[derive(Debug, Default)]
pub(super) struct Collections {
    budget: Cell<CollectionBudget>,
    /// What its array buffers had, in bytes, when they were last looked at, or less if they have had less since.
    kept: Cell<usize>,
}

impl Collections {
    /// Whether so many bytes of array buffers may well be garbage for the most part: as with V8's own heap, more than half
    /// of them are new.
    fn are_due(&self, used: usize) -> bool {
        let kept = self.kept.get().min(used);
        self.kept.set(kept);
        used - kept > kept.max(GROWTH)
    }
}

/// How much of an isolate's time forced collections may take.
///
/// Each has to be earned: after one of 2 ms the isolate is in debt for 40 ms. Who is in debt for no more than
/// [`SAVINGS`] may have another.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CollectionBudget {
    /// When those so far will have been earned.
    earned: Option<Instant>,
}

impl CollectionBudget {
    /// Whether there may be one now.
    fn allows(&self, now: Instant) -> bool {
        self.earned.is_none_or(|earned| earned <= now + SAVINGS)
    }

    /// There has been one.
    fn spend(&mut self, began: Instant, cost: Duration) {
        let debt_from = self.earned.map_or(began, |earned| earned.max(began));
        self.earned = Some(debt_from + cost * SHARE);
    }
}

impl Isolate {
    /// Has an idle isolate give back memory that it has no use for, which stops the thread for some milliseconds (see
    /// above). How many bytes that were; `None` when nothing has been done, because it is not idle, is too large for it,
    /// or has done so too often for now.
    pub fn collect(&self) -> Option<usize> {
        if self.is_sealed() || self.in_flight() > 0 || !is_small(&mut self.vm.borrow_mut().isolate) {
            return None;
        }
        let before = self.memory_bytes();
        self.look(|scope, _| within(&self.state.collections.budget, || press(scope)).then_some(()))?;
        Some(before.saturating_sub(self.memory_bytes()))
    }
}

/// The isolate's budget of array buffers, once it has room for so many bytes more: what fills it may be garbage, as V8
/// finds out for the array buffers that it makes itself. `None` when it has not, or when to find that out would cost
/// more than the isolate has left for that.
pub(super) fn make_room(scope: &mut v8::PinScope<'_, '_>, length: usize) -> Option<Arc<BufferBudget>> {
    let state = State::of(scope);
    let (buffers, collections) = (&state.buffers, &state.collections);
    if length <= buffers.limit() {
        if !buffers.has_room(length.max(1)) {
            within(&collections.budget, || press(scope));
        } else if collections.are_due(buffers.used() + length)
            && (!is_small(scope) || within(&collections.budget, || buffers.have_collected(scope)))
        {
            collections.kept.set(buffers.used());
        }
    }
    buffers.has_room(length).then(|| Arc::clone(buffers))
}

fn is_small(isolate: &mut v8::Isolate) -> bool {
    isolate.get_heap_statistics().used_heap_size() <= LARGEST_HEAP
}

/// A collection of all that there is, and of what V8 keeps to be faster.
fn press(isolate: &mut v8::Isolate) {
    // `low_memory_notification` would collect again and again until nothing more is found.
    isolate.memory_pressure_notification(v8::MemoryPressureLevel::Critical);
    isolate.memory_pressure_notification(v8::MemoryPressureLevel::None);
}

/// Collects if the budget allows it, and says whether it did.
fn within(budget: &Cell<CollectionBudget>, collect: impl FnOnce()) -> bool {
    let mut left = budget.get();
    let began = Instant::now();
    if !left.allows(began) {
        return false;
    }
    // A thread that has to wait for its processor is not to pay for that.
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
            asks in prop::collection::vec((0_u64..200_000, 0_u64..100_000), 1..200),
        ) {
            let start = Instant::now();
            let mut now = start;
            let mut budget = CollectionBudget::default();
            let mut done: Vec<(Instant, Duration)> = Vec::new();
            for (pause, cost) in asks {
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
                    // All but the last, which may be as long as it is.
                    let spent: Duration = done[first..last].iter().map(|(_, cost)| *cost).sum();
                    let stretch = done[last].0 - done[first].0;
                    prop_assert!(spent * SHARE <= stretch + SAVINGS, "{spent:?} of {stretch:?}");
                }
            }
        }

        #[test]
        fn who_waits_may_always_have_another(costs in prop::collection::vec(0_u64..100_000, 0..50)) {
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
    fn buffers_are_looked_at_when_they_have_grown_by_much_and_to_twice_what_was_kept() {
        let collections = Collections::default();
        assert!(!collections.are_due(GROWTH));
        assert!(collections.are_due(GROWTH + 1));
        collections.kept.set(3 * GROWTH);
        assert!(!collections.are_due(6 * GROWTH));
        assert!(collections.are_due(6 * GROWTH + 1));
        assert!(!collections.are_due(0));
        assert!(collections.are_due(GROWTH + 1), "what they have now is all that may be worth to keep");
    }

    #[test]
    fn a_first_one_is_free_and_a_long_one_is_paid_for_later() {
        let now = Instant::now();
        let mut budget = CollectionBudget::default();
        assert!(budget.allows(now));
        budget.spend(now, Duration::from_millis(200));
        assert!(!budget.allows(now + Duration::from_millis(2_999)));
        assert!(budget.allows(now + Duration::from_secs(3)));
    }
}
