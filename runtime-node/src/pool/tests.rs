//! Tests which isolates a pool starts, returns and evicts.

use std::cell::Cell;

use tenon_proto::failure::Phase;

use super::crash_backoff::{
    FIRST_BACK_OFF, FIRST_PAUSE, LONGEST_BACK_OFF, MISSING_PAUSE, TOLERATED,
};
use super::*;

mod model;

#[derive(Clone)]
struct Fake(Rc<State>);

struct State {
    worker: WorkerId,
    condition: Cell<Condition>,
}

impl Fake {
    fn of(namespace: &str, worker: &str) -> Self {
        let worker = WorkerId::new(namespace, worker);
        Self(Rc::new(State { worker, condition: Cell::new(Condition::Idle) }))
    }

    fn set_condition(&self, condition: Condition) {
        self.0.condition.set(condition);
    }
}

impl Occupant for Fake {
    fn worker(&self) -> &WorkerId {
        &self.0.worker
    }

    fn condition(&self) -> Condition {
        self.0.condition.get()
    }
}

const CONDEMNED: Condition = Condition::Spent(Spent::Condemned(FailureCode::CpuLimitExceeded));

/// A pool and the current time of its test.
struct Shard {
    pool: Pool<Fake, ()>,
    now: Instant,
}

impl Shard {
    fn with(capacity: usize) -> Self {
        Self { pool: Pool::new(capacity), now: Instant::now() }
    }

    fn look_up(&mut self, n: u8) -> Lookup<'_, Fake, ()> {
        self.look_up_for("shop", Share::Most, n)
    }

    fn look_up_for(&mut self, tenant: &str, share: Share, n: u8) -> Lookup<'_, Fake, ()> {
        self.pool.look_up(&digest(n), &tenant.into(), share, self.now)
    }

    fn launch(&mut self, n: u8) -> Launch {
        let Lookup::Start(vacancy) = self.look_up(n) else {
            panic!("revision {n} was refused a start")
        };
        vacancy.starting(())
    }

    /// Starts revision `n` of a Worker because of a request.
    fn start(&mut self, n: u8, worker: &str) -> Fake {
        let launch = self.launch(n);
        let fake = Fake::of("shop", worker);
        self.pool.started(launch, fake.clone(), self.now);
        fake
    }

    /// Starts revision `n` for a tenant whose share is half of the slots. Returns `None` if the
    /// start is refused.
    fn start_for(&mut self, tenant: &str, n: u8) -> Option<Fake> {
        let Lookup::Start(vacancy) = self.look_up_for(tenant, Share::Half, n) else { return None };
        let launch = vacancy.starting(());
        let fake = Fake::of(tenant, &format!("worker-{n}"));
        self.pool.started(launch, fake.clone(), self.now);
        Some(fake)
    }

    fn fail(&mut self, n: u8, retry: Retry) {
        let launch = self.launch(n);
        self.pool.failed(launch, failure(), retry, self.now);
    }

    fn is_warm(&self, n: u8) -> bool {
        matches!(self.pool.slots.get(&digest(n)), Some(Slot::Warm(_)))
    }

    fn take_evictions(&mut self) -> Vec<Eviction> {
        self.pool.take_evicted().into_iter().map(|(why, _)| why).collect()
    }

    fn wait(&mut self, duration: Duration) {
        self.now += duration;
    }
}

fn digest(n: u8) -> RevisionDigest {
    RevisionDigest::new([n; 32])
}

fn failure() -> Failure {
    Failure::new(FailureCode::WorkerStartFailed, Phase::Start, "")
}

#[test]
fn many_requests_for_one_cold_revision_wait_for_one_start() {
    let mut shard = Shard::with(2);
    let _launch = shard.launch(1);
    for _ in 0..3 {
        assert!(matches!(shard.look_up(1), Lookup::Join(())));
    }
    assert_eq!(shard.pool.count(), (0, 1));
}

#[test]
fn a_warm_isolate_gets_its_revisions_requests() {
    let mut shard = Shard::with(2);
    let started = shard.start(1, "cart");
    assert!(matches!(shard.look_up(1), Lookup::Warm(found) if Rc::ptr_eq(&found.0, &started.0)));
    assert_eq!(shard.pool.count(), (1, 0));
}

#[test]
fn the_least_recently_used_isolate_is_evicted() {
    let mut shard = Shard::with(2);
    shard.start(1, "one");
    shard.start(2, "two");
    assert!(matches!(shard.look_up(1), Lookup::Warm(_)));
    shard.start(3, "three");
    assert!(shard.is_warm(1) && !shard.is_warm(2) && shard.is_warm(3));
    assert_eq!(shard.take_evictions(), [Eviction::Room]);
    assert_eq!(shard.take_evictions(), []);
}

#[test]
fn a_busy_isolate_is_never_evicted() {
    let mut shard = Shard::with(2);
    shard.start(1, "one").set_condition(Condition::Busy);
    shard.start(2, "two");
    shard.start(3, "three").set_condition(Condition::Busy);
    assert!(shard.is_warm(1) && !shard.is_warm(2));
    assert!(matches!(shard.look_up_for("news", Share::Half, 4), Lookup::Refused(Obstacle::Full)));
}

#[test]
fn a_starting_isolate_is_never_evicted() {
    let mut shard = Shard::with(1);
    let _launch = shard.launch(1);
    assert!(matches!(shard.look_up_for("news", Share::Most, 2), Lookup::Refused(Obstacle::Full)));
}

#[test]
fn a_condemned_isolate_is_replaced_by_the_next_request() {
    let mut shard = Shard::with(1);
    shard.start(1, "cart").set_condition(CONDEMNED);
    assert!(matches!(shard.look_up(1), Lookup::Start(_)));
    assert_eq!(shard.take_evictions(), [Eviction::Condemned]);
}

#[test]
fn a_retired_isolate_is_replaced_without_a_strike() {
    let mut shard = Shard::with(1);
    for _ in 0..=TOLERATED * 2 {
        shard.start(1, "cart").set_condition(Condition::Spent(Spent::Retired));
    }
    assert!(matches!(shard.look_up(1), Lookup::Start(_)));
    assert_eq!(shard.take_evictions(), vec![Eviction::Retired; TOLERATED as usize * 2 + 1]);
    assert_eq!(shard.pool.take_notices(), []);
}

#[test]
fn a_condemned_isolate_is_evicted_first_and_counts_as_a_strike() {
    let mut shard = Shard::with(2);
    for n in 1..=TOLERATED as u8 + 1 {
        shard.start(100, "worker");
        shard.start(0, "cart").set_condition(CONDEMNED);
        shard.start(n, "other");
        assert!(!shard.is_warm(0) && shard.is_warm(100));
        shard.pool.evict_one(Eviction::Memory, shard.now);
        shard.pool.evict_one(Eviction::Memory, shard.now);
    }
    assert!(matches!(shard.look_up(0), Lookup::Refused(Obstacle::Failed(_))));
}

#[test]
fn an_unused_vacancy_evicts_nothing() {
    let mut shard = Shard::with(1);
    shard.start(1, "cart");
    assert!(matches!(shard.look_up(2), Lookup::Start(_)));
    assert!(shard.is_warm(1));
    assert_eq!(shard.take_evictions(), []);
}

#[test]
fn a_tenant_at_its_share_evicts_its_own_isolates() {
    let mut shard = Shard::with(4);
    shard.start_for("news", 1).unwrap();
    shard.start_for("shop", 2).unwrap();
    shard.start_for("shop", 3).unwrap();
    shard.start_for("shop", 4).unwrap();
    assert!(shard.is_warm(1) && !shard.is_warm(2) && shard.is_warm(3) && shard.is_warm(4));
}

#[test]
fn a_tenant_whose_share_is_busy_gets_no_further_slot_but_another_tenant_does() {
    let mut shard = Shard::with(4);
    shard.start_for("shop", 1).unwrap().set_condition(Condition::Busy);
    shard.start_for("shop", 2).unwrap().set_condition(Condition::Busy);
    assert!(matches!(
        shard.look_up_for("shop", Share::Half, 3),
        Lookup::Refused(Obstacle::OverShare)
    ));
    assert!(shard.start_for("news", 4).is_some());
}

#[test]
fn isolates_beyond_a_tenants_share_are_evicted_first() {
    let mut shard = Shard::with(8);
    shard.start_for("news", 1).unwrap();
    (2..=8).for_each(|n| drop(shard.start(n, "shop")));
    assert!(matches!(shard.look_up(9), Lookup::Start(_)));
    // Isolate 1 is the least recently used one, but the tenant `news` is within its share.
    shard.start_for("mail", 9).unwrap();
    assert!(shard.is_warm(1) && !shard.is_warm(2));
}

#[test]
fn the_largest_idle_isolate_is_returned_once_between_uses() {
    let mut shard = Shard::with(4);
    for (n, worker) in [(1, "s"), (2, "larger"), (3, "the largest")] {
        shard.start(n, worker);
    }
    shard.start(4, "busy and so not asked").set_condition(Condition::Busy);
    let size = |fake: &Fake| fake.worker().name().len();
    let next = |shard: &mut Shard| {
        shard.pool.largest_idle(size).map(|fake| fake.worker().name().to_owned())
    };
    assert_eq!(next(&mut shard).as_deref(), Some("the largest"));
    assert_eq!(next(&mut shard).as_deref(), Some("larger"));
    assert!(matches!(shard.look_up(3), Lookup::Warm(_)));
    assert_eq!(next(&mut shard).as_deref(), Some("the largest"));
    assert_eq!(next(&mut shard).as_deref(), Some("s"));
    assert_eq!(next(&mut shard), None);
}

#[test]
fn evict_idle_evicts_idle_and_condemned_isolates() {
    let mut shard = Shard::with(4);
    shard.start(1, "unused");
    shard.start(2, "busy").set_condition(Condition::Busy);
    shard.wait(Duration::from_secs(60));
    shard.start(3, "spent").set_condition(CONDEMNED);
    shard.start(4, "new");
    shard.pool.evict_idle(Duration::from_secs(60), shard.now);
    assert!(!shard.is_warm(1) && shard.is_warm(2) && !shard.is_warm(3) && shard.is_warm(4));
    let mut evicted = shard.take_evictions();
    evicted.sort_by_key(|why| why.as_str());
    assert_eq!(evicted, [Eviction::Condemned, Eviction::Idle]);
}

#[test]
fn a_revision_that_keeps_failing_is_tried_at_longer_intervals() {
    let mut shard = Shard::with(1);
    let mut pause = FIRST_BACK_OFF;
    for _ in 0..10 {
        shard.fail(1, Retry::BackOff);
        assert!(
            matches!(shard.look_up(1), Lookup::Refused(Obstacle::Failed(reported)) if reported == failure())
        );
        shard.wait(pause - Duration::from_millis(1));
        assert!(
            matches!(shard.look_up(1), Lookup::Refused(Obstacle::Failed(_))),
            "after {pause:?}"
        );
        shard.wait(Duration::from_millis(1));
        assert!(matches!(shard.look_up(1), Lookup::Start(_)), "after {pause:?}");
        pause = (pause * 2).min(LONGEST_BACK_OFF);
    }
}

#[test]
fn a_successful_start_resets_the_back_off() {
    let mut shard = Shard::with(1);
    shard.fail(1, Retry::BackOff);
    shard.wait(FIRST_BACK_OFF);
    shard.start(1, "cart").set_condition(Condition::Spent(Spent::Retired));
    shard.fail(1, Retry::BackOff);
    shard.wait(FIRST_BACK_OFF);
    assert!(matches!(shard.look_up(1), Lookup::Start(_)));
}

#[test]
fn a_missing_revision_is_retried_after_a_constant_pause() {
    let mut shard = Shard::with(1);
    for _ in 0..3 {
        shard.fail(1, Retry::Soon);
        assert!(matches!(shard.look_up(1), Lookup::Refused(Obstacle::Failed(_))));
        shard.wait(MISSING_PAUSE);
        assert!(matches!(shard.look_up(1), Lookup::Start(_)));
    }
}

#[test]
fn an_unused_older_revision_is_evicted_for_the_newer_one() {
    let mut shard = Shard::with(9);
    shard.start(1, "cart");
    shard.start(2, "shop");
    shard.wait(SUPERSEDED_AFTER);
    shard.start(3, "cart");
    assert!(!shard.is_warm(1) && shard.is_warm(2) && shard.is_warm(3));
    assert_eq!(shard.take_evictions(), [Eviction::Superseded]);
}

#[test]
fn revisions_that_share_the_traffic_stay() {
    let mut shard = Shard::with(9);
    shard.start(1, "cart");
    shard.wait(SUPERSEDED_AFTER);
    assert!(matches!(shard.look_up(1), Lookup::Warm(_)));
    shard.start(2, "cart");
    assert!(shard.is_warm(1) && shard.is_warm(2));
}

#[test]
fn a_busy_older_revision_stays() {
    let mut shard = Shard::with(9);
    shard.start(1, "cart").set_condition(Condition::Busy);
    shard.wait(SUPERSEDED_AFTER);
    shard.start(2, "cart");
    assert!(shard.is_warm(1));
}

/// Starts revision 1, and condemns its isolate after this many requests.
fn condemn_after(shard: &mut Shard, requests: u32) {
    let fake = shard.start(1, "cart");
    for _ in 0..requests {
        assert!(matches!(shard.look_up(1), Lookup::Warm(_)));
    }
    fake.set_condition(CONDEMNED);
}

#[test]
fn a_revision_whose_isolates_are_condemned_repeatedly_backs_off_for_longer_each_time() {
    let mut shard = Shard::with(4);
    for _ in 0..=TOLERATED {
        condemn_after(&mut shard, 1);
    }
    for pause in [FIRST_PAUSE, FIRST_PAUSE * 2, FIRST_PAUSE * 4] {
        let Lookup::Refused(Obstacle::Failed(failure)) = shard.look_up(1) else {
            panic!("the revision is not in back-off")
        };
        assert_eq!(failure.code, FailureCode::CpuLimitExceeded);
        shard.now += pause;
        condemn_after(&mut shard, 1);
    }
    assert!(shard.pool.is_reported(&digest(1)));
    let notices = shard.pool.take_notices();
    let times = notices.iter().map(|notice| match notice {
        Notice::Failing { times, .. } => *times,
        Notice::Recovered(_) => 0,
    });
    assert_eq!(times.collect::<Vec<_>>(), [TOLERATED + 1, TOLERATED + 2, TOLERATED + 3]);
}

#[test]
fn only_time_clears_the_strikes_of_a_revision() {
    let mut shard = Shard::with(4);
    for _ in 0..=TOLERATED {
        condemn_after(&mut shard, 100);
    }
    assert!(matches!(shard.look_up(1), Lookup::Refused(Obstacle::Failed(_))));
    assert!(shard.pool.is_reported(&digest(1)));
    shard.pool.take_notices();
    shard.wait(Duration::from_secs(60));
    shard.pool.evict_idle(Duration::from_secs(600), shard.now);
    assert_eq!(shard.pool.take_notices(), [Notice::Recovered(digest(1))]);
    condemn_after(&mut shard, 1);
    assert!(matches!(shard.look_up(1), Lookup::Start(_)));
}
