//! Drain: one signal that new work is no longer taken, and a wait until what is in flight has ended.
//!
//! The owner of the process keeps the [`Signal`]; every task with something in flight keeps a [`Watch`]. A
//! task drops its watch when it is done, so the drain is complete exactly when no watch is left.

use std::future::Future;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// A signal and the first of the watches that hear it.
pub fn channel() -> (Signal, Watch) {
    let (tx, rx) = watch::channel(false);
    (Signal { tx }, Watch { rx })
}

/// Begins the drain. Dropping it does too, without waiting: nobody is left who could.
pub struct Signal {
    tx: watch::Sender<bool>,
}

impl Signal {
    /// Tells every watch, and waits until all of them are dropped.
    pub async fn drain(self) {
        self.tx.send_replace(true);
        self.tx.closed().await;
    }
}

/// Hears of the drain, and holds it up for as long as it lives.
#[derive(Clone)]
pub struct Watch {
    rx: watch::Receiver<bool>,
}

impl Watch {
    /// Resolves when the drain begins. The future holds the drain up just as a watch does.
    pub fn signaled(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut rx = self.rx.clone();
        async move {
            // An error means that the signal was dropped, which begins the drain as well.
            let _ = rx.wait_for(|begun| *begun).await;
        }
    }

    pub fn is_signaled(&self) -> bool {
        *self.rx.borrow() || self.rx.has_changed().is_err()
    }
}

/// Resolves when the process is asked to end: SIGTERM, or SIGINT as from Ctrl-C.
///
/// From the first poll on neither of the two ends the process by itself.
///
/// # Panics
/// When the process may not install signal handlers, or outside a runtime with I/O enabled.
pub async fn termination() {
    let listen = |kind| signal(kind).expect("a process may handle its own termination");
    let (mut terminate, mut interrupt) = (listen(SignalKind::terminate()), listen(SignalKind::interrupt()));
    let name = tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    };
    tracing::info!(signal = name, "asked to end");
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
    fn a_watch_hears_of_the_drain() {
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
    fn a_lost_signal_is_a_drain() {
        let (signal, watch) = channel();
        drop(signal);
        assert!(watch.is_signaled());
        assert_ready!(task::spawn(watch.signaled()).poll());
    }
}
