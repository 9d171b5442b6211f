//! Bounds the time for which compression occupies a thread.
//!
//! ```text
//!  turn of the event loop:  other tasks │ 64 KiB │ sockets │ other tasks │ 64 KiB │ …
//! ```
//!
//! In a turn of the event loop, between two polls of the sockets, the thread compresses a bounded
//! amount of content. Bodies that need more wait in a queue. The more other work a turn has, the
//! smaller the share of compression.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::{spawn_local, yield_now};
use tokio_util::sync::PollSemaphore;

/// The maximum amount of content that a thread compresses in a turn of its event loop, in bytes:
/// less than a millisecond of work in every coding.
pub const TURN: usize = 64 * 1024;

/// The fixed cost of a call of an encoder, as the amount of content whose compression takes the
/// same time, in bytes.
const CALL: usize = 1024;

/// The turns of a thread. Clones share them.
#[derive(Clone)]
pub struct Turns(Rc<Shared>);

struct Shared {
    /// A permit for each byte that may be compressed in this turn. Waiting bodies get the permits
    /// in the order of their arrival.
    left: Arc<Semaphore>,
    is_refilling: Cell<bool>,
}

/// The place of one body in the queue.
pub struct Place {
    turns: Turns,
    left: PollSemaphore,
}

impl Default for Turns {
    fn default() -> Self {
        let left = Arc::new(Semaphore::new(TURN));
        Self(Rc::new(Shared { left, is_refilling: Cell::new(false) }))
    }
}

impl Turns {
    /// Takes permits for content of this length, in bytes. Returns `false` if the content has to
    /// wait.
    #[must_use]
    pub fn take(&self, length: usize) -> bool {
        let taken = self.0.left.try_acquire_many(permits(length));
        let taken = taken.map(SemaphorePermit::forget).is_ok();
        if taken {
            self.refill();
        }
        taken
    }

    /// Returns a place for content that may have to wait.
    pub fn place(&self) -> Place {
        Place { turns: self.clone(), left: PollSemaphore::new(self.0.left.clone()) }
    }

    /// Gives back the permits that were taken, in the next turn of the event loop.
    fn refill(&self) {
        if !self.0.is_refilling.replace(true) {
            let Self(shared) = self.clone();
            spawn_local(async move {
                yield_now().await;
                shared.is_refilling.set(false);
                // A body that left the queue after it was granted permits has returned them.
                let returned = shared.left.available_permits();
                shared.left.add_permits(TURN.saturating_sub(returned));
            });
        }
    }
}

impl Place {
    /// Waits for permits for content of this length.
    pub fn poll(&mut self, cx: &mut Context<'_>, length: usize) -> Poll<()> {
        // The semaphore is never closed.
        if let Some(permits) = ready!(self.left.poll_acquire_many(cx, permits(length))) {
            permits.forget();
            self.turns.refill();
        }
        Poll::Ready(())
    }
}

/// Returns the number of permits for content of this length. Content that is longer than a turn
/// takes a whole turn.
fn permits(length: usize) -> u32 {
    (length + CALL).min(TURN) as u32
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::future::poll_fn;

    use tokio::task::LocalSet;

    use super::*;

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, test);
    }

    #[test]
    fn a_turn_compresses_a_bounded_amount() {
        run(async {
            let turns = Turns::default();
            assert!(turns.take(TURN / 2) && !turns.take(TURN / 2));
            assert!(turns.take(TURN / 4));
            yield_now().await;
            yield_now().await;
            assert!(turns.take(TURN), "the next turn has no permits");
            assert!(!turns.take(1));
        });
    }

    #[test]
    fn bodies_that_wait_take_turns() {
        run(async {
            let (turns, served) = (Turns::default(), Rc::new(RefCell::new(Vec::new())));
            assert!(turns.take(TURN));
            let bodies = (0..3).map(|body| {
                let (mut place, served) = (turns.place(), served.clone());
                spawn_local(async move {
                    for _ in 0..4 {
                        poll_fn(|cx| place.poll(cx, TURN)).await;
                        served.borrow_mut().push(body);
                    }
                })
            });
            for body in bodies.collect::<Vec<_>>() {
                body.await.unwrap();
            }
            assert_eq!(*served.borrow(), [0, 1, 2].repeat(4));
        });
    }

    #[test]
    fn a_body_that_leaves_the_queue_does_not_hold_up_the_others() {
        run(async {
            let turns = Turns::default();
            assert!(turns.take(TURN));
            let (mut leaving, mut place) = (turns.place(), turns.place());
            let waits = poll_fn(|cx| Poll::Ready(leaving.poll(cx, TURN).is_pending())).await;
            assert!(waits && !turns.take(1), "a later body has overtaken the first");
            drop(leaving);
            poll_fn(|cx| place.poll(cx, TURN)).await;
        });
    }

    #[test]
    fn permits_that_were_granted_to_a_body_that_leaves_do_not_accumulate() {
        run(async {
            let turns = Turns::default();
            for _ in 0..10 {
                assert!(turns.take(TURN / 2));
                let mut leaving = turns.place();
                let waits = poll_fn(|cx| Poll::Ready(leaving.poll(cx, TURN).is_pending())).await;
                assert!(waits);
                yield_now().await;
                yield_now().await;
                drop(leaving);
                // At most two turns have passed.
                let taken = std::iter::repeat_with(|| turns.take(TURN - CALL));
                assert!(taken.take_while(|taken| *taken).count() <= 2);
                yield_now().await;
                yield_now().await;
            }
        });
    }
}
