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
//! seconds ahead of whoever comes next. An isolate whose latest turn was long is therefore *heavy*: it needs the one
//! baton of its shard, which goes round among the heavy by start-time fair queueing (Goyal, Vin and Cheng, 1996), and
//! between any two turns with the baton all others that are ready have theirs. The light, nearly all, pay one comparison.
//!
//! Belongs to one thread.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::oneshot;

/// A turn longer than this makes an isolate heavy: a hundred times what an ordinary turn takes, and short enough that
/// some of them in a row hurt nobody.
const LONG: Duration = Duration::from_millis(1);

/// What an isolate has had, and will have had when all that waits for it is done.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// CPU time of its latest turn, which the next is expected to take as well.
    latest: Cell<Duration>,
    /// Where its next turn begins in the virtual time of its shard, in which every turn takes its CPU time.
    next: Cell<Duration>,
}

impl Account {
    /// A turn has ended.
    pub(super) fn charge(&self, cpu: Duration) {
        self.latest.set(cpu);
    }

    fn is_heavy(&self) -> bool {
        self.latest.get() > LONG
    }

    /// The beginning of its next turn. Who has been light for long does not get back what it saved.
    fn begin(&self, now: Duration) -> Duration {
        let begin = self.next.get().max(now);
        self.next.set(begin + self.latest.get());
        begin
    }
}

/// One shard's.
#[derive(Default)]
pub(super) struct Turnstile {
    baton_is_out: Cell<bool>,
    /// By the beginnings of their turns, and among equals by who came first.
    waiting: RefCell<BTreeMap<(Duration, u64), oneshot::Sender<Pass>>>,
    arrivals: Cell<u64>,
    /// Virtual time: the beginning of the latest turn with the baton.
    now: Cell<Duration>,
}

/// The right to a turn, to be dropped when that has ended. With the baton, if the isolate is heavy.
#[must_use = "dropping it lets the next one through"]
pub(super) struct Pass(Option<Rc<Turnstile>>);

impl Turnstile {
    /// Resolves when it is the isolate's turn: for a light one at once.
    pub(super) async fn enter(self: &Rc<Self>, account: &Account) -> Pass {
        if !account.is_heavy() {
            return Pass(None);
        }
        let begin = account.begin(self.now.get());
        let pass = if self.baton_is_out.replace(true) {
            let arrival = self.arrivals.get();
            self.arrivals.set(arrival + 1);
            let (pass_tx, pass_rx) = oneshot::channel();
            self.waiting.borrow_mut().insert((begin, arrival), pass_tx);
            pass_rx.await.unwrap_or(Pass(None))
        } else {
            Pass(Some(Rc::clone(self)))
        };
        self.now.set(begin);
        tokio::task::yield_now().await;
        pass
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let Some(turnstile) = self.0.take() else { return };
        loop {
            let next = turnstile.waiting.borrow_mut().pop_first();
            let Some((_, pass_tx)) = next else { return turnstile.baton_is_out.set(false) };
            match pass_tx.send(Self(Some(Rc::clone(&turnstile)))) {
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
    use tokio::task::{LocalSet, spawn_local};

    use super::*;

    const TURN: Duration = Duration::from_millis(50);

    /// Runs on a single thread, as a shard does.
    fn run<T>(test: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        LocalSet::new().block_on(&runtime, test)
    }

    fn heavy(used: Duration) -> Rc<Account> {
        let account = Rc::new(Account::default());
        account.charge(used);
        account
    }

    /// So many requests of an isolate, each one turn, and the order in which all had theirs.
    async fn backlogs(backlogs: &[(&'static str, Rc<Account>, usize)]) -> Vec<&'static str> {
        let (turnstile, order) = (Rc::new(Turnstile::default()), Rc::new(RefCell::new(Vec::new())));
        let requests = backlogs.iter().flat_map(|(name, account, count)| {
            (0..*count).map(|_| {
                let (turnstile, order, account, name) = (turnstile.clone(), order.clone(), account.clone(), *name);
                spawn_local(async move {
                    let pass = turnstile.enter(&account).await;
                    order.borrow_mut().push(name);
                    drop(pass);
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
        let order = run(backlogs(&[("heavy", heavy(TURN), 5), ("light", Rc::default(), 3)]));
        assert_eq!(order[..3], ["light"; 3]);
        assert_eq!(order.len(), 8);
    }

    #[test]
    fn the_heavy_take_turns() {
        let order = run(backlogs(&[("one", heavy(TURN), 4), ("other", heavy(TURN), 4)]));
        assert_eq!(order, ["one", "other", "one", "other", "one", "other", "one", "other"]);
    }

    #[test]
    fn half_as_long_means_twice_as_many() {
        let order = run(backlogs(&[("long", heavy(TURN * 2), 2), ("short", heavy(TURN), 4)]));
        assert_eq!(order, ["long", "short", "short", "long", "short", "short"]);
    }

    #[test]
    fn who_was_light_for_long_does_not_get_back_what_it_saved() {
        let (old, new) = (heavy(TURN), heavy(TURN));
        old.next.set(TURN * 1000);
        let turnstile = Turnstile { now: Cell::new(TURN * 1000), ..Turnstile::default() };
        assert_eq!(new.begin(turnstile.now.get()), old.begin(turnstile.now.get()));
    }

    #[test]
    fn who_leaves_the_queue_passes_the_baton_on() {
        run(async {
            let turnstile = Rc::new(Turnstile::default());
            let account = heavy(TURN);
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
        });
    }

    #[test]
    fn a_short_turn_makes_an_isolate_light_again() {
        let account = heavy(TURN);
        account.charge(LONG / 2);
        assert!(!account.is_heavy());
    }
}
