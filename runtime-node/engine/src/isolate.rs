//! One loaded revision: a V8 isolate with its context, and the event loop that gives it turns.
//!
//! ```text
//!  fetch() ── first turn, inline ──┐
//!                                  ▼
//!          ┌──────────────────► a turn ── begins operations (timers, bodies) ──┐
//!          │                                                                   ▼
//!   event loop, a local task ◄── an operation completed, or V8 posted a task ── pending operations
//! ```
//!
//! The event loop is a task of the shard's `LocalSet`. It holds the isolate weakly: an isolate
//! lives while the pool keeps it, a request's future holds it, or an invocation is in flight.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use futures::future::poll_fn;
use futures::stream::{FuturesUnordered, StreamExt as _};
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::id::RevisionDigest;
use tenon_proto::revision::{Revision, StatePolicy};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::bytecode::{Bytecode, BytecodeLookup};
use super::fetch::{deliver, deliver_scheduled, invoke};
use super::heap::HeapGuard;
use super::invocation::{Event, Invocation, InvocationId};
use super::modules::Modules;
use super::operations::Settle;
use super::platform::{Foreground, Tasks};
use super::realm::{Hooks, Realm};
use super::spare::Spare;
use super::state::State;
use super::stretches::{Pauses, Stretches};
use super::turn::{Exited, Stop};
use super::turnstile::{Account, Pass};
use super::{Engine, FetchRequest, FetchResponse, ScheduledEvent, modules, report, source_maps, wasm};

/// One revision in its own V8 isolate. Belongs to the thread that started it, on which a
/// [`tokio::task::LocalSet`] must be running.
pub struct Isolate {
    pub(crate) engine: Rc<Engine>,
    pub(crate) vm: RefCell<Vm>,
    pub(crate) state: Rc<State>,
    pub(crate) account: Rc<Account>,
    /// CPU time of its turns since the last [`Isolate::take_cpu`].
    pub(crate) cpu: Cell<Duration>,
    pub(crate) stretches: Stretches,
    digest: RevisionDigest,
    /// Set when the isolate must never be entered again.
    sealed: Cell<bool>,
    /// Set while a realm is being made ahead.
    renews: Cell<bool>,
}

/// The parts of V8 that a turn works with, in the order in which they must be dropped: handles into
/// the heap, the isolate, then the objects that the isolate calls back.
pub(crate) struct Vm {
    /// The first realm, and the only one unless the Worker resets.
    pub(crate) realm: Rc<Realm>,
    /// A realm in which only the modules have run, ready for the next invocation.
    pub(crate) ready: Option<Rc<Realm>>,
    pub(crate) isolate: Exited,
    pub(crate) handle: v8::IsolateHandle,
    pub(crate) guard: Box<HeapGuard>,
    pub(crate) pauses: Box<Pauses>,
    pub(crate) memories: Arc<wasm::pages::Account>,
    pub(crate) tasks: Tasks,
}

impl Vm {
    /// Disposes of the isolate. The remaining handles refer to nothing.
    fn end(&mut self) {
        self.tasks.close();
        self.isolate.end();
        self.tasks.leave();
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        self.tasks.close();
    }
}

impl Isolate {
    /// Makes an isolate and evaluates the revision's modules in it.
    ///
    /// # Arguments
    /// * `bytecode` - code cache of the modules, if available.
    ///
    /// # Errors
    /// `WorkerStartFailed` if the modules cannot be compiled, throw, or export no handler; the log
    /// says where and why. A limit's code if they exceed that limit.
    pub async fn start(
        engine: &Rc<Engine>,
        digest: RevisionDigest,
        revision: Rc<Revision>,
        bytecode: Option<Arc<Bytecode>>,
    ) -> Result<Rc<Self>, Failure> {
        let isolate = Self::make(engine, digest, revision, Modules::new(bytecode));
        let first = Rc::clone(&isolate.vm.borrow().realm);
        isolate.evaluate(&first).await?;
        isolate.vm.borrow_mut().ready = isolate.resets().then_some(first);
        Ok(isolate)
    }

    /// Waits until a request may have its first turn, and delivers it.
    ///
    /// # Errors
    /// The errors of [`Isolate::deliver`].
    pub async fn fetch(self: &Rc<Self>, request: FetchRequest) -> Result<FetchResponse, Failure> {
        let pass = self.queue().await;
        self.deliver(pass, request).await
    }

    /// Resolves when a request may have its first turn. The isolate may have been condemned
    /// meanwhile.
    pub async fn queue(&self) -> Pass {
        self.engine.turnstile.enter(&self.account).await
    }

    /// Delivers a request. The first turn runs when the future is first polled; dropping it cancels
    /// the invocation.
    ///
    /// # Errors
    /// Fails if the Worker throws, never answers or exceeds a limit.
    pub fn deliver(
        self: &Rc<Self>,
        pass: Pass,
        request: FetchRequest,
    ) -> impl Future<Output = Result<FetchResponse, Failure>> + use<> {
        deliver(Rc::clone(self), pass, request)
    }

    /// Delivers a scheduled time, and resolves when the handler and everything passed to
    /// `waitUntil` have ended. Otherwise it works like [`Isolate::deliver`].
    ///
    /// # Errors
    /// Fails if the Worker throws, never finishes or exceeds a limit.
    pub fn deliver_scheduled(
        self: &Rc<Self>,
        pass: Pass,
        event: ScheduledEvent,
    ) -> impl Future<Output = Result<(), Failure>> + use<> {
        let outcome = deliver_scheduled(Rc::clone(self), pass, event);
        async move { outcome.await.map(drop) }
    }

    /// Returns the number of invocations that have begun and not ended, including those kept by
    /// `waitUntil`.
    pub fn in_flight(&self) -> usize {
        self.state.invocations.borrow().len()
    }

    /// Returns the reason why this isolate must get no new invocations, if there is one. Those it
    /// has continue.
    pub fn condemned(&self) -> Option<FailureCode> {
        self.state.condemned()
    }

    /// Returns whether this isolate should be replaced when possible, because an invocation
    /// exceeded its CPU limit and yet ended by itself: a heap that has become slow is neither a
    /// failure nor a crash.
    pub fn is_retired(&self) -> bool {
        self.state.retired.get()
    }

    /// Returns the size of the JavaScript heap and the array buffers, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let mut vm = self.vm.borrow_mut();
        let heap = vm.isolate.is_there().then(|| vm.isolate.get_heap_statistics());
        let heap = heap.map_or(0, |heap| heap.total_physical_size() + heap.malloced_memory());
        heap + self.state.buffers.used()
    }

    /// Returns the CPU time of its turns since the previous call.
    pub fn take_cpu(&self) -> Duration {
        self.cpu.take()
    }

    /// Returns the digest of the revision that it runs.
    pub fn digest(&self) -> RevisionDigest {
        self.digest
    }

    /// Returns the CPU time that an invocation may use.
    pub fn cpu_limit(&self) -> Duration {
        Duration::from_millis(self.state.revision.limits.cpu_ms.into())
    }

    /// Returns the result of the bytecode lookup at the start, or `None` if the Worker is too short
    /// or too long for bytecode to be worth while.
    pub fn bytecode_lookup(&self) -> Option<BytecodeLookup> {
        Bytecode::is_worth_while(&self.state.revision)
            .then(|| self.vm.borrow().realm.modules.borrow().bytecode_lookup())
    }

    /// Returns the bytecode of the functions that the Worker has used so far. Takes some
    /// milliseconds per megabyte. Returns `None` if the isolate's heap is full.
    pub fn bytecode(&self) -> Option<Bytecode> {
        self.look(|scope, realm| {
            let context = v8::Local::new(scope, &realm.context);
            Some(modules::bytecode(&mut v8::ContextScope::new(scope, context), realm))
        })
    }

    /// Resolves when no invocation is in flight.
    pub async fn idle(&self) {
        loop {
            let idle = self.state.is_idle.notified();
            if self.in_flight() == 0 {
                return;
            }
            idle.await;
        }
    }

    fn resets(&self) -> bool {
        self.state.revision.state == StatePolicy::Reset
    }

    /// Evaluates the modules in `realm`.
    async fn evaluate(self: &Rc<Self>, realm: &Rc<Realm>) -> Result<(), Failure> {
        let cpu = Duration::from_millis(self.state.revision.limits.startup_ms.into());
        let invocation = Invocation::new(Event::Start, String::new(), cpu, report::LOG_BUDGET);
        let pass = self.queue().await;
        let realm = self.resets().then(|| Rc::clone(realm));
        invoke(self, pass, realm, invocation, evaluate).await.map(drop)
    }

    /// Returns the realm for one invocation, if the Worker resets, and the right to its first turn.
    /// Meanwhile starts making the next realm.
    pub(crate) async fn realm_for_one(self: &Rc<Self>, mut pass: Pass) -> Result<(Option<Rc<Realm>>, Pass), Failure> {
        if !self.resets() {
            return Ok((None, pass));
        }
        let ready = self.vm.borrow_mut().ready.take();
        let realm = match ready {
            Some(realm) => realm,
            None => {
                // Making a realm takes turns of its own, with time between them.
                drop(pass);
                let realm = self.new_realm().await?;
                pass = self.queue().await;
                realm
            }
        };
        if !self.renews.replace(true) {
            tokio::task::spawn_local(renew(Rc::downgrade(self)));
        }
        Ok((Some(realm), pass))
    }

    async fn new_realm(self: &Rc<Self>) -> Result<Rc<Realm>, Failure> {
        let made = self.look(|scope, first| Realm::make(scope).inspect(|realm| realm.furnish_as(first)));
        let full = || Failure::new(FailureCode::MemoryLimitExceeded, Phase::Start, "the Worker's memory is full");
        let realm = made.ok_or_else(full)?;
        self.evaluate(&realm).await?;
        Ok(realm)
    }

    /// Fails everything in flight and never enters V8 again, because the heap is full or the
    /// isolate's state is unknown.
    pub(crate) fn seal(&self, code: FailureCode) {
        self.sealed.set(true);
        self.state.condemn(code);
        let ids = self.state.invocations.borrow().ids();
        ids.into_iter().for_each(|id| self.state.fail(id, code));
    }

    /// Ends everything that the isolate has begun, because its revision may not run any more. Call
    /// between turns.
    pub fn forbid(&self) {
        self.seal(FailureCode::WorkerQuarantined);
        self.state.rest();
    }

    /// Ends what continues although the caller has the whole response: WebSockets, `waitUntil`,
    /// timers. Work that is still owed to a caller continues within its limits. Call between turns.
    pub fn end_what_lingers(&self) {
        self.state.end_what_lingers();
    }

    /// Frees a heap that has outgrown its limit, even if other references to the isolate remain.
    /// Call between turns.
    pub(crate) fn give_back(&self) {
        self.state.clear();
        self.vm.borrow_mut().end();
    }

    pub(crate) fn is_sealed(&self) -> bool {
        self.sealed.get()
    }

    fn make(engine: &Rc<Engine>, digest: RevisionDigest, revision: Rc<Revision>, modules: Modules) -> Rc<Self> {
        let limits = &revision.limits;
        let stretches = Stretches::default();
        let spare = Spare::suits(limits).then(|| engine.spares.borrow_mut().pop()).flatten();
        let spare = spare.unwrap_or_else(|| {
            stretches.measure(|| Spare::make(limits.memory_mib, engine.headroom, engine.interfaces.builtins()))
        });
        let Spare { mut vm, foreground, buffers } = spare;
        let account = engine.turnstile.account(&revision.worker);
        let log_rate = engine.log_rates.of(&revision.worker, Instant::now());
        vm.memories.belong_to(revision.worker.namespace());
        let state = State::new(revision, buffers, log_rate, Rc::clone(&engine.is_condemned));
        *vm.realm.modules.borrow_mut() = modules;
        vm.isolate.set_slot(Rc::clone(&state));
        vm.isolate.set_slot(engine.buffers.clone());
        vm.isolate.set_slot(engine.compiled.clone());
        vm.isolate.set_slot(engine.interfaces.builtins());
        engine.interfaces.furnish(&mut vm.isolate, &state);
        let isolate = Rc::new(Self {
            engine: Rc::clone(engine),
            vm: RefCell::new(vm),
            state,
            account,
            cpu: Cell::default(),
            stretches,
            digest,
            sealed: Cell::new(false),
            renews: Cell::new(false),
        });
        isolate.state.belongs_to(&isolate);
        tokio::task::spawn_local(run(Rc::downgrade(&isolate), Rc::clone(&isolate.state.has_begun), foreground));
        isolate
    }

    /// Returns whether V8's tasks get turns of their own. Once they have used up the CPU time
    /// reserved for that, they wait for the next invocation's turn.
    fn heeds_tasks(&self) -> bool {
        !self.is_sealed() && !self.state.unattended_cpu().is_zero()
    }

    /// Runs the turn of a completed operation.
    fn complete(&self, pass: &Pass, id: InvocationId, settle: Settle) {
        if let Err(Stop::Threw(exception)) = self.turn(pass, Some(id), |scope, _| settle(scope)) {
            report::uncaught(&self.state, Some(id), "uncaught", &exception);
        }
    }
}

impl Drop for Isolate {
    fn drop(&mut self) {
        self.state.clear();
        // The event loop ends when it finds the isolate gone.
        self.state.has_begun.notify_one();
    }
}

fn evaluate(scope: &mut v8::PinScope<'_, '_>, hooks: &Hooks, id: InvocationId) -> Option<()> {
    let state = State::of(scope);
    if source_maps::are_in(&state.revision) {
        let (install, undefined) = (v8::Local::new(scope, &hooks.stacks), v8::undefined(scope).into());
        install.call(scope, undefined, &[])?;
    }
    modules::builtin::furnish(scope, &state)?;
    let undefined = v8::undefined(scope).into();
    let variables = v8::Object::new(scope);
    for (name, value) in state.revision.vars.iter().chain(&state.revision.secrets) {
        let (name, value) = (v8::String::new(scope, name)?, v8::String::new(scope, value)?);
        variables.create_data_property(scope, name.into(), value.into())?;
    }
    let services = services(scope, &state.revision)?;
    let bind = v8::Local::new(scope, &hooks.bind);
    bind.call(scope, undefined, &[variables.into(), services.into()])?;
    let (evaluation, namespace) = modules::evaluate(scope, &state)?;
    let start = v8::Local::new(scope, &hooks.start);
    let id = v8::Number::new(scope, id.to_number()).into();
    start.call(scope, undefined, &[id, evaluation, namespace]).map(drop)
}

/// Returns the names of the bindings to other Workers.
fn services<'s>(scope: &mut v8::PinScope<'s, '_>, revision: &Revision) -> Option<v8::Local<'s, v8::Array>> {
    let names = revision.services.keys().map(|name| Some(v8::String::new(scope, name)?.into()));
    let names: Option<Vec<v8::Local<'_, v8::Value>>> = names.collect();
    Some(v8::Array::new_with_elements(scope, &names?))
}

/// Makes a realm ahead for the next invocation of a Worker that resets, after the tasks that are
/// ready now have run.
async fn renew(isolate: Weak<Isolate>) {
    tokio::task::yield_now().await;
    let Some(isolate) = isolate.upgrade() else { return };
    if isolate.condemned().is_none()
        && let Ok(realm) = isolate.new_realm().await
    {
        isolate.vm.borrow_mut().ready = Some(realm);
    }
    isolate.renews.set(false);
}

/// Runs the event loop of one isolate.
async fn run(isolate: Weak<Isolate>, has_begun: Rc<Notify>, foreground: Arc<Foreground>) {
    let mut operations = FuturesUnordered::new();
    loop {
        // A flood of completed operations, however short their turns, must not keep the thread from
        // other tasks.
        tokio::task::coop::consume_budget().await;
        let (begun, heeds_tasks) = match isolate.upgrade() {
            Some(isolate) => (isolate.state.take_begun(), isolate.heeds_tasks()),
            None => return,
        };
        operations.extend(begun);
        tokio::select! {
            biased;
            () = has_begun.notified() => {}
            Some(completed) = operations.next(), if !operations.is_empty() => {
                let Some(isolate) = isolate.upgrade() else { return };
                let pass = isolate.queue().await;
                if let Some((id, operation, settle)) = completed
                    && isolate.state.complete(id, operation)
                {
                    isolate.complete(&pass, id, settle);
                }
            }
            () = poll_fn(|cx| foreground.poll_urgent(cx)), if heeds_tasks => {
                let Some(isolate) = isolate.upgrade() else { return };
                let pass = isolate.queue().await;
                // Charged to no invocation: V8 does not say which one caused them.
                let _ = isolate.turn(&pass, None, |_, _| Some(()));
            }
        }
    }
}
