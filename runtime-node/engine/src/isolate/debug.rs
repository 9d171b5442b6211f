//! Makes an isolate debuggable: makes its agent, and runs the turns that process clients' commands.

use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use tenon_proto::id::RevisionDigest;
use tenon_proto::revision::Revision;

use super::Isolate;
use crate::engine::Engine;
use crate::inspector::agent::Agent;
use crate::snapshot;
use crate::vm::Vm;

/// Makes the agent of a new isolate, if the engine has an inspector that knows the revision. Also
/// replaces the isolate's realm, which was made in advance, with a realm that the agent observes.
pub(super) fn agent(
    engine: &Engine,
    digest: RevisionDigest,
    revision: &Revision,
    vm: &mut Vm,
) -> Option<Rc<Agent>> {
    let inspector = engine.inspector.as_ref()?;
    let target = inspector.target(&revision.worker, digest)?;
    let (waits, timer) = (inspector.waits(), Arc::clone(&engine.turn_timer));
    let limit = Duration::from_millis(revision.limits.cpu_ms.into());
    let guard = Rc::clone(&vm.guard);
    let (agent, realm) = vm.enter(|scope| {
        let agent = Agent::install(scope, target, waits, guard, timer, limit);
        let realm = snapshot::new_realm(scope, Some(&agent));
        (agent, realm.expect("the new heap has no room for a second realm"))
    });
    vm.realm = realm;
    Some(agent)
}

impl Isolate {
    /// Waits until the Worker's code may run, which is immediately unless the isolate waits for a
    /// client.
    pub(super) async fn may_run(&self) {
        if let Some(agent) = &self.agent {
            agent.may_run().await;
        }
    }

    /// Starts the task that processes clients' commands, if the isolate has an agent.
    pub(super) fn spawn_command_loop(self: &Rc<Self>) {
        if let Some(agent) = &self.agent {
            tokio::task::spawn_local(process_commands(Rc::downgrade(self), Rc::clone(agent)));
        }
    }
}

/// Processes clients' commands while no code runs, in separate turns.
async fn process_commands(isolate: Weak<Isolate>, agent: Rc<Agent>) {
    loop {
        agent.wait_for_commands().await;
        let Some(isolate) = isolate.upgrade() else { return };
        let pass = isolate.queue().await;
        // An error means that the isolate is sealed; it will end and detach its clients.
        let _ = isolate.turn(&pass, None, |_, _| {
            agent.process();
            Some(())
        });
    }
}
