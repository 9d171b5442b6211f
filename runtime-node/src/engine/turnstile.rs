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
//! An isolate that has served nobody yet is taken for heavy, and what takes the place of one that a limit has stopped
//! goes on with its account. A Worker that is stopped at every request would otherwise be a stranger each time.
//!
//! Belongs to one thread.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use tenon_proto::id::RevisionDigest;
use tokio::sync::oneshot;

/// A turn longer than this makes an isolate heavy: a hundred times what an ordinary turn takes, and short enough that
/// some of them in a row hurt nobody.
const LONG: Duration = Duration::from_millis(1);

/// How often the others that are ready are let through before a turn with the baton: what has come on a connection is
/// read, then the requests that were in it have their turns and their answers are written, and then those that only now
/// could go on have theirs.
const ROUNDS: u32 = 3;

/// Revisions whose accounts outlive their isolates: until so many others have been stopped, a tenant that goes on asking
/// has come again.
const REMEMBERED: usize = 64;

/// What an isolate has had, and will have had when all that waits for it is done.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// CPU time of its latest turn, which the next is expected to take as well. `None` before the first.
    latest: Cell<Option<Duration>>,
    /// Where its next turn begins in the virtual time of its shard, in which every turn takes its CPU time.
    next: Cell<Duration>,
}

impl Account {
    /// A turn has ended.
    pub(super) fn charge(&self, cpu: Duration) {
        self.latest.set(Some(cpu));
    }

    fn is_heavy(&self) -> bool {
        self.latest.get().is_none_or(|latest| latest > LONG)
    }

    /// The beginning of its next turn. Who has been light for long does not get back what it saved.
    fn begin(&self, now: Duration) -> Duration {
        let begin = self.next.get().max(now);
        self.next.set(begin + self.latest.get().unwrap_or(LONG));
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
    /// Of isolates that a limit has stopped, the latest at the end.
    remembered: RefCell<VecDeque<(RevisionDigest, Rc<Account>)>>,
}

/// The right to a turn, to be dropped when that has ended. With the baton, if the isolate is heavy.
#[must_use = "dropping it lets the next one through"]
pub struct Pass(Option<Rc<Turnstile>>);

impl Turnstile {
    /// The account of an isolate that is made for `digest`.
    pub(super) fn account(&self, digest: &RevisionDigest) -> Rc<Account> {
        let remembered = self.remembered.borrow();
        let known = remembered.iter().find(|(other, _)| other == digest);
        known.map(|(_, account)| Rc::clone(account)).unwrap_or_default()
    }

    /// A limit has stopped an isolate: what follows it is to go on with its account.
    pub(super) fn remember(&self, digest: RevisionDigest, account: &Rc<Account>) {
        let mut remembered = self.remembered.borrow_mut();
        remembered.retain(|(other, _)| *other != digest);
        if remembered.len() == REMEMBERED {
            remembered.pop_front();
        }
        remembered.push_back((digest, Rc::clone(account)));
    }

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
        for _ in 0..ROUNDS {
            tokio::task::yield_now().await;
        }
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
        let order = run(backlogs(&[("heavy", heavy(TURN), 5), ("light", heavy(LONG), 3)]));
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

    /// A connection's task that reads a request, the task that it makes for it, and the way back.
    #[test]
    fn a_request_that_is_there_is_read_and_served_before_the_next_heavy_turn() {
        let order = run(async {
            let (turnstile, order) = (Rc::new(Turnstile::default()), Rc::new(RefCell::new(Vec::new())));
            let first = turnstile.enter(&heavy(TURN)).await;
            let (next, heavy_order) = (turnstile.clone(), order.clone());
            let next = spawn_local(async move {
                let _pass = next.enter(&heavy(TURN)).await;
                heavy_order.borrow_mut().push("heavy");
            });
            tokio::task::yield_now().await;
            let (readable_tx, readable_rx) = oneshot::channel();
            let (light, light_order) = (turnstile.clone(), order.clone());
            let connection = spawn_local(async move {
                readable_rx.await.unwrap();
                let request = spawn_local(async move {
                    let _pass = light.enter(&heavy(LONG)).await;
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
        let order = run(backlogs(&[("stranger", Rc::default(), 2), ("light", heavy(LONG), 2)]));
        assert_eq!(order, ["light", "light", "stranger", "stranger"]);
    }

    #[test]
    fn who_follows_one_that_was_stopped_goes_on_with_its_account() {
        let (turnstile, account) = (Turnstile::default(), heavy(TURN));
        let digest = |i: usize| RevisionDigest::new([u8::try_from(i).unwrap(); 32]);
        turnstile.remember(digest(0), &account);
        assert!(Rc::ptr_eq(&turnstile.account(&digest(0)), &account));
        assert!(turnstile.account(&digest(1)).latest.get().is_none());
        (1..=REMEMBERED).for_each(|i| turnstile.remember(digest(i), &Rc::default()));
        assert!(!Rc::ptr_eq(&turnstile.account(&digest(0)), &account), "forgotten for others");
        assert_eq!(turnstile.remembered.borrow().len(), REMEMBERED);
    }

    #[test]
    fn a_short_turn_makes_an_isolate_light_again() {
        let account = heavy(TURN);
        account.charge(LONG / 2);
        assert!(!account.is_heavy());
    }
}
