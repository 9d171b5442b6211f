//! A realm (ECMAScript §9.3): a global object of an isolate, with the built-in JavaScript and a
//! Worker's modules as evaluated for that object.
//!
//! A Worker whose state persists has one realm for all of its invocations. A Worker whose state is
//! reset gets a new realm for each invocation, made in advance, so that no invocation sees the
//! state of another.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use rustc_hash::FxHashMap;

use super::modules::table::Modules;
use super::slot::slot;

/// An isolate's realms by their numbers, in one of the slots that `v8::Isolate` has for data.
///
/// A realm's number is the security token of its context, which the engine uses for nothing else. A
/// slot of the context is unsuitable, because the `v8` crate frees such a slot through a weak
/// handle: when an isolate is dropped, the target of that handle is freed before V8's last
/// collection uses it.
#[derive(Default)]
struct Realms {
    /// Number of realms so far.
    made: u32,
    by_number: FxHashMap<u32, Weak<Realm>>,
}

/// One realm of an isolate; see the [module documentation](self).
pub struct Realm {
    pub context: v8::Global<v8::Context>,
    pub hooks: Hooks,
    pub modules: RefCell<Modules>,
}

/// The JavaScript functions that native code calls: those of `dispatch.js`, `lazy` of `later.js`,
/// `json` and `stacks` of `modules.js`, `wasm` of `wasm.js`, `exception` of `domexception.js`,
/// `rejection` of `errors.js`, and `builtin` of `node.js`.
pub struct Hooks {
    pub bind: v8::Global<v8::Function>,
    pub start: v8::Global<v8::Function>,
    pub fetch: v8::Global<v8::Function>,
    pub rpc: v8::Global<v8::Function>,
    pub scheduled: v8::Global<v8::Function>,
    pub import: v8::Global<v8::Function>,
    pub lazy: v8::Global<v8::Function>,
    pub json: v8::Global<v8::Function>,
    pub wasm: v8::Global<v8::Function>,
    pub stacks: v8::Global<v8::Function>,
    pub exception: v8::Global<v8::Function>,
    pub rejection: v8::Global<v8::Function>,
    pub builtin: v8::Global<v8::Function>,
}

impl Realm {
    /// Makes a realm of the current context, without modules. Returns `None` if the heap is full.
    ///
    /// # Arguments
    /// * `internal` - the object `internal` of the built-in JavaScript.
    pub(crate) fn new(
        scope: &mut v8::PinScope<'_, '_>,
        internal: v8::Local<'_, v8::Object>,
    ) -> Option<Rc<Self>> {
        let context = scope.get_current_context();
        let hooks = Hooks::of(scope, internal)?;
        let realm = Rc::new(Self {
            context: v8::Global::new(scope, context),
            hooks,
            modules: RefCell::default(),
        });
        let number = slot::<Realms>(scope).add(&realm);
        context.set_security_token(v8::Integer::new_from_unsigned(scope, number).into());
        Some(realm)
    }

    /// Shares the bytecode of another realm of the isolate.
    pub fn share_bytecode_of(&self, other: &Self) {
        *self.modules.borrow_mut() = other.modules.borrow().empty_with_same_bytecode();
    }

    /// Returns the realm whose code is running, or `None` if it has been dropped because its
    /// invocation has ended.
    pub fn of(scope: &v8::PinScope<'_, '_>) -> Option<Rc<Self>> {
        let number = scope.get_current_context().get_security_token(scope).uint32_value(scope)?;
        scope.get_slot::<Realms>()?.by_number.get(&number)?.upgrade()
    }

    /// Returns the realm whose code is running. Throws if it has been dropped because its
    /// invocation has ended.
    pub fn current(scope: &mut v8::PinScope<'_, '_>) -> Option<Rc<Self>> {
        let realm = Self::of(scope);
        if realm.is_none()
            && let Some(message) = v8::String::new(scope, "The invocation has ended")
        {
            let exception = v8::Exception::type_error(scope, message);
            scope.throw_exception(exception);
        }
        realm
    }
}

impl Realms {
    /// Adds a realm. Returns its number.
    fn add(&mut self, realm: &Rc<Realm>) -> u32 {
        self.by_number.retain(|_, realm| realm.strong_count() > 0);
        self.made = self.made.wrapping_add(1);
        self.by_number.insert(self.made, Rc::downgrade(realm));
        self.made
    }
}

impl Hooks {
    fn of(scope: &mut v8::PinScope<'_, '_>, internal: v8::Local<'_, v8::Object>) -> Option<Self> {
        let key = v8::String::new(scope, "hooks")?;
        let hooks: v8::Local<'_, v8::Object> = internal.get(scope, key.into())?.try_into().ok()?;
        let hook = |name| {
            let key = v8::String::new(scope, name)?;
            let function: v8::Local<'_, v8::Function> =
                hooks.get(scope, key.into())?.try_into().ok()?;
            Some(v8::Global::new(scope, function))
        };
        let names = [
            "bind",
            "start",
            "fetch",
            "rpc",
            "scheduled",
            "import",
            "lazy",
            "json",
            "wasm",
            "stacks",
            "exception",
            "rejection",
            "builtin",
        ];
        let [
            bind,
            start,
            fetch,
            rpc,
            scheduled,
            import,
            lazy,
            json,
            wasm,
            stacks,
            exception,
            rejection,
            builtin,
        ] = names.map(hook);
        Some(Self {
            bind: bind?,
            start: start?,
            fetch: fetch?,
            rpc: rpc?,
            scheduled: scheduled?,
            import: import?,
            lazy: lazy?,
            json: json?,
            wasm: wasm?,
            stacks: stacks?,
            exception: exception?,
            rejection: rejection?,
            builtin: builtin?,
        })
    }
}
