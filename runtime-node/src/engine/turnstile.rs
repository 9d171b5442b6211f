//! Whose turn is next, so that no Worker's work holds up its neighbours for longer than one turn.
//!
//! ```text
//!  light ──────────────────────────────────────────────────────────────► its turn, at once
//!  heavy ──► the baton is free? ──► everybody else who is ready ───────► its turn ──► passes the baton on
//!                 │ no                                                     ▲
//!                 └──► waits: the earliest in virtual time goes first ─────┘
//! ```
//!
//! A thread runs what becomes ready in that order, so a Worker with a hundred requests of 50 ms each would be five
//! seconds ahead of whoever comes next, and one with a thousand of 1 ms one second. So an isolate has turns at once only
//! until they come to [`LONG`] together. Then it is *heavy*: it needs the one baton of its shard, which goes round among
//! the heavy by start-time fair queueing (Goyal, Vin and Cheng, 1996), and before a turn with the baton all others that
//! are ready have theirs. To the light, nearly all, this is one comparison.
//!
//! An isolate that has served nobody yet is taken for heavy, its start included. A Worker's place in the queue outlives its
//! isolates for as long as it has had more than its share, so that one that is stopped at every request is no stranger
//! each time.
//!
//! Belongs to one thread.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use rustc_hash::FxHashMap;
use tenon_proto::id::WorkerId;
use tokio::sync::oneshot;

/// What an isolate's turns may take before others are let through: a hundred times what an ordinary turn takes.
const LONG: Duration = Duration::from_millis(1);

/// How often the others that are ready are let through before a turn with the baton: what has come on a connection is
/// read, then the requests that were in it have their turns and their answers are written, and then those that only now
/// could go on have theirs.
const ROUNDS: u32 = 3;

/// Where a Worker's next turn begins in the virtual time of its shard, in which every turn takes its CPU time.
#[derive(Debug, Default)]
struct Share(Cell<Duration>);

/// What an isolate has had.
#[derive(Debug, Default)]
pub(super) struct Account {
    share: Rc<Share>,
    /// CPU time of its latest turn, which the next is expected to take as well. `None` before the first.
    latest: Cell<Option<Duration>>,
    /// CPU time of its turns since others were last let through.
    since: Cell<Duration>,
}

impl Account {
    fn is_heavy(&self) -> bool {
        self.latest.get().is_none_or(|latest| self.since.get() + latest > LONG)
    }

    /// What the next turn is expected to take.
    fn expected(&self) -> Duration {
        self.latest.get().unwrap_or(LONG)
    }
}

/// One shard's.
#[derive(Default)]
pub(super) struct Turnstile {
    baton_is_out: Cell<bool>,
    /// By the beginnings of their turns, and among equals by who came first.
    waiting: RefCell<BTreeMap<(Duration, u64), oneshot::Sender<Baton>>>,
    arrivals: Cell<u64>,
    /// Virtual time: the beginning of the latest turn with the baton.
    now: Cell<Duration>,
    shares: RefCell<FxHashMap<WorkerId, Rc<Share>>>,
}

/// The right to a turn, to be dropped when that has ended.
#[must_use = "dropping it lets the next one through"]
pub struct Pass {
    account: Rc<Account>,
    /// If the isolate is heavy.
    heavy: Option<(Claim, Baton)>,
}

/// Time taken from a Worker's share for a turn to come: given back when it is dropped, but for what was used.
struct Claim {
    account: Rc<Account>,
    begin: Duration,
    expected: Duration,
    used: Cell<Duration>,
}

/// What only one of the heavy has at a time. Goes to the next one when it is dropped.
struct Baton(Option<Rc<Turnstile>>);

impl Turnstile {
    /// The account of an isolate that is made for `worker`.
    pub(super) fn account(&self, worker: &WorkerId) -> Rc<Account> {
        let mut shares = self.shares.borrow_mut();
        // Who has no isolate and is not ahead of its time would begin as a stranger does.
        shares.retain(|_, share| Rc::strong_count(share) > 1 || share.0.get() > self.now.get());
        let share = Rc::clone(shares.entry(worker.clone()).or_default());
        Rc::new(Account { share, ..Account::default() })
    }

    /// Resolves when it is the isolate's turn: for a light one at once.
    pub(super) async fn enter(self: &Rc<Self>, account: &Rc<Account>) -> Pass {
        if !account.is_heavy() {
            return Pass { account: Rc::clone(account), heavy: None };
        }
        let claim = Claim::of(account, self.now.get());
        let baton = if self.baton_is_out.replace(true) {
            let arrival = self.arrivals.get();
            self.arrivals.set(arrival + 1);
            let (baton_tx, baton_rx) = oneshot::channel();
            self.waiting.borrow_mut().insert((claim.begin, arrival), baton_tx);
            baton_rx.await.unwrap_or(Baton(None))
        } else {
            Baton(Some(Rc::clone(self)))
        };
        self.now.set(claim.begin.max(self.now.get()));
        // Not for each of many short turns that have waited together.
        if account.is_heavy() {
            for _ in 0..ROUNDS {
                tokio::task::yield_now().await;
            }
            account.since.set(Duration::ZERO);
        }
        Pass { account: Rc::clone(account), heavy: Some((claim, baton)) }
    }
}

impl Pass {
    /// A turn has taken so much.
    ///
    /// # Arguments
    /// * `is_typical` - it says something of the turns to come: a start's does not.
    pub(super) fn charge(&self, cpu: Duration, is_typical: bool) {
        let Account { since, latest, .. } = &*self.account;
        since.set(since.get() + cpu);
        if is_typical {
            latest.set(Some(cpu));
        }
        if let Some((claim, _)) = &self.heavy {
            claim.used.set(claim.used.get() + cpu);
        }
    }
}

impl Claim {
    fn of(account: &Rc<Account>, now: Duration) -> Self {
        let expected = account.expected();
        // Who has been light for long does not get back what it saved.
        let begin = account.share.0.get().max(now);
        account.share.0.set(begin + expected);
        Self { account: Rc::clone(account), begin, expected, used: Cell::default() }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let Share(next) = &*self.account.share;
        next.set((next.get() + self.used.get()).saturating_sub(self.expected));
    }
}

impl Drop for Baton {
    fn drop(&mut self) {
        let Some(turnstile) = self.0.take() else { return };
        loop {
            let next = turnstile.waiting.borrow_mut().pop_first();
            let Some((_, baton_tx)) = next else { return turnstile.baton_is_out.set(false) };
            match baton_tx.send(Self(Some(Rc::clone(&turnstile)))) {
                Ok(()) => return,
                // Whoever waited has left. This baton must not go on by being dropped, as we go on already.
                Err(mut unclaimed) => drop(unclaimed.0.take()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;
    use proptest::prelude::*;
    use tokio::task::{LocalSet, spawn_local};

    use super::*;

    const TURN: Duration = Duration::from_millis(50);
    const SHORT: Duration = Duration::from_micros(10);

    /// Runs on a single thread, as a shard does.
    fn run<T>(test: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        LocalSet::new().block_on(&runtime, test)
    }

    /// Of an isolate whose turns take so much.
    fn account(turn: Duration) -> Rc<Account> {
        Rc::new(Account { latest: Cell::new(Some(turn)), ..Account::default() })
    }

    /// So many requests of an isolate, each one turn as long as its latest, and the order in which all had theirs.
    async fn backlogs(backlogs: &[(&'static str, Rc<Account>, usize)]) -> Vec<&'static str> {
        let (turnstile, order) = (Rc::new(Turnstile::default()), Rc::new(RefCell::new(Vec::new())));
        let requests = backlogs.iter().flat_map(|(name, account, count)| {
            (0..*count).map(|_| {
                let (turnstile, order, account, name) = (turnstile.clone(), order.clone(), account.clone(), *name);
                spawn_local(async move {
                    let pass = turnstile.enter(&account).await;
                    order.borrow_mut().push(name);
                    pass.charge(account.expected(), account.latest.get().is_some());
                })
            })
        });
        let ended = join_all(requests.collect::<Vec<_>>()).await;
        assert!(ended.iter().all(Result::is_ok));
        assert!(!turnstile.baton_is_out.get());
        order.take()
    }

    #[test]
    fn the_light_go_before_a_heavy_backlog_that_came_first() {
        let order = run(backlogs(&[("heavy", account(TURN), 5), ("light", account(SHORT), 3)]));
        assert_eq!(order[..3], ["light"; 3]);
        assert_eq!(order.len(), 8);
    }

    #[test]
    fn a_backlog_of_short_turns_lets_others_through_once_they_come_to_something() {
        let order = run(backlogs(&[("many", account(LONG / 4), 100), ("light", account(SHORT), 1)]));
        assert_eq!(order.iter().position(|name| *name == "light"), Some(4));
    }

    #[test]
    fn the_heavy_take_turns() {
        let order = run(backlogs(&[("one", account(TURN), 4), ("other", account(TURN), 4)]));
        assert_eq!(order, ["one", "other", "one", "other", "one", "other", "one", "other"]);
    }

    #[test]
    fn half_as_long_means_twice_as_many() {
        let order = run(backlogs(&[("long", account(TURN * 2), 2), ("short", account(TURN), 4)]));
        assert_eq!(order, ["long", "short", "short", "long", "short", "short"]);
    }

    #[test]
    fn who_was_light_for_long_does_not_get_back_what_it_saved() {
        let (old, new) = (account(TURN), account(TURN));
        old.share.0.set(TURN * 1000);
        let now = TURN * 1000;
        assert_eq!(Claim::of(&new, now).begin, Claim::of(&old, now).begin);
    }

    proptest! {
        #[test]
        fn a_share_is_charged_what_was_used_whatever_was_expected(
            turns in prop::collection::vec((0_u64..100, prop::bool::ANY), 0..50),
        ) {
            let account = account(TURN);
            let mut used = Duration::ZERO;
            let mut open = Vec::new();
            for (ms, at_once) in turns {
                let claim = Claim::of(&account, Duration::ZERO);
                let cpu = Duration::from_millis(ms);
                claim.used.set(cpu);
                account.latest.set(Some(cpu));
                used += cpu;
                open.push(claim);
                if !at_once {
                    open.clear();
                }
            }
            open.clear();
            prop_assert_eq!(account.share.0.get(), used);
        }
    }

    #[test]
    fn who_leaves_the_queue_passes_the_baton_on_and_has_used_nothing() {
        run(async {
            let turnstile = Rc::new(Turnstile::default());
            let account = account(TURN);
            let first = turnstile.enter(&account).await;
            let (leaves, stays) = (turnstile.clone(), turnstile.clone());
            let (one, other) = (account.clone(), account.clone());
            let leaves = spawn_local(async move { drop(leaves.enter(&one).await) });
            let stays = spawn_local(async move { drop(stays.enter(&other).await) });
            tokio::task::yield_now().await;
            assert_eq!(turnstile.waiting.borrow().len(), 2);
            leaves.abort();
            drop(first);
            stays.await.unwrap();
            assert!(!turnstile.baton_is_out.get() && turnstile.waiting.borrow().is_empty());
            assert_eq!(account.share.0.get(), Duration::ZERO);
        });
    }

    /// A connection's task that reads a request, the task that it makes for it, and the way back.
    #[test]
    fn a_request_that_is_there_is_read_and_served_before_the_next_heavy_turn() {
        let order = run(async {
            let (turnstile, order) = (Rc::new(Turnstile::default()), Rc::new(RefCell::new(Vec::new())));
            let first = turnstile.enter(&account(TURN)).await;
            let (next, heavy_order) = (turnstile.clone(), order.clone());
            let next = spawn_local(async move {
                let _pass = next.enter(&account(TURN)).await;
                heavy_order.borrow_mut().push("heavy");
            });
            tokio::task::yield_now().await;
            let (readable_tx, readable_rx) = oneshot::channel();
            let (light, light_order) = (turnstile.clone(), order.clone());
            let connection = spawn_local(async move {
                readable_rx.await.unwrap();
                let request = spawn_local(async move {
                    let _pass = light.enter(&account(SHORT)).await;
                    light_order.borrow_mut().push("light");
                });
                request.await.unwrap();
            });
            tokio::task::yield_now().await;
            drop(first);
            readable_tx.send(()).unwrap();
            for ended in join_all([next, connection]).await {
                ended.unwrap();
            }
            order.take()
        });
        assert_eq!(order, ["light", "heavy"]);
    }

    #[test]
    fn who_has_served_nobody_yet_waits_its_turn() {
        let order = run(backlogs(&[("stranger", Rc::default(), 2), ("light", account(SHORT), 2)]));
        assert_eq!(order, ["light", "light", "stranger", "stranger"]);
    }

    #[test]
    fn a_worker_that_is_ahead_of_its_time_goes_on_there_in_its_next_isolate() {
        let turnstile = Rc::new(Turnstile::default());
        let [greedy, modest, other] = ["greedy", "modest", "other"].map(|name| WorkerId::new("default", name));
        turnstile.account(&greedy).share.0.set(TURN);
        turnstile.account(&modest);
        let again = turnstile.account(&greedy);
        assert_eq!(again.share.0.get(), TURN);
        assert!(again.is_heavy());
        drop(again);
        turnstile.now.set(TURN);
        turnstile.account(&other);
        assert_eq!(turnstile.shares.borrow().len(), 1, "who is not ahead is forgotten");
    }

    #[test]
    fn a_start_says_nothing_of_the_requests_to_come() {
        let pass = Pass { account: account(SHORT), heavy: None };
        pass.charge(TURN, false);
        assert_eq!(pass.account.latest.get(), Some(SHORT));
        assert!(pass.account.is_heavy(), "but others are let through after it");
    }
}
