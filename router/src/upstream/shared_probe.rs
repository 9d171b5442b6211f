//! The last probe of whether a node answers, which may still be running. All requests that wait for
//! the same shard share it.
//!
//! A probe belongs to one thread.

use std::cell::RefCell;
use std::future::Future;
use std::time::Duration;

use futures::future::{FutureExt as _, LocalBoxFuture, Shared};
use tokio::time::Instant;

/// The time for which a result is valid, from the start of its probe.
pub(crate) const RESULT_LIFETIME: Duration = Duration::from_secs(1);

/// The last probe, if there was one.
#[derive(Default)]
pub(crate) struct SharedProbe(RefCell<Option<(Instant, Shared<LocalBoxFuture<'static, bool>>)>>);

impl SharedProbe {
    /// Returns the result of the last probe, or of a new one if the last probe is too old.
    pub(crate) async fn result<F>(&self, probe: impl FnOnce() -> F) -> bool
    where
        F: Future<Output = bool> + 'static,
    {
        let result = {
            let mut last = self.0.borrow_mut();
            match &*last {
                Some((when, result)) if when.elapsed() < RESULT_LIFETIME => result.clone(),
                _ => {
                    let result = probe().boxed_local().shared();
                    *last = Some((Instant::now(), result.clone()));
                    result
                }
            }
        };
        result.await
    }
}
