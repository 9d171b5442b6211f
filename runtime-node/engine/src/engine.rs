//! The state that the isolates of one shard share.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tenon_proto::id::ShardId;
use tenon_proto::revision::Limits;
use tokio::sync::Notify;

use super::background;
use super::buffers::{self, BufferMetrics, BufferPool};
use super::exception::ExceptionSink;
use super::fair_scheduler::FairScheduler;
use super::heap::Headroom;
use super::inspector::Inspector;
use super::interfaces::Interfaces;
use super::log_rate::LogRates;
use super::page::Page;
use super::spare::{self, Spare};
use super::wasm::compiled::Compiled;
use super::wasm::types;
use super::watchdog::{TurnTimer, Watchdog};

/// The state that the isolates of a shard share. An engine belongs to the thread that made it.
pub struct Engine {
    shard: ShardId,
    pub(crate) turn_timer: Arc<TurnTimer>,
    pub(crate) page: Option<Arc<Page>>,
    pub(crate) scheduler: Rc<FairScheduler>,
    pub(crate) log_rates: LogRates,
    pub(crate) spares: RefCell<Vec<Spare>>,
    turns: Cell<u64>,
    turn_cpu: Cell<Duration>,
    pub(crate) buffers: BufferPool,
    pub(crate) compiled: Compiled,
    pub(crate) interfaces: Rc<dyn Interfaces>,
    pub(crate) headroom: Headroom,
    pub(crate) inspector: Option<Arc<Inspector>>,
    pub(crate) exceptions: Option<Arc<dyn ExceptionSink>>,
    pub(crate) condemnation: Rc<Notify>,
}

impl Engine {
    /// Creates an engine without a page for a supervisor. The caller is the shard's own thread,
    /// whose CPU clock measures the turns.
    ///
    /// # Arguments
    /// * `interfaces` - the Web interfaces in the Workers' global scope.
    pub fn new(watchdog: &Watchdog, shard: ShardId, interfaces: Rc<dyn Interfaces>) -> Self {
        Self::supervised(watchdog, shard, interfaces, None)
    }

    /// Creates an engine that also records in `page` which revision's code is running.
    pub fn supervised(
        watchdog: &Watchdog,
        shard: ShardId,
        interfaces: Rc<dyn Interfaces>,
        page: Option<Arc<Page>>,
    ) -> Self {
        Self {
            shard,
            turn_timer: watchdog.register(page.clone()),
            page,
            scheduler: Rc::default(),
            log_rates: LogRates::default(),
            spares: RefCell::default(),
            turns: Cell::new(0),
            turn_cpu: Cell::default(),
            buffers: BufferPool::new(buffers::POOL, BufferMetrics::default()),
            compiled: Compiled::default(),
            interfaces,
            headroom: Headroom::default(),
            inspector: None,
            exceptions: None,
            condemnation: Rc::default(),
        }
    }

    /// Replaces the buffer pool, for example with a pool with metrics.
    #[must_use]
    pub fn with_buffers(self, buffers: BufferPool) -> Self {
        Self { buffers, ..self }
    }

    /// Sets by how much heaps may outgrow their limit.
    #[must_use]
    pub fn with_headroom(self, headroom: Headroom) -> Self {
        Self { headroom, ..self }
    }

    /// Lets clients of the inspector protocol debug the isolates.
    #[must_use]
    pub fn with_inspector(self, inspector: Option<Arc<Inspector>>) -> Self {
        Self { inspector, ..self }
    }

    /// Passes the exceptions that Workers do not catch to a sink.
    #[must_use]
    pub fn with_exceptions(self, exceptions: Option<Arc<dyn ExceptionSink>>) -> Self {
        Self { exceptions, ..self }
    }

    /// Waits until an isolate has been condemned. Returns immediately if that has happened since
    /// the previous call returned.
    pub async fn condemned(&self) {
        self.condemnation.notified().await;
    }

    /// Ends the connections of clients that the interfaces hold open, and those that are opened
    /// from now on, because the node is leaving.
    pub fn leave(&self) {
        self.interfaces.leave();
    }

    /// Returns the shard of this engine.
    pub fn shard(&self) -> ShardId {
        self.shard
    }

    pub(crate) fn count_turn(&self, cpu: Duration) {
        self.turns.set(self.turns.get() + 1);
        self.turn_cpu.set(self.turn_cpu.get() + cpu);
    }

    /// Returns the number of turns that have ended. If two calls return the same number, the thread
    /// has run no JavaScript between them.
    pub fn turns(&self) -> u64 {
        self.turns.get()
    }

    /// Returns the CPU time of all turns so far.
    pub fn turn_cpu(&self) -> Duration {
        self.turn_cpu.get()
    }

    /// Returns whether the process has used up most of a resource that only a restart frees:
    /// the WebAssembly types that V8 remembers. The process still works, but should be drained and
    /// replaced: modules with new types will be refused, first to the namespaces that have added
    /// the most types.
    pub fn exhausted(&self) -> bool {
        types::are_nearly_used_up()
    }

    /// Returns the CPU time that V8's own threads have used, in addition to the turns. Reads files
    /// in `/proc`.
    pub fn background_cpu(&self) -> Duration {
        background::cpu()
    }

    /// Returns the number of spare isolates.
    pub fn spares(&self) -> usize {
        self.spares.borrow().len()
    }

    /// Returns whether a spare isolate is ready for a Worker with these limits.
    pub fn has_spare(&self, limits: &Limits) -> bool {
        self.spares() > 0 && limits.memory_mib <= spare::LARGEST
    }

    /// Makes one more spare isolate, which takes a few milliseconds.
    pub fn make_spare(&self) {
        let spare = Spare::make(spare::LARGEST, self.headroom, self.interfaces.builtins());
        self.spares.borrow_mut().push(spare);
    }

    /// Drops one spare isolate, if there is one, and everything else that only speeds up the next
    /// start.
    pub fn drop_spare(&self) {
        self.compiled.clear();
        let spare = self.spares.borrow_mut().pop();
        drop(spare);
    }
}
