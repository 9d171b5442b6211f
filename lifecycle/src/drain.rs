//! Drains a process: signals that no new work is accepted, and waits until the work in flight has
//! ended.
//!
//! The owner of the process keeps the [`Signal`]; every task with work in flight keeps a [`Watch`].
//! A task drops its watch when it is done, so the drain is complete exactly when no watch is left.

use std::future::Future;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Creates a signal and the first watch on it. Further watches are clones.
pub fn channel() -> (Signal, Watch) {
    let (tx, rx) = watch::channel(false);
    (Signal { tx }, Watch { rx })
}

/// Starts the drain. Dropping the signal also starts the drain, without waiting for the watches.
pub struct Signal {
    tx: watch::Sender<bool>,
}

impl Signal {
    /// Notifies every watch, and waits until all of them are dropped.
    pub async fn drain(self) {
        self.tx.send_replace(true);
        self.tx.closed().await;
    }
}

/// Observes the drain, and keeps the drain from completing until the watch is dropped.
#[derive(Clone)]
pub struct Watch {
    rx: watch::Receiver<bool>,
}

impl Watch {
    /// Returns a future that resolves when the drain begins. Like a watch, the future keeps the
    /// drain from completing.
    pub fn signaled(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut rx = self.rx.clone();
        async move {
            // An error means that the signal was dropped, which begins the drain as well.
            let _ = rx.wait_for(|begun| *begun).await;
        }
    }

    /// Returns whether the drain has begun.
    pub fn is_signaled(&self) -> bool {
        *self.rx.borrow() || self.rx.has_changed().is_err()
    }
}

/// Waits until the process receives SIGTERM, or SIGINT, which Ctrl-C sends.
///
/// After the first poll of the future, neither signal terminates the process by itself.
///
/// # Panics
/// Panics if the process may not install signal handlers, or outside of a runtime with I/O enabled.
pub async fn termination() {
    let listen = |kind| signal(kind).expect("cannot install a signal handler");
    let (mut terminate, mut interrupt) =
        (listen(SignalKind::terminate()), listen(SignalKind::interrupt()));
    let name = tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    };
    tracing::info!(signal = name, "received a termination signal");
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio_test::{assert_pending, assert_ready, task};

    #[test]
    fn a_drain_ends_when_the_last_watch_is_dropped() {
        let (signal, first) = channel();
        let second = first.clone();
        let mut drain = task::spawn(signal.drain());
        assert_pending!(drain.poll());
        assert!(first.is_signaled() && second.is_signaled());
        drop(first);
        assert_pending!(drain.poll());
        drop(second);
        assert!(drain.is_woken());
        assert_ready!(drain.poll());
    }

    #[test]
    fn a_watch_is_notified_of_the_drain() {
        let (signal, watch) = channel();
        let mut signaled = task::spawn(watch.signaled());
        assert_pending!(signaled.poll());
        assert!(!watch.is_signaled());
        let mut drain = task::spawn(signal.drain());
        assert_pending!(drain.poll());
        assert!(signaled.is_woken());
        assert_ready!(signaled.poll());
        assert_ready!(task::spawn(watch.signaled()).poll());
    }

    #[test]
    fn dropping_the_signal_starts_a_drain() {
        let (signal, watch) = channel();
        drop(signal);
        assert!(watch.is_signaled());
        assert_ready!(task::spawn(watch.signaled()).poll());
    }
}
