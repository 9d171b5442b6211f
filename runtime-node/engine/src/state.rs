//! The state of an isolate that native functions can reach, which is everything except V8's own
//! state.
//!
//! The state is stored in a V8 slot of the isolate, so that a native function finds it through its
//! scope. No method keeps a borrow while JavaScript can run.
//!
//! - [`operate`]: operations of invocations; [`sending`]: responses that are being sent;
//!   [`disconnect`]: clients that disconnect early; [`fail`]: invocations that fail, and the
//!   end of the whole isolate.

mod disconnect;
mod fail;
mod operate;
mod sending;

use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;
use tenon_proto::failure::FailureCode;
use tenon_proto::id::RevisionDigest;
use tenon_proto::revision::Revision;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::continuation;
use super::exception::{Exception, ExceptionSink};
use super::heap::BufferBudget;
use super::ids::InvocationId;
use super::invocation::{GRACE, Invocation, Invocations, Outcome};
use super::log::{self, Log, Severity};
use super::log_rate::LogRate;
use super::operations::Operations;
use super::realm::Realm;
use super::rejections::Rejections;
use super::slot::slot_value;
use super::streams::{Incoming, StreamId};

/// The budget of code that runs for no invocation or for an invocation that has ended: callbacks of
/// a `FinalizationRegistry`, and reactions of promises that other code settles. It is the rest of
/// the budget of the invocation that ended last, so that a request costs no more than its limit
/// even if its code runs later.
#[derive(Default)]
struct Unattended {
    cpu: Duration,
    log: usize,
}

impl From<&Invocation> for Unattended {
    fn from(ended: &Invocation) -> Self {
        Self { cpu: ended.cpu_left.saturating_sub(GRACE), log: ended.log_left }
    }
}

/// The state of an isolate; see the [module documentation](self).
pub struct State {
    pub revision: Rc<Revision>,
    /// Digest of the revision.
    pub digest: RevisionDigest,
    pub invocations: RefCell<Invocations>,
    /// The realm of each invocation, for Workers that reset.
    realms: RefCell<FxHashMap<InvocationId, Rc<Realm>>>,
    /// Functions to call when an invocation's client disconnects. They belong to the built-in
    /// JavaScript and throw nothing.
    disconnect_callbacks: RefCell<FxHashMap<InvocationId, Vec<v8::Global<v8::Function>>>>,
    pub(crate) rejections: RefCell<Rejections>,
    pub buffers: Arc<BufferBudget>,
    pub(crate) operations: Operations,
    unattended: RefCell<Unattended>,
    log: Log,
    exceptions: Option<Arc<dyn ExceptionSink>>,
    condemned: Cell<Option<FailureCode>>,
    /// Whether the isolate must never be entered again.
    sealed: Cell<bool>,
    /// Notified when the isolate has been condemned, so that the shard drops it.
    condemnation: Rc<Notify>,
    /// Whether an invocation has exceeded its CPU limit, even if it ended by itself before it was
    /// stopped.
    pub retired: Cell<bool>,
    /// The isolate to which this state belongs.
    isolate: OnceCell<Weak<dyn Any>>,
    /// The isolate while an invocation is in flight, so that `waitUntil` work continues after the
    /// pool has dropped the isolate.
    kept: RefCell<Option<Rc<dyn Any>>>,
    pub idle: Notify,
}

impl State {
    pub fn new(
        revision: Rc<Revision>,
        digest: RevisionDigest,
        buffers: Arc<BufferBudget>,
        log_rate: Rc<LogRate>,
        exceptions: Option<Arc<dyn ExceptionSink>>,
        condemnation: Rc<Notify>,
    ) -> Rc<Self> {
        let log = Log::new(Rc::clone(&revision), log_rate);
        Rc::new(Self {
            revision,
            digest,
            invocations: RefCell::default(),
            realms: RefCell::default(),
            disconnect_callbacks: RefCell::default(),
            rejections: RefCell::default(),
            buffers,
            operations: Operations::default(),
            unattended: RefCell::default(),
            log,
            exceptions,
            condemned: Cell::new(None),
            sealed: Cell::new(false),
            condemnation,
            retired: Cell::new(false),
            isolate: OnceCell::new(),
            kept: RefCell::default(),
            idle: Notify::new(),
        })
    }

    /// Returns the state of the isolate that `scope` is in.
    pub fn of(scope: &v8::PinScope<'_, '_>) -> Rc<Self> {
        slot_value(scope)
    }

    /// Sets the isolate to which this state belongs.
    pub(crate) fn set_isolate(&self, isolate: Weak<dyn Any>) {
        self.isolate.set(isolate).expect("the isolate of a state was set twice");
    }

    /// Returns the invocation on whose behalf JavaScript is running, if it is still in flight.
    pub fn current(&self, scope: &v8::PinScope<'_, '_>) -> Option<InvocationId> {
        let id = continuation::owner(scope)?;
        self.invocations.borrow().get(id).map(|_| id)
    }

    // Invocations.

    /// Begins an invocation, which keeps the isolate alive until the invocation ends.
    pub fn begin(&self, invocation: Invocation) -> InvocationId {
        let id = self.invocations.borrow_mut().begin(invocation);
        let mut kept = self.kept.borrow_mut();
        if kept.is_none() {
            *kept = self.isolate.get().and_then(Weak::upgrade);
        }
        id
    }

    /// Begins an invocation, in `realm` if that belongs to this invocation alone.
    pub fn begin_in(&self, realm: Option<Rc<Realm>>, invocation: Invocation) -> InvocationId {
        let id = self.begin(invocation);
        self.realms.borrow_mut().extend(realm.map(|realm| (id, realm)));
        id
    }

    /// Returns the realm that belongs to this invocation alone, if there is one.
    pub fn realm_of(&self, id: InvocationId) -> Option<Rc<Realm>> {
        self.realms.borrow().get(&id).cloned()
    }

    /// Sets the outcome of the invocation, unless it has one or has ended.
    pub fn set_outcome(&self, id: InvocationId, outcome: Outcome) {
        let waker = self.invocations.borrow_mut().set_outcome(id, outcome);
        if let Some(Some(waker)) = waker {
            waker.wake();
        }
    }

    /// Deducts a turn's CPU time from the invocation's budget, or from the budget of unattended
    /// code if there is no invocation or the turn has ended it.
    pub fn charge(&self, id: Option<InvocationId>, cpu: Duration) {
        let mut invocations = self.invocations.borrow_mut();
        let Some(invocation) = id.and_then(|id| invocations.get_mut(id)) else {
            let mut unattended = self.unattended.borrow_mut();
            unattended.cpu = unattended.cpu.saturating_sub(cpu);
            return;
        };
        invocation.cpu_left = invocation.cpu_left.saturating_sub(cpu);
        if invocation.is_over_its_limit() {
            self.retired.set(true);
        }
    }

    /// Returns whether the invocation has more than half of its CPU limit left, for work on its
    /// behalf that may be omitted.
    pub fn has_spare_cpu(&self, id: InvocationId) -> bool {
        let cpu = Duration::from_millis(self.revision.limits.cpu_ms.into());
        let invocations = self.invocations.borrow();
        invocations.get(id).is_some_and(|invocation| invocation.cpu_left > cpu / 2 + GRACE)
    }

    /// Returns the CPU time that turns without an invocation may still use.
    pub fn unattended_cpu(&self) -> Duration {
        self.unattended.borrow().cpu
    }

    /// Logs a line for the Worker, subject to the log budget of the invocation or of unattended
    /// code, and to the Worker's log rate.
    pub fn log(&self, id: Option<InvocationId>, severity: Severity, text: &str) {
        let Some((allowed, request_id)) = self.charge_log(id, text.len()) else { return };
        self.log.line(request_id.as_deref().unwrap_or_default(), severity, text, allowed);
    }

    /// Logs an uncaught exception.
    pub(crate) fn log_uncaught(&self, id: Option<InvocationId>, what: &str, exception: &Exception) {
        self.log(id, Severity::Error, &format!("{what}: {exception}"));
        let Some(exceptions) = &self.exceptions else { return };
        let invocations = self.invocations.borrow();
        let request_id = id
            .and_then(|id| invocations.get(id))
            .map(|invocation| Rc::clone(&invocation.request_id));
        drop(invocations);
        exceptions.uncaught(&self.revision, request_id.as_deref().unwrap_or_default(), exception);
    }

    /// Deducts a line of `length` bytes from the log budget of the invocation or of unattended
    /// code. Returns the number of bytes of the line that may be logged, and the id of the
    /// invocation's request, or `None` if the budget was used up.
    fn charge_log(
        &self,
        id: Option<InvocationId>,
        length: usize,
    ) -> Option<(usize, Option<Rc<str>>)> {
        let mut invocations = self.invocations.borrow_mut();
        let mut unattended = self.unattended.borrow_mut();
        let (left, request_id) = match id.and_then(|id| invocations.get_mut(id)) {
            Some(invocation) => (&mut invocation.log_left, Some(Rc::clone(&invocation.request_id))),
            None => (&mut unattended.log, None),
        };
        let before = *left;
        // An empty line costs a byte.
        *left = before.saturating_sub(length.max(1));
        (before > 0).then_some((before.min(length), request_id))
    }

    /// Takes a stream for its consumer. Returns `None` if it has been taken or its invocation has
    /// ended.
    pub fn take_stream(&self, owner: InvocationId, number: StreamId) -> Option<Incoming> {
        self.invocations.borrow_mut().get_mut(owner)?.streams.take(number)
    }

    /// Counts an outgoing call of the invocation.
    ///
    /// # Errors
    /// Returns the limit if the invocation has already made as many calls, or has ended.
    pub fn subrequest(&self, id: InvocationId) -> Result<(), u32> {
        let limit = self.revision.limits.subrequests;
        let mut invocations = self.invocations.borrow_mut();
        let invocation = invocations
            .get_mut(id)
            .filter(|invocation| invocation.subrequests < limit)
            .ok_or(limit)?;
        invocation.subrequests += 1;
        Ok(())
    }

    /// Records traffic of the invocation after its response's head. Traffic restarts the wall-clock
    /// limit.
    pub fn record_progress(&self, id: InvocationId) {
        if let Some(invocation) = self.invocations.borrow_mut().get_mut(id) {
            invocation.last_progress = Some(Instant::now());
        }
    }

    /// Renews the CPU and log budgets of the invocation to those of a request, because a message
    /// has arrived on one of its sockets.
    pub fn refresh(&self, id: InvocationId) {
        let cpu = Duration::from_millis(self.revision.limits.cpu_ms.into());
        if let Some(invocation) = self.invocations.borrow_mut().get_mut(id) {
            invocation.cpu_left = invocation.cpu_left.max(cpu + GRACE);
            invocation.log_left = invocation.log_left.max(log::BUDGET);
        }
    }

    /// Records that a promise that kept the invocation alive has settled.
    pub fn promise_settled(&self, id: InvocationId) {
        self.invocations.borrow_mut().promise_settled(id);
        self.end_if_done(id);
    }

    /// Ends the invocation if its outcome has been taken and no promise keeps it alive.
    pub fn end_if_done(&self, id: InvocationId) {
        let ended = self.invocations.borrow_mut().end_if_done(id);
        self.release(ended);
    }

    /// Ends the invocation and aborts its operations.
    pub fn end(&self, id: InvocationId) {
        self.remove(id);
        self.reap();
    }

    /// Ends the invocations that continue after their callers have the whole response, because the
    /// Worker now runs elsewhere.
    pub fn end_lingering(&self) {
        let lingering = self.invocations.borrow().lingering();
        for id in lingering {
            if let Some(invocation) = self.invocations.borrow().get(id) {
                invocation.attachments.iter().for_each(|attachment| attachment.end_with_restart());
            }
            let why = "ended after its response: its turns are too long for this shard, and the Worker has moved to a \
                 lane; reopen WebSockets to reach it there";
            self.log(Some(id), Severity::Warn, why);
            self.remove(id);
        }
        self.reap();
    }

    fn remove(&self, id: InvocationId) {
        let ended = self.invocations.borrow_mut().end(id);
        self.release(ended);
    }

    /// Drops an invocation that has ended, and gives the rest of its budget to unattended code. No
    /// borrow is held, because dropping a request's body may run any code.
    fn release(&self, ended: Option<Invocation>) {
        if let Some(ended) = ended {
            self.unattended.replace(Unattended::from(&ended));
        }
    }

    /// Fails the invocations that can make no further progress, and releases the isolate when no
    /// invocation is in flight. It must be called after a turn or an invocation has ended.
    pub fn reap(&self) {
        let stalled = self.invocations.borrow().stalled();
        for id in stalled {
            self.fail(id, FailureCode::NoResponse);
        }
        let invocations = self.invocations.borrow();
        self.realms.borrow_mut().retain(|id, _| invocations.get(*id).is_some());
        self.disconnect_callbacks.borrow_mut().retain(|id, _| invocations.get(*id).is_some());
        if invocations.len() == 0 {
            drop(invocations);
            self.idle.notify_waiters();
            // This may be the last reference.
            let isolate = self.kept.borrow_mut().take();
            drop(isolate);
        }
    }

    /// Drops everything that refers into V8's heap, which is about to be disposed of.
    pub fn clear(&self) {
        drop(self.operations.take());
        drop(self.realms.take());
        drop(self.disconnect_callbacks.take());
        drop(self.rejections.take());
    }
}
