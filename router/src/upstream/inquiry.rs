//! The last probe of whether a node answers, shared by all requests that wait for the same shard.
//!
//! Belongs to one thread.

use std::cell::RefCell;
use std::future::Future;
use std::time::Duration;

use futures::future::{FutureExt as _, LocalBoxFuture, Shared};
use tokio::time::Instant;

/// The time for which the answer of a node is valid.
pub(crate) const ANSWER_LASTS: Duration = Duration::from_secs(1);

/// The last probe, if there was one.
#[derive(Default)]
pub(crate) struct Inquiry(RefCell<Option<(Instant, Shared<LocalBoxFuture<'static, bool>>)>>);

impl Inquiry {
    /// Returns the result of the last probe, or begins a new one if the last is too old.
    pub(crate) async fn answer<F>(&self, probe: impl FnOnce() -> F) -> bool
    where
        F: Future<Output = bool> + 'static,
    {
        let answer = {
            let mut last = self.0.borrow_mut();
            match &*last {
                Some((when, answer)) if when.elapsed() < ANSWER_LASTS => answer.clone(),
                _ => {
                    let answer = probe().boxed_local().shared();
                    *last = Some((Instant::now(), answer.clone()));
                    answer
                }
            }
        };
        answer.await
    }
}
