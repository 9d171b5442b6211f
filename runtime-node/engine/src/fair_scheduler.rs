//! Orders the turns on a shard so that one Worker's work delays its neighbors by at most one turn.
//!
//! ```text
//!  light ──────────────────────────────────────────────────────────────► its turn, immediately
//!  heavy ──► the token is free? ──► all other ready tasks run ─────────► its turn ──► passes it on
//!                 │ no                                                     ▲
//!                 └──► waits: the earliest in virtual time goes first ─────┘
//! ```
//!
//! A thread runs ready tasks in the order in which they became ready, so a Worker with a hundred
//! requests of 50 ms each would delay the next request by five seconds, and a Worker with a
//! thousand requests of 1 ms each by one second. Therefore an isolate gets its turns immediately
//! only until their CPU time adds up to [`LONG`]. The isolate is then *heavy*: it needs the shard's
//! one token, which the heavy isolates share by start-time fair queueing (Goyal, Vin and Cheng,
//! 1996), and all other ready tasks run before a turn with the token. Nearly all isolates are
//! light; for these, the check is one comparison.
//!
//! An isolate that has served no request yet counts as heavy, including while it starts. A Worker's
//! place in the queue outlives its isolates while the Worker has used more than its share, so that
//! a Worker whose isolate is stopped at every request does not start over each time.
//!
//! A scheduler belongs to one thread.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use rustc_hash::FxHashMap;
use tenon_proto::id::WorkerId;
use tokio::sync::oneshot;

/// CPU time that an isolate's turns may take before other tasks run: a hundred times the CPU time
/// of an ordinary turn.
const LONG: Duration = Duration::from_millis(1);

/// Number of rounds in which other ready tasks run before a turn with the token. The first round
/// reads the data that has arrived on connections, the second runs the requests and writes their
/// responses, and the third runs the tasks that the first two have made ready.
const ROUNDS: u32 = 3;

/// The start of a Worker's next turn in the virtual time of its shard, in which each turn with the
/// token lasts for its CPU time.
#[derive(Debug, Default)]
struct VirtualStart(Cell<Duration>);

/// The CPU time that an isolate has used.
#[derive(Debug, Default)]
pub(crate) struct CpuAccount {
    share: Rc<VirtualStart>,
    /// CPU time of the latest typical turn, which is expected for the next turn as well. `None`
    /// before the first such turn.
    latest: Cell<Option<Duration>>,
    /// CPU time of the isolate's turns since the isolate last yielded to other tasks.
    since_yield: Cell<Duration>,
}

impl CpuAccount {
    fn is_heavy(&self) -> bool {
        self.latest.get().is_none_or(|latest| self.since_yield.get() + latest > LONG)
    }

    /// Returns the CPU time that the next turn is expected to take.
    fn expected(&self) -> Duration {
        self.latest.get().unwrap_or(LONG)
    }
}

/// The scheduler of one shard's turns, with the queue for the token.
#[derive(Default)]
pub(crate) struct FairScheduler {
    token_is_taken: Cell<bool>,
    /// Waiting turns, ordered by their virtual start and then by arrival.
    waiting: RefCell<BTreeMap<(Duration, u64), oneshot::Sender<Token>>>,
    arrivals: Cell<u64>,
    /// Current virtual time, which is the start of the latest turn with the token.
    now: Cell<Duration>,
    shares: RefCell<FxHashMap<WorkerId, Rc<VirtualStart>>>,
}

/// The right to a turn. The holder drops the pass when the turn has ended.
#[must_use = "dropping the pass ends the right to a turn"]
pub struct Pass {
    account: Rc<CpuAccount>,
    /// The claim and the token of a heavy isolate; `None` if the isolate is light.
    heavy: Option<(Claim, Token)>,
}

/// CPU time that is taken from a Worker's share for a turn. Dropping the claim replaces the
/// expected time with the time that was used.
struct Claim {
    account: Rc<CpuAccount>,
    begin: Duration,
    expected: Duration,
    used: Cell<Duration>,
}

/// The token, which at most one turn holds at a time. When it is dropped, the next waiting turn
/// gets it.
struct Token(Option<Rc<FairScheduler>>);

impl FairScheduler {
    /// Creates the account of a new isolate of `worker`.
    pub(crate) fn account(&self, worker: &WorkerId) -> Rc<CpuAccount> {
        let mut shares = self.shares.borrow_mut();
        // A Worker that has no isolate, and whose share is not ahead of virtual time, can be
        // forgotten: its next turn would start at the same point anyway.
        shares.retain(|_, share| Rc::strong_count(share) > 1 || share.0.get() > self.now.get());
        let share = Rc::clone(shares.entry(worker.clone()).or_default());
        Rc::new(CpuAccount { share, ..CpuAccount::default() })
    }

    /// Waits until the isolate may have a turn. A light isolate does not wait.
    pub(crate) async fn enter(self: &Rc<Self>, account: &Rc<CpuAccount>) -> Pass {
        if !account.is_heavy() {
            return Pass { account: Rc::clone(account), heavy: None };
        }
        let claim = Claim::of(account, self.now.get());
        let token = if self.token_is_taken.replace(true) {
            let arrival = self.arrivals.get();
            self.arrivals.set(arrival + 1);
            let (token_tx, token_rx) = oneshot::channel();
            self.waiting.borrow_mut().insert((claim.begin, arrival), token_tx);
            token_rx.await.unwrap_or(Token(None))
        } else {
            Token(Some(Rc::clone(self)))
        };
        self.now.set(claim.begin.max(self.now.get()));
        // Short turns that have waited together yield only once in total, instead of once each.
        if account.is_heavy() {
            for _ in 0..ROUNDS {
                tokio::task::yield_now().await;
            }
            account.since_yield.set(Duration::ZERO);
        }
        Pass { account: Rc::clone(account), heavy: Some((claim, token)) }
    }
}

impl Pass {
    /// Charges the CPU time of a turn.
    ///
    /// # Arguments
    /// * `is_typical` - whether the turn predicts the CPU time of later turns; a start does not.
    pub(crate) fn charge(&self, cpu: Duration, is_typical: bool) {
        let CpuAccount { since_yield, latest, .. } = &*self.account;
        since_yield.set(since_yield.get() + cpu);
        if is_typical {
            latest.set(Some(cpu));
        }
        if let Some((claim, _)) = &self.heavy {
            claim.used.set(claim.used.get() + cpu);
        }
    }
}

impl Claim {
    fn of(account: &Rc<CpuAccount>, now: Duration) -> Self {
        let expected = account.expected();
        // An isolate gets no credit for virtual time that passed while it was light.
        let begin = account.share.0.get().max(now);
        account.share.0.set(begin + expected);
        Self { account: Rc::clone(account), begin, expected, used: Cell::default() }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let VirtualStart(next) = &*self.account.share;
        next.set((next.get() + self.used.get()).saturating_sub(self.expected));
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        let Some(scheduler) = self.0.take() else { return };
        loop {
            let next = scheduler.waiting.borrow_mut().pop_first();
            let Some((_, token_tx)) = next else { return scheduler.token_is_taken.set(false) };
            match token_tx.send(Self(Some(Rc::clone(&scheduler)))) {
                Ok(()) => return,
                // The waiting task has been dropped. This loop passes the token on, so the drop of
                // the returned token must not pass it on again.
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

    /// Runs a test on a single thread, like a shard.
    fn run<T>(test: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        LocalSet::new().block_on(&runtime, test)
    }

    /// Returns the account of an isolate whose turns take this long.
    fn account(turn: Duration) -> Rc<CpuAccount> {
        Rc::new(CpuAccount { latest: Cell::new(Some(turn)), ..CpuAccount::default() })
    }

    /// Runs `count` requests of each isolate, each of which has one turn with the expected CPU
    /// time. Returns the order of the turns.
    async fn backlogs(backlogs: &[(&'static str, Rc<CpuAccount>, usize)]) -> Vec<&'static str> {
        let (scheduler, order) =
            (Rc::new(FairScheduler::default()), Rc::new(RefCell::new(Vec::new())));
        let requests = backlogs.iter().flat_map(|(name, account, count)| {
            (0..*count).map(|_| {
                let (scheduler, order, account, name) =
                    (scheduler.clone(), order.clone(), account.clone(), *name);
                spawn_local(async move {
                    let pass = scheduler.enter(&account).await;
                    order.borrow_mut().push(name);
                    pass.charge(account.expected(), account.latest.get().is_some());
                })
            })
        });
        let ended = join_all(requests.collect::<Vec<_>>()).await;
        assert!(ended.iter().all(Result::is_ok));
        assert!(!scheduler.token_is_taken.get());
        order.take()
    }

    #[test]
    fn light_turns_run_before_an_earlier_heavy_backlog() {
        let order = run(backlogs(&[("heavy", account(TURN), 5), ("light", account(SHORT), 3)]));
        assert_eq!(order[..3], ["light"; 3]);
        assert_eq!(order.len(), 8);
    }

    #[test]
    fn a_backlog_of_short_turns_yields_once_their_sum_is_long() {
        let order =
            run(backlogs(&[("many", account(LONG / 4), 100), ("light", account(SHORT), 1)]));
        assert_eq!(order.iter().position(|name| *name == "light"), Some(4));
    }

    #[test]
    fn heavy_workers_alternate() {
        let order = run(backlogs(&[("one", account(TURN), 4), ("other", account(TURN), 4)]));
        assert_eq!(order, ["one", "other", "one", "other", "one", "other", "one", "other"]);
    }

    #[test]
    fn a_worker_with_turns_half_as_long_gets_twice_as_many() {
        let order = run(backlogs(&[("long", account(TURN * 2), 2), ("short", account(TURN), 4)]));
        assert_eq!(order, ["long", "short", "short", "long", "short", "short"]);
    }

    #[test]
    fn an_unused_share_is_not_saved_up() {
        let (old, new) = (account(TURN), account(TURN));
        old.share.0.set(TURN * 1000);
        let now = TURN * 1000;
        assert_eq!(Claim::of(&new, now).begin, Claim::of(&old, now).begin);
    }

    proptest! {
        #[test]
        fn a_share_is_charged_the_used_rather_than_the_expected_cpu_time(
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
    fn a_canceled_wait_passes_the_token_on_and_is_not_charged() {
        run(async {
            let scheduler = Rc::new(FairScheduler::default());
            let account = account(TURN);
            let first = scheduler.enter(&account).await;
            let (leaves, stays) = (scheduler.clone(), scheduler.clone());
            let (one, other) = (account.clone(), account.clone());
            let leaves = spawn_local(async move { drop(leaves.enter(&one).await) });
            let stays = spawn_local(async move { drop(stays.enter(&other).await) });
            tokio::task::yield_now().await;
            assert_eq!(scheduler.waiting.borrow().len(), 2);
            leaves.abort();
            drop(first);
            stays.await.unwrap();
            assert!(!scheduler.token_is_taken.get() && scheduler.waiting.borrow().is_empty());
            assert_eq!(account.share.0.get(), Duration::ZERO);
        });
    }

    /// Simulates a connection's task, which reads a request and waits for the task that serves it.
    #[test]
    fn a_readable_request_is_served_before_the_next_heavy_turn() {
        let order = run(async {
            let (scheduler, order) =
                (Rc::new(FairScheduler::default()), Rc::new(RefCell::new(Vec::new())));
            let first = scheduler.enter(&account(TURN)).await;
            let (next, heavy_order) = (scheduler.clone(), order.clone());
            let next = spawn_local(async move {
                let _pass = next.enter(&account(TURN)).await;
                heavy_order.borrow_mut().push("heavy");
            });
            tokio::task::yield_now().await;
            let (readable_tx, readable_rx) = oneshot::channel();
            let (light, light_order) = (scheduler.clone(), order.clone());
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
    fn a_worker_without_history_runs_after_light_workers() {
        let order = run(backlogs(&[("new", Rc::default(), 2), ("light", account(SHORT), 2)]));
        assert_eq!(order, ["light", "light", "new", "new"]);
    }

    #[test]
    fn a_share_that_is_ahead_carries_over_to_the_next_isolate() {
        let scheduler = Rc::new(FairScheduler::default());
        let [greedy, modest, other] =
            ["greedy", "modest", "other"].map(|name| WorkerId::new("default", name));
        scheduler.account(&greedy).share.0.set(TURN);
        scheduler.account(&modest);
        let again = scheduler.account(&greedy);
        assert_eq!(again.share.0.get(), TURN);
        assert!(again.is_heavy());
        drop(again);
        scheduler.now.set(TURN);
        scheduler.account(&other);
        assert_eq!(scheduler.shares.borrow().len(), 1, "shares that are not ahead were kept");
    }

    #[test]
    fn a_start_does_not_change_the_estimate_for_requests() {
        let pass = Pass { account: account(SHORT), heavy: None };
        pass.charge(TURN, false);
        assert_eq!(pass.account.latest.get(), Some(SHORT));
        assert!(pass.account.is_heavy(), "other tasks do not run after the start");
    }
}
