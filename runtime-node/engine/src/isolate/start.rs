//! Starts an isolate: gives a spare isolate to a Worker, evaluates the modules, and makes the
//! realms of a Worker whose state is reset for each invocation.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::id::RevisionDigest;
use tenon_proto::revision::{ByKind, Revision, StatePolicy};
use tokio::time::Instant;

use super::deliver::invoke;
use super::{Isolate, debug, event_loop};
use crate::blocking_time::LongestBlockingTime;
use crate::bytecode::{Bytecode, BytecodeLookup};
use crate::callbacks::OnPanic;
use crate::collection::Collections;
use crate::engine::Engine;
use crate::fair_scheduler::Pass;
use crate::ids::InvocationId;
use crate::inspector::agent::Agent;
use crate::invocation::{Event, Invocation};
use crate::modules::table::Modules;
use crate::realm::{Hooks, Realm};
use crate::slot::slot_value;
use crate::spare::Spare;
use crate::state::State;
use crate::{log, modules, snapshot, source_maps};

impl Isolate {
    /// Makes an isolate and evaluates the revision's modules in it.
    ///
    /// # Arguments
    /// * `bytecode` - bytecode of the modules, if available.
    ///
    /// # Errors
    /// Fails with `WorkerStartFailed` if the modules cannot be compiled, throw, or export no
    /// handler; the log contains the position and the cause. Fails with the code of a limit if the
    /// modules exceed that limit.
    pub async fn start(
        engine: &Rc<Engine>,
        digest: RevisionDigest,
        revision: Rc<Revision>,
        bytecode: Option<Arc<Bytecode>>,
    ) -> Result<Rc<Self>, Failure> {
        let isolate = Self::make(engine, digest, revision, Modules::new(bytecode));
        let first = Rc::clone(&isolate.vm.borrow().realm);
        isolate.may_run().await;
        isolate.evaluate(&first).await?;
        isolate.vm.borrow_mut().ready = isolate.resets().then_some(first);
        Ok(isolate)
    }

    fn make(
        engine: &Rc<Engine>,
        digest: RevisionDigest,
        revision: Rc<Revision>,
        modules: Modules,
    ) -> Rc<Self> {
        let limits = &revision.limits;
        let longest_blocking_time = LongestBlockingTime::default();
        let spare = if engine.has_spare(limits) { engine.spares.borrow_mut().pop() } else { None };
        let spare = longest_blocking_time.measure(|| match spare {
            Some(mut spare) => {
                spare.lower(limits.memory_mib);
                spare
            }
            None => Spare::make(limits.memory_mib, engine.headroom, engine.interfaces.builtins()),
        });
        let Spare { mut vm, foreground, buffers } = spare;
        let agent = debug::agent(engine, digest, &revision, &mut vm);
        let modules = if agent.is_some() { Modules::default() } else { modules };
        let account = engine.scheduler.account(&revision.worker);
        let log_rate = engine.log_rates.of(&revision.worker, Instant::now());
        vm.memories.assign_to(revision.worker.namespace());
        let state = State::new(
            Rc::clone(&revision),
            digest,
            Arc::clone(&buffers),
            log_rate,
            engine.exceptions.clone(),
            Rc::clone(&engine.condemnation),
        );
        *vm.realm.modules.borrow_mut() = modules;
        let on_panic: Rc<dyn OnPanic> = state.clone();
        vm.isolate.set_slot(on_panic);
        vm.isolate.set_slot(Rc::clone(&state));
        vm.isolate.set_slot(revision);
        vm.isolate.set_slot(Collections::new(buffers));
        vm.isolate.set_slot(engine.buffers.clone());
        vm.isolate.set_slot(engine.compiled.clone());
        vm.isolate.set_slot(engine.interfaces.builtins());
        vm.isolate.set_slot(Arc::clone(&engine.turn_timer));
        engine.interfaces.initialize(&mut vm.isolate, &state);
        let isolate = Rc::new(Self {
            engine: Rc::clone(engine),
            vm: RefCell::new(vm),
            state,
            account,
            cpu: Cell::default(),
            taken: Cell::default(),
            longest_blocking_time,
            uninspected: Cell::default(),
            is_renewing: Cell::new(false),
            agent,
            profiler: RefCell::default(),
        });
        let weak = Rc::downgrade(&isolate);
        isolate.spawn_command_loop();
        isolate.state.set_isolate(weak.clone());
        tokio::task::spawn_local(event_loop::run(
            weak,
            isolate.state.operations.has_begun(),
            foreground,
        ));
        isolate
    }

    /// Returns the result of the bytecode lookup at the start, or `None` if the Worker is too small
    /// or too large for bytecode, or can be debugged.
    pub fn bytecode_lookup(&self) -> Option<BytecodeLookup> {
        (self.agent.is_none() && Bytecode::is_worthwhile(&self.state.revision))
            .then(|| self.vm.borrow().realm.modules.borrow().bytecode_lookup())
    }

    /// Returns the bytecode of the functions that the Worker has used so far, or `None` if the
    /// isolate must never be entered again or its heap is full. Takes a few milliseconds per
    /// megabyte, which do not count as the time for which the isolate has blocked its thread,
    /// because they do not recur.
    pub fn bytecode(&self) -> Option<Bytecode> {
        self.enter_unmeasured(|scope, realm| {
            let context = v8::Local::new(scope, &realm.context);
            Some(modules::bytecode(&mut v8::ContextScope::new(scope, context), realm))
        })
    }

    fn resets(&self) -> bool {
        self.state.revision.state == StatePolicy::Reset
    }

    /// Evaluates the modules in `realm`.
    async fn evaluate(self: &Rc<Self>, realm: &Rc<Realm>) -> Result<(), Failure> {
        let cpu = Duration::from_millis(self.state.revision.limits.startup_ms.into());
        let invocation = Invocation::new(Event::Start, String::new(), cpu, log::BUDGET);
        let pass = self.queue().await;
        let realm = self.resets().then(|| Rc::clone(realm));
        let agent = self.agent.as_deref();
        let call =
            |scope: &mut v8::PinScope<'_, '_>, hooks: &Hooks, id| evaluate(scope, hooks, id, agent);
        invoke(self, pass, realm, invocation, call).await.map(drop)
    }

    /// Returns a realm for one invocation, if the Worker resets, and the right to the invocation's
    /// first turn. Starts a task that makes the next realm.
    pub(super) async fn realm_for_one(
        self: &Rc<Self>,
        mut pass: Pass,
    ) -> Result<(Option<Rc<Realm>>, Pass), Failure> {
        if !self.resets() {
            return Ok((None, pass));
        }
        let ready = self.vm.borrow_mut().ready.take();
        let realm = match ready {
            Some(realm) => realm,
            None => {
                // Making a realm takes several turns, with time between them.
                drop(pass);
                let realm = self.new_realm().await?;
                pass = self.queue().await;
                realm
            }
        };
        if !self.is_renewing.replace(true) {
            tokio::task::spawn_local(renew(Rc::downgrade(self)));
        }
        Ok((Some(realm), pass))
    }

    async fn new_realm(self: &Rc<Self>) -> Result<Rc<Realm>, Failure> {
        let made = self.enter(|scope, first| {
            snapshot::new_realm(scope, self.agent.as_deref())
                .inspect(|realm| realm.share_bytecode_of(first))
        });
        let full = || {
            Failure::new(
                FailureCode::MemoryLimitExceeded,
                Phase::Start,
                "the Worker's memory is full",
            )
        };
        let realm = made.ok_or_else(full)?;
        self.evaluate(&realm).await?;
        Ok(realm)
    }
}

fn evaluate(
    scope: &mut v8::PinScope<'_, '_>,
    hooks: &Hooks,
    id: InvocationId,
    agent: Option<&Agent>,
) -> Option<()> {
    let revision = slot_value::<Rc<Revision>>(scope);
    if source_maps::are_in(&revision) {
        let (install, undefined) =
            (v8::Local::new(scope, &hooks.stacks), v8::undefined(scope).into());
        install.call(scope, undefined, &[])?;
    }
    modules::builtin::define_globals(scope, &revision)?;
    let undefined = v8::undefined(scope).into();
    let variables = v8::Object::new(scope);
    let ByKind { vars, secrets, services, assets } = ByKind::of(&revision.bindings);
    for (name, value) in vars.into_iter().chain(secrets) {
        let (name, value) = (v8::String::new(scope, name)?, v8::String::new(scope, value)?);
        variables.create_data_property(scope, name.into(), value.into())?;
    }
    let workers = v8::Integer::new_from_unsigned(scope, services.len() as u32).into();
    let services = services.into_iter().map(|(name, _)| name);
    let fetchers = names(scope, services.chain(assets))?;
    let bind = v8::Local::new(scope, &hooks.bind);
    bind.call(scope, undefined, &[variables.into(), fetchers.into(), workers])?;
    agent.into_iter().for_each(Agent::break_on_start);
    let (evaluation, namespace) = modules::evaluate(scope, &revision)?;
    let start = v8::Local::new(scope, &hooks.start);
    let id = v8::Number::new(scope, id.to_number()).into();
    start.call(scope, undefined, &[id, evaluation, namespace]).map(drop)
}

/// Returns an array of names.
fn names<'a, 's>(
    scope: &mut v8::PinScope<'s, '_>,
    names: impl Iterator<Item = &'a str>,
) -> Option<v8::Local<'s, v8::Array>> {
    let names = names.map(|name| Some(v8::String::new(scope, name)?.into()));
    let names: Option<Vec<v8::Local<'_, v8::Value>>> = names.collect();
    Some(v8::Array::new_with_elements(scope, &names?))
}

/// Makes a realm in advance for the next invocation of a Worker that resets, after the tasks that
/// are ready now have run.
async fn renew(isolate: Weak<Isolate>) {
    tokio::task::yield_now().await;
    let Some(isolate) = isolate.upgrade() else { return };
    if isolate.condemned().is_none()
        && let Ok(realm) = isolate.new_realm().await
    {
        isolate.vm.borrow_mut().ready = Some(realm);
    }
    isolate.is_renewing.set(false);
}
