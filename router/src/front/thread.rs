//! The part of a router that one thread runs: a thread of the router itself, or the thread of a
//! shard, which then answers the requests for its own Workers without a hop.

use std::time::Duration;

use tenon_lifecycle::drain;
use tenon_lifecycle::event_loop::EventLoops;
use tenon_lifecycle::readiness::Readiness;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::{LocalSet, spawn_local};

use crate::front::{self, Listeners, opening};
use crate::metrics::Metrics;
use crate::thread::{Announcements, RouterThread, Settings, Shared};
use crate::upstream::inline::Colocated;

/// The parts of a thread that can be sent to it. The `!Send` parts are created on the thread
/// itself.
pub struct FrontThread {
    pub(crate) name: String,
    pub(crate) loops: EventLoops,
    pub(crate) listeners: Listeners,
    /// The listener for HTTP/3, if the router speaks it.
    pub(crate) http3: Option<tenon_http3::Listener>,
    pub(crate) settings: Settings,
    pub(crate) shared: Shared,
    pub(crate) announcements: Announcements,
    pub(crate) metrics: Metrics,
    pub(crate) drain: drain::Watch,
    pub(crate) readiness: Readiness,
    pub(crate) linger: Duration,
    pub(crate) tunnel_grace: Duration,
    /// Keeps the watch of the catalog running until the thread has ended.
    pub(crate) _alive: watch::Receiver<()>,
}

impl FrontThread {
    /// Returns the name of the thread in metrics.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Serves on the current thread until the drain is complete.
    pub(crate) fn run(self, runtime: &Runtime) {
        let (loops, name) = (self.loops.clone(), self.name.clone());
        LocalSet::new().block_on(runtime, async {
            spawn_local(loops.watch(&name));
            self.serve_with(None).await;
        });
    }

    /// Serves beside a shard until the drain is complete. The future runs in a [`LocalSet`] of the
    /// shard's thread. Clients wait until the table has arrived; if it takes longer than
    /// [`opening::PATIENCE`], the thread does not listen until then.
    pub async fn serve(self, colocated: Colocated) {
        let Self { listeners, drain, readiness, .. } = &self;
        let changes_rx = self.announcements.changes_rx.clone();
        let opened =
            opening::until_table(listeners, changes_rx, drain, readiness, opening::PATIENCE);
        match opened.await {
            Ok(()) => self.serve_with(Some(colocated)).await,
            Err(error) => tracing::error!(%error, "cannot listen for clients"),
        }
    }

    async fn serve_with(self, colocated: Option<Colocated>) {
        let thread = RouterThread::new(
            &self.name,
            self.settings,
            self.shared,
            self.announcements,
            &self.metrics,
            colocated,
        );
        let served = front::run(
            thread,
            self.listeners,
            self.http3,
            self.drain,
            self.readiness,
            self.linger,
            self.tunnel_grace,
        );
        if let Err(error) = served.await {
            tracing::error!(%error, "a router thread failed");
        }
    }
}
