//! Tests that the pool behaves like a simple model after every step, for any sequence of steps.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;

const TENANTS: [&str; 3] = ["shop", "news", "mail"];
const CAPACITIES: std::ops::Range<usize> = 1..7;

#[derive(Clone, Debug)]
enum Step {
    /// A request arrives for the revision with this number, which determines the tenant.
    LookUp(u8, Share),
    /// One of the pending starts succeeds, or fails.
    Started(Index),
    Failed(Index),
    /// One of the isolates begins an invocation, or becomes idle.
    Busy(Index),
    Idle(Index),
    Condemn(Index),
    Retire(Index),
    Wait(u64),
    EvictOne,
    EvictIdle,
}

fn step() -> impl Strategy<Value = Step> {
    let one = any::<Index>;
    let shares = prop::sample::select(&[Share::Half, Share::Most][..]);
    prop_oneof![
        6 => (0..12_u8, shares).prop_map(|(n, share)| Step::LookUp(n, share)),
        5 => one().prop_map(Step::Started),
        1 => one().prop_map(Step::Failed),
        3 => one().prop_map(Step::Busy),
        2 => one().prop_map(Step::Idle),
        1 => one().prop_map(Step::Condemn),
        1 => one().prop_map(Step::Retire),
        1 => (0..100_000_u64).prop_map(Step::Wait),
        1 => Just(Step::EvictOne),
        1 => Just(Step::EvictIdle),
    ]
}

fn tenant(n: u8) -> &'static str {
    TENANTS[usize::from(n) % TENANTS.len()]
}

/// The expected state of a pool, kept as simply as possible.
#[derive(Default)]
struct Model {
    starting: BTreeMap<u8, Launch>,
    /// Warm isolates with the step of their last use.
    warm: BTreeMap<u8, (Fake, usize)>,
    evicted: Vec<Fake>,
}

impl Model {
    fn slots(&self) -> usize {
        self.starting.len() + self.warm.len()
    }

    /// Returns how many of a tenant's isolates are starting or can serve.
    fn slots_of(&self, name: &str) -> usize {
        let useful = self.warm.values().filter(|(fake, _)| !is_spent(fake));
        let starting = self.starting.keys().filter(|n| tenant(**n) == name).count();
        starting + useful.filter(|(fake, _)| fake.worker().namespace() == name).count()
    }

    fn choose(&self, index: Index) -> Option<&Fake> {
        let all: Vec<_> = self.warm.values().map(|(fake, _)| fake).collect();
        (!all.is_empty()).then(|| *index.get(&all))
    }

    /// Returns the isolates that may be evicted, by number, in the required order.
    fn victims(&self, capacity: usize) -> Vec<u8> {
        let mut victims: Vec<_> = self
            .warm
            .iter()
            .filter(|(_, (fake, _))| fake.condition() != Condition::Busy)
            .map(|(n, (fake, used))| {
                let has_half = self.slots_of(tenant(*n)) <= capacity.div_ceil(2);
                ((!is_spent(fake), !is_spent(fake) && has_half, *used), *n)
            })
            .collect();
        victims.sort_unstable();
        victims.into_iter().map(|(_, n)| n).collect()
    }

    /// Removes from the model the isolates that the pool has evicted, and returns their numbers.
    fn remove_evicted(
        &mut self,
        evicted: Vec<(Eviction, Fake)>,
    ) -> Result<BTreeSet<u8>, TestCaseError> {
        let mut removed = BTreeSet::new();
        for (why, fake) in evicted {
            prop_assert!(
                !self.evicted.iter().any(|earlier| Rc::ptr_eq(&earlier.0, &fake.0)),
                "an isolate was evicted twice"
            );
            let n = self
                .warm
                .iter()
                .find(|(_, (warm, _))| Rc::ptr_eq(&warm.0, &fake.0))
                .map(|(n, _)| *n);
            let Some(n) = n else {
                return Err(TestCaseError::fail("an isolate that is not warm was evicted"));
            };
            self.warm.remove(&n);
            match fake.condition() {
                Condition::Busy => {
                    return Err(TestCaseError::fail("a busy isolate was evicted"));
                }
                Condition::Idle => {
                    prop_assert!(!matches!(why, Eviction::Condemned | Eviction::Retired))
                }
                Condition::Spent(Spent::Retired) => prop_assert_eq!(why, Eviction::Retired),
                Condition::Spent(Spent::Condemned(_)) => prop_assert_eq!(why, Eviction::Condemned),
            }
            removed.insert(n);
            self.evicted.push(fake);
        }
        Ok(removed)
    }
}

fn is_spent(fake: &Fake) -> bool {
    matches!(fake.condition(), Condition::Spent(_))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn a_pool_behaves_as_its_model(
        steps in prop::collection::vec(step(), 0..80),
        capacity in CAPACITIES,
    ) {
        let (mut shard, mut model) = (Shard::with(capacity), Model::default());
        for (at, step) in steps.into_iter().enumerate() {
            let mut expected = None;
            match step {
                Step::LookUp(n, share) => look_up(&mut shard, &mut model, n, share, at)?,
                Step::Started(index) if !model.starting.is_empty() => {
                    let n = *index.get(&model.starting.keys().copied().collect::<Vec<_>>());
                    let launch = model.starting.remove(&n).expect("`n` is a key of `starting`");
                    let fake = Fake::of(tenant(n), &format!("worker-{n}"));
                    shard.pool.started(launch, fake.clone(), shard.now);
                    model.warm.insert(n, (fake, at));
                }
                Step::Failed(index) if !model.starting.is_empty() => {
                    let n = *index.get(&model.starting.keys().copied().collect::<Vec<_>>());
                    let launch = model.starting.remove(&n).expect("`n` is a key of `starting`");
                    shard.pool.failed(launch, failure(), Retry::BackOff, shard.now);
                    let found = shard.look_up_for(tenant(n), Share::Half, n);
                    let refused = matches!(found, Lookup::Refused(Obstacle::Failed(_)));
                    prop_assert!(refused);
                }
                Step::Started(_) | Step::Failed(_) => {}
                Step::Busy(index) => set_condition(&model, index, Condition::Busy),
                Step::Idle(index) => set_condition(&model, index, Condition::Idle),
                Step::Condemn(index) => set_condition(&model, index, CONDEMNED),
                Step::Retire(index) => {
                    set_condition(&model, index, Condition::Spent(Spent::Retired));
                }
                Step::Wait(ms) => shard.wait(Duration::from_millis(ms)),
                Step::EvictOne => {
                    expected = Some(model.victims(capacity).into_iter().take(1).collect());
                    let found = shard.pool.evict_one(Eviction::Memory, shard.now);
                    prop_assert_eq!(found, !model.victims(capacity).is_empty());
                }
                Step::EvictIdle => {
                    let spent = model.warm.iter().filter(|(_, (fake, _))| is_spent(fake));
                    let spent = spent.map(|(n, _)| *n);
                    expected = Some(spent.collect::<BTreeSet<_>>());
                    // The idle time is longer than any run of this test.
                    shard.pool.evict_idle(Duration::from_secs(1_000_000), shard.now);
                }
            }
            let removed = model.remove_evicted(shard.pool.take_evicted())?;
            if let Some(expected) = expected {
                prop_assert_eq!(removed, expected);
            }
            prop_assert_eq!(shard.pool.count(), (model.warm.len(), model.starting.len()));
            prop_assert!(model.slots() <= capacity);
        }
    }
}

fn set_condition(model: &Model, index: Index, condition: Condition) {
    // A spent isolate stays spent.
    if let Some(fake) = model.choose(index).filter(|fake| !is_spent(fake)) {
        fake.set_condition(condition);
    }
}

/// Looks up a revision, and checks the result and the evictions against the model.
fn look_up(
    shard: &mut Shard,
    model: &mut Model,
    n: u8,
    share: Share,
    at: usize,
) -> Result<(), TestCaseError> {
    let capacity = shard.pool.capacity;
    // A lookup evicts the revision's isolate if that isolate is spent, whatever the lookup returns.
    let replaced = model.warm.get(&n).is_some_and(|(fake, _)| is_spent(fake));
    if replaced {
        model.evicted.extend(model.warm.remove(&n).map(|(fake, _)| fake));
    }
    let own = model.slots_of(tenant(n));
    let is_over = own >= share.of(capacity);
    let mut victims = model.victims(capacity);
    let is_full = model.slots() == capacity && victims.is_empty();
    if is_over {
        victims.retain(|victim| tenant(*victim) == tenant(n) && !is_spent(&model.warm[victim].0));
    }
    let needs_room = is_over || model.slots() == capacity;
    let has_slot = shard.pool.has(&digest(n));
    let has_room = shard.pool.has_room(&digest(n), tenant(n), share, shard.now);
    let launch = match shard.look_up_for(tenant(n), share, n) {
        Lookup::Warm(fake) => {
            let (known, used) =
                model.warm.get_mut(&n).expect("the pool returned an isolate that is not warm");
            prop_assert!(Rc::ptr_eq(&known.0, &fake.0) && !is_spent(&fake));
            *used = at;
            None
        }
        Lookup::Join(()) => {
            prop_assert!(model.starting.contains_key(&n), "there is no start to join");
            None
        }
        Lookup::Refused(_) if has_room => {
            prop_assert!(has_slot, "a start was refused although has_room is true");
            None
        }
        Lookup::Refused(Obstacle::Failed(_)) => {
            prop_assert!(!model.warm.contains_key(&n) && !model.starting.contains_key(&n));
            None
        }
        Lookup::Refused(Obstacle::Full) => {
            prop_assert!(is_full, "a start was refused although there is room");
            None
        }
        Lookup::Refused(Obstacle::OverShare) => {
            prop_assert!(
                !is_full && is_over && victims.is_empty(),
                "a start was refused although the tenant's share has room"
            );
            None
        }
        Lookup::Start(vacancy) => {
            prop_assert!(!model.warm.contains_key(&n) && !model.starting.contains_key(&n));
            prop_assert!(!is_full && (!is_over || !victims.is_empty()));
            prop_assert!(has_slot || has_room, "a start was allowed although has_room is false");
            Some(vacancy.starting(()))
        }
    };
    let mut evicted = shard.pool.take_evicted();
    if replaced {
        prop_assert!(is_spent(&evicted.remove(0).1));
    }
    let removed = model.remove_evicted(evicted)?;
    let Some(launch) = launch else {
        prop_assert!(removed.is_empty(), "isolates were evicted without a start");
        return Ok(());
    };
    let expected: BTreeSet<_> = victims.into_iter().take(usize::from(needs_room)).collect();
    prop_assert_eq!(removed, expected);
    model.starting.insert(n, launch);
    prop_assert!(model.slots_of(tenant(n)) <= own.max(share.of(capacity)));
    Ok(())
}
