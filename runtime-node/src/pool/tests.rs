use std::cell::Cell;
use std::rc::Rc;

use tenon_proto::failure::{FailureCode, Phase};

use super::*;

#[derive(Clone)]
struct Fake(Rc<State>);

struct State {
    worker: WorkerId,
    busy: Cell<bool>,
    condemned: Cell<bool>,
}

impl Fake {
    fn of(worker: &str) -> Self {
        let worker = WorkerId::new("shop", worker);
        Self(Rc::new(State { worker, busy: Cell::new(false), condemned: Cell::new(false) }))
    }
}

impl Occupant for Fake {
    fn worker(&self) -> &WorkerId {
        &self.0.worker
    }

    fn is_busy(&self) -> bool {
        self.0.busy.get()
    }

    fn condemned(&self) -> Option<FailureCode> {
        self.0.condemned.get().then_some(FailureCode::CpuLimitExceeded)
    }
}

/// A pool and the time it is told.
struct Shard {
    pool: Pool<Fake, ()>,
    now: Instant,
}

impl Shard {
    fn with(capacity: usize) -> Self {
        Self { pool: Pool::new(capacity), now: Instant::now() }
    }

    fn look_up(&mut self, n: u8) -> Lookup<Fake, ()> {
        self.pool.look_up(&digest(n), self.now)
    }

    /// Revision `n` of a Worker, started for a request.
    fn start(&mut self, n: u8, worker: &str) -> Fake {
        assert!(matches!(self.look_up(n), Lookup::Start), "{n} has no slot");
        self.pool.starting(digest(n), ());
        let fake = Fake::of(worker);
        self.pool.started(digest(n), fake.clone(), self.now);
        fake
    }

    fn fail(&mut self, n: u8, retry: Retry) {
        self.pool.failed(digest(n), failure(), retry, self.now);
    }

    fn is_warm(&mut self, n: u8) -> bool {
        matches!(self.pool.slots.get(&digest(n)), Some(Slot::Warm { .. }))
    }

    fn evicted(&mut self) -> Vec<Eviction> {
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
    assert!(matches!(shard.look_up(1), Lookup::Start));
    shard.pool.starting(digest(1), ());
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
fn the_least_recently_used_makes_room() {
    let mut shard = Shard::with(2);
    shard.start(1, "one");
    shard.start(2, "two");
    assert!(matches!(shard.look_up(1), Lookup::Warm(_)));
    shard.start(3, "three");
    assert!(shard.is_warm(1) && !shard.is_warm(2) && shard.is_warm(3));
    assert_eq!(shard.evicted(), [Eviction::Room]);
    assert_eq!(shard.evicted(), []);
}

#[test]
fn a_busy_one_never_makes_room() {
    let mut shard = Shard::with(2);
    shard.start(1, "one").0.busy.set(true);
    shard.start(2, "two");
    shard.start(3, "three").0.busy.set(true);
    assert!(shard.is_warm(1) && !shard.is_warm(2));
    assert!(matches!(shard.look_up(4), Lookup::Full));
}

#[test]
fn a_start_under_way_never_makes_room() {
    let mut shard = Shard::with(1);
    assert!(matches!(shard.look_up(1), Lookup::Start));
    shard.pool.starting(digest(1), ());
    assert!(matches!(shard.look_up(2), Lookup::Full));
}

#[test]
fn a_condemned_one_is_replaced_by_the_next_request() {
    let mut shard = Shard::with(1);
    shard.start(1, "cart").0.condemned.set(true);
    assert!(matches!(shard.look_up(1), Lookup::Start));
    assert_eq!(shard.evicted(), [Eviction::Condemned]);
}

#[test]
fn a_revision_that_keeps_failing_is_tried_less_and_less() {
    let mut shard = Shard::with(1);
    let mut pause = FIRST_BACK_OFF;
    for _ in 0..10 {
        shard.fail(1, Retry::BackOff);
        assert!(matches!(shard.look_up(1), Lookup::Failed(told) if told == failure()));
        shard.wait(pause - Duration::from_millis(1));
        assert!(matches!(shard.look_up(1), Lookup::Failed(_)), "after {pause:?}");
        shard.wait(Duration::from_millis(1));
        assert!(matches!(shard.look_up(1), Lookup::Start), "after {pause:?}");
        pause = (pause * 2).min(LONGEST_BACK_OFF);
    }
}

#[test]
fn a_success_wipes_the_failures_out() {
    let mut shard = Shard::with(1);
    shard.fail(1, Retry::BackOff);
    shard.wait(FIRST_BACK_OFF);
    shard.start(1, "cart");
    shard.fail(1, Retry::BackOff);
    shard.wait(FIRST_BACK_OFF);
    assert!(matches!(shard.look_up(1), Lookup::Start));
}

#[test]
fn what_could_not_be_had_is_tried_again_soon_however_often_it_was_missing() {
    let mut shard = Shard::with(1);
    for _ in 0..3 {
        shard.fail(1, Retry::Soon);
        assert!(matches!(shard.look_up(1), Lookup::Failed(_)));
        shard.wait(MISSING_PAUSE);
        assert!(matches!(shard.look_up(1), Lookup::Start));
    }
}

#[test]
fn failures_of_long_ago_are_forgotten() {
    let mut shard = Shard::with(1);
    (1..100).for_each(|n| shard.fail(n, Retry::BackOff));
    shard.wait(FIRST_BACK_OFF + LONGEST_BACK_OFF);
    shard.fail(100, Retry::BackOff);
    assert_eq!(shard.pool.failures.len(), 1);
}

#[test]
fn an_older_revision_that_nobody_asks_for_makes_way_for_the_newer() {
    let mut shard = Shard::with(9);
    shard.start(1, "cart");
    shard.start(2, "shop");
    shard.wait(SUPERSEDED_AFTER);
    shard.start(3, "cart");
    assert!(!shard.is_warm(1) && shard.is_warm(2) && shard.is_warm(3));
    assert_eq!(shard.evicted(), [Eviction::Superseded]);
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
    shard.start(1, "cart").0.busy.set(true);
    shard.wait(SUPERSEDED_AFTER);
    shard.start(2, "cart");
    assert!(shard.is_warm(1));
}

/// Starts revision 1 and has its isolate condemned after so many requests.
fn live(shard: &mut Shard, requests: u32) {
    let fake = shard.start(1, "cart");
    for _ in 0..requests {
        assert!(matches!(shard.look_up(1), Lookup::Warm(_)));
    }
    fake.0.condemned.set(true);
}

#[test]
fn a_revision_whose_isolates_are_condemned_again_and_again_rests_for_longer_each_time() {
    let mut shard = Shard::with(4);
    for _ in 0..=TOLERATED {
        live(&mut shard, 1);
    }
    for rest in [FIRST_REST, FIRST_REST * 2, FIRST_REST * 4] {
        let Lookup::Failed(failure) = shard.look_up(1) else { panic!("it rests") };
        assert_eq!(failure.code, FailureCode::CpuLimitExceeded);
        shard.now += rest;
        live(&mut shard, 1);
    }
    assert!(shard.pool.is_on_trial(&digest(1)));
    let notices = shard.pool.take_notices();
    let times = notices.iter().map(|notice| match notice {
        Notice::Failing { times, .. } => *times,
        Notice::Recovered(_) => 0,
    });
    assert_eq!(times.collect::<Vec<_>>(), [TOLERATED + 1, TOLERATED + 2, TOLERATED + 3]);
}

#[test]
fn one_that_serves_many_before_it_is_condemned_does_not_rest_and_has_recovered() {
    let mut shard = Shard::with(4);
    for _ in 0..TOLERATED {
        live(&mut shard, 1);
    }
    live(&mut shard, SETTLED);
    assert_eq!(shard.pool.take_notices(), [Notice::Recovered(digest(1))]);
    assert!(!shard.pool.is_on_trial(&digest(1)));
    for _ in 0..TOLERATED {
        live(&mut shard, 1);
    }
    assert!(matches!(shard.look_up(1), Lookup::Start));
}

#[test]
fn long_ago_is_forgiven() {
    let mut shard = Shard::with(4);
    for _ in 0..TOLERATED {
        live(&mut shard, 1);
    }
    shard.now += FORGIVEN_AFTER;
    live(&mut shard, 1);
    assert!(matches!(shard.look_up(1), Lookup::Start));
}
