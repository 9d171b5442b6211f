//! Modules of Node.js, for Workers whose compatibility flags ask for them (see `node.js` of the built-in JavaScript).
//!
//! One is made when it is first imported or, by a property of the global object, read. What a Worker without the flag has
//! of them is functions that nobody compiles.

use tenon_proto::module::{NotBuiltin, builtin};
use tenon_proto::revision::CompatibilityFlag;

use super::{Form, Key, realm, throw};
use crate::engine::fence;
use crate::engine::realm::Realm;
use crate::engine::snapshot;
use crate::engine::state::State;

/// What the flag adds to the global object.
const GLOBALS: [&str; 5] = ["Buffer", "clearImmediate", "global", "process", "setImmediate"];

/// The module that a specifier means, if the Worker has none of its own of that name.
///
/// # Errors
/// When it means one that is not to be had.
pub(super) fn find(state: &State, specifier: &str) -> Result<Option<Key>, NotBuiltin> {
    let name = builtin(specifier, state.revision.compatibility_flags.iter().copied())?;
    Ok(name.map(|name| Key { name, form: Form::Builtin }))
}

/// Makes what the Worker's flags add to the global object. `None` when the heap is full.
pub(in crate::engine) fn furnish(scope: &mut v8::PinScope<'_, '_>, state: &State) -> Option<()> {
    if !state.revision.compatibility_flags.contains(&CompatibilityFlag::NodejsCompat) {
        return Some(());
    }
    let global = scope.get_current_context().global(scope);
    for name in GLOBALS {
        let name = v8::String::new(scope, name)?;
        snapshot::define_lazy(scope, global, name)?;
    }
    Some(())
}

/// A module of that name, not evaluated yet.
pub(super) fn module<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    realm: &Realm,
    name: &str,
) -> Option<v8::Local<'s, v8::Module>> {
    let exports = exports(scope, realm, name)?;
    let names = exports.iter().map(|(name, _)| *name).collect::<Vec<_>>();
    let name = v8::String::new(scope, name)?;
    Some(v8::Module::create_synthetic_module(scope, name, &names, fence::on_builtin))
}

/// Gives the module what it exports.
pub(in crate::engine) fn evaluate<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    module: v8::Local<'s, v8::Module>,
) -> Option<v8::Local<'s, v8::Value>> {
    let realm = realm(scope)?;
    let name = realm.modules.borrow().key_of(module).map(|key| key.name.clone());
    let name = name.expect("a module is known from when it was made");
    for (name, value) in exports(scope, &realm, &name)? {
        module.set_synthetic_module_export(scope, name, value)?;
    }
    let evaluated = v8::PromiseResolver::new(scope)?;
    let nothing = v8::undefined(scope);
    evaluated.resolve(scope, nothing.into())?;
    Some(evaluated.get_promise(scope).into())
}

type Export<'s> = (v8::Local<'s, v8::String>, v8::Local<'s, v8::Value>);

/// What the module exports, which is the same each time; throws if it cannot be made.
fn exports<'s>(scope: &mut v8::PinScope<'s, '_>, realm: &Realm, name: &str) -> Option<Vec<Export<'s>>> {
    let hook = v8::Local::new(scope, &realm.hooks.builtin);
    let (undefined, key) = (v8::undefined(scope).into(), v8::String::new(scope, name)?.into());
    // Names and values by turns, in an array of our own.
    let Ok(flat) = hook.call(scope, undefined, &[key])?.try_cast::<v8::Array>() else {
        throw(scope, &format!("There is no module \"{name}\""));
        return None;
    };
    (0..flat.length() / 2)
        .map(|i| Some((flat.get_index(scope, 2 * i)?.try_cast().ok()?, flat.get_index(scope, 2 * i + 1)?)))
        .collect()
}
