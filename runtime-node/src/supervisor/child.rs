//! The supervisor's record of one shard's or lane's process, across its restarts.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use rustix::process::Pid;
use tenon_engine::page::Page;
use tenon_lifecycle::readiness::Handle;
use tenon_proto::id::{RevisionDigest, ShardId};
use tenon_proto::node::order::Order as OrderKind;
use tenon_proto::node::{self, Order};
use tokio::sync::{Notify, mpsc, watch};

use super::process::Process;
use super::{lock, order};

/// Time within which a process must send its metrics. After this time, the metrics that it sent
/// last are exposed.
const GATHER: Duration = Duration::from_millis(500);

/// The record of one shard or lane, and of its process while there is one.
pub(super) struct Child {
    pub(super) id: ShardId,
    pub(super) state: Mutex<ChildState>,
    /// The metrics that the shard's or lane's process sent last.
    pub(super) latest_metrics: watch::Sender<String>,
    /// Notified when the process has used up a resource and is to be replaced. A process sends this
    /// notice once; the notice is discarded when the process's successor starts.
    pub(super) worn: Notify,
}

#[derive(Default)]
pub(super) struct ChildState {
    pub(super) orders_tx: Option<mpsc::UnboundedSender<Order>>,
    pub(super) pid: Option<Pid>,
    /// The page in which the process names the revision that it is running.
    pub(super) page: Option<Arc<Page>>,
    /// A handle that keeps the node unready until the first process serves.
    pub(super) starting: Option<Handle>,
    pub(super) serves: bool,
    /// Maximum private writable memory of the process, in bytes.
    pub(super) limit: u64,
    /// Bytes by which the process could still grow at the last check.
    pub(super) room: u64,
}

impl Child {
    /// Creates the record of a shard or lane whose first process has not been started.
    ///
    /// # Arguments
    /// * `starting` - dropped when the first process serves.
    pub(super) fn new(id: ShardId, starting: Handle) -> Self {
        let state = ChildState { starting: Some(starting), ..ChildState::default() };
        Self {
            id,
            state: Mutex::new(state),
            latest_metrics: watch::Sender::new(String::new()),
            worn: Notify::new(),
        }
    }

    pub(super) fn begin(&self, process: &Process, orders_tx: mpsc::UnboundedSender<Order>) {
        // A notice of the previous process does not apply to this one.
        let _ = self.worn.notified().now_or_never();
        let mut state = lock(&self.state);
        (state.pid, state.page) = (Some(process.pid), Some(Arc::clone(&process.page)));
        (state.orders_tx, state.limit, state.room) = (Some(orders_tx), u64::MAX, u64::MAX);
    }

    pub(super) fn end(&self) {
        let mut state = lock(&self.state);
        (state.pid, state.page, state.orders_tx, state.serves) = (None, None, None, false);
    }

    /// Returns whether the process is running this revision's code, or was running this code when
    /// it ended and has not been judged yet.
    pub(super) fn runs(&self, digest: &RevisionDigest) -> bool {
        lock(&self.state).page.as_ref().is_some_and(|page| page.read().running == Some(*digest))
    }

    pub(super) fn order(&self, order: Order) {
        if let Some(orders_tx) = &lock(&self.state).orders_tx {
            // If the receiver has been dropped, the process is ending.
            let _ = orders_tx.send(order);
        }
    }

    /// Returns the current metrics of the process or, if the process does not answer, the metrics
    /// that it sent last.
    pub(super) async fn gather(&self) -> String {
        let mut metrics_rx = self.latest_metrics.subscribe();
        if lock(&self.state).serves {
            self.order(order(OrderKind::Gather(node::Gather {})));
            // After a timeout, which means that the process is busy, its last metrics are returned.
            let _ = tokio::time::timeout(GATHER, metrics_rx.changed()).await;
        }
        metrics_rx.borrow().clone()
    }
}
