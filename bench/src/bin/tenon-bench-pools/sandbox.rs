//! Initializes V8 for the harness, makes a snapshot of `js/bootstrap.js`, and creates isolates from
//! the snapshot.

use std::net::SocketAddr;

// V8 runs with the flags of the product, so that the results apply to the product.
use tenon_engine::flags::FLAGS;

use crate::scenario::Shape;
use crate::turn::{self, Outbox, Realm};

const BOOTSTRAP: &str = include_str!("js/bootstrap.js");
/// The index of `internal`, an object that `js/bootstrap.js` creates, in the snapshot's context
/// data. It is the first entry.
const INTERNAL: usize = 0;

/// Initializes V8, with `further` flags in addition to the product's. This function must be called
/// on the main thread, before any other thread is started.
pub fn init(further: &str) {
    v8::V8::set_flags_from_string(FLAGS);
    v8::V8::set_flags_from_string(further);
    v8::V8::initialize_platform(v8::new_default_platform(1, false).make_shared());
    v8::V8::initialize();
}

/// Returns a snapshot of the JavaScript state before any Worker is loaded. Functions in the
/// snapshot keep their bytecode.
pub fn snapshot() -> Vec<u8> {
    let mut isolate = v8::Isolate::snapshot_creator(None, None);
    {
        v8::scope!(let scope, &mut isolate);
        let context = v8::Context::new(scope, v8::ContextOptions::default());
        let scope = &mut v8::ContextScope::new(scope, context);
        let source =
            v8::String::new(scope, BOOTSTRAP).expect("V8 did not create the string of the script");
        let internal =
            v8::Script::compile(scope, source, None).and_then(|script| script.run(scope));
        scope.add_context_data(context, internal.expect("the script of the harness failed"));
        scope.set_default_context(context);
    }
    let blob =
        isolate.create_blob(v8::FunctionCodeHandling::Keep).expect("V8 did not create a snapshot");
    blob.to_vec()
}

/// The initial state of every isolate of a measurement, and the Worker that it runs.
#[derive(Clone, Copy)]
pub struct Sandbox {
    snapshot: &'static [u8],
    source: &'static str,
    new_context: bool,
    origin: SocketAddr,
}

impl Sandbox {
    /// Creates the sandbox. The snapshot is leaked, because V8 needs it until the process ends.
    pub fn new(snapshot: Vec<u8>, shape: &Shape, origin: SocketAddr) -> Self {
        Self {
            snapshot: snapshot.leak(),
            source: shape.source,
            new_context: shape.new_context,
            origin,
        }
    }

    /// Returns whether each request has a context of its own.
    pub fn has_context_per_request(&self) -> bool {
        self.new_context
    }

    pub fn origin(&self) -> SocketAddr {
        self.origin
    }

    /// Creates an isolate, which the thread has entered.
    pub fn isolate(&self) -> v8::OwnedIsolate {
        let params =
            v8::CreateParams::default().snapshot_blob(v8::StartupData::from(self.snapshot));
        let mut isolate = v8::Isolate::new(params);
        isolate.set_microtasks_policy(v8::MicrotasksPolicy::Explicit);
        isolate.set_slot(Outbox::default());
        isolate
    }

    /// Creates a context in an entered isolate, and evaluates the Worker in the context.
    pub fn realm(&self, isolate: &mut v8::Isolate) -> Realm {
        v8::scope!(let scope, isolate);
        let context = v8::Context::new(scope, v8::ContextOptions::default());
        let scope = &mut v8::ContextScope::new(scope, context);
        let realm = self.set_up(scope, context);
        realm.expect("a Worker of the benchmark failed, or has no handler")
    }

    fn set_up(
        &self,
        scope: &mut v8::PinScope<'_, '_>,
        context: v8::Local<'_, v8::Context>,
    ) -> Option<Realm> {
        let internal: v8::Local<'_, v8::Object> =
            scope.get_context_data_from_snapshot_once(INTERNAL).ok()?;
        turn::install(scope, internal)?;
        let namespace = evaluate(scope, self.source)?;
        let handler: v8::Local<'_, v8::Object> =
            get(scope, namespace, "default")?.try_into().ok()?;
        let deliver: v8::Local<'_, v8::Function> =
            get(scope, internal, "deliver")?.try_into().ok()?;
        let complete: v8::Local<'_, v8::Function> =
            get(scope, internal, "complete")?.try_into().ok()?;
        let env = v8::Object::new(scope);
        let name = v8::String::new(scope, "ORIGIN")?.into();
        let origin = v8::String::new(scope, &format!("http://{}/", self.origin))?.into();
        env.create_data_property(scope, name, origin)?;
        Some(Realm {
            context: v8::Global::new(scope, context),
            deliver: v8::Global::new(scope, deliver),
            complete: v8::Global::new(scope, complete),
            handler: v8::Global::new(scope, handler),
            env: v8::Global::new(scope, env),
        })
    }
}

fn get<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    object: v8::Local<'s, v8::Object>,
    name: &str,
) -> Option<v8::Local<'s, v8::Value>> {
    let key = v8::String::new(scope, name)?;
    object.get(scope, key.into())
}

/// Evaluates a module without imports, and returns its namespace. Returns `None` if the module
/// cannot be compiled or evaluated.
fn evaluate<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    source: &str,
) -> Option<v8::Local<'s, v8::Object>> {
    let source = v8::String::new(scope, source)?;
    let name = v8::String::new(scope, "worker.js")?.into();
    let origin =
        v8::ScriptOrigin::new(scope, name, 0, 0, false, -1, None, false, false, true, None);
    let mut source = v8::script_compiler::Source::new(source, Some(&origin));
    let module = v8::script_compiler::compile_module(scope, &mut source)?;
    module.instantiate_module(scope, |_, _, _, _| None)?;
    module.evaluate(scope)?;
    scope.perform_microtask_checkpoint();
    module.get_module_namespace().try_into().ok()
}
