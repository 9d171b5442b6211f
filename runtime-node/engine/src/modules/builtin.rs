//! Makes built-in modules: those of Cloudflare's runtime, and those of Node.js for Workers whose
//! compatibility flags enable them (see `node.js` of the built-in JavaScript).
//!
//! A module is made when it is first imported, or first read through a property of the global
//! object. The code of a module that a Worker never uses is not compiled.

use tenon_proto::module::{Form, NotBuiltin, builtin};
use tenon_proto::revision::{CompatibilityFlag, Revision};

use super::table::Key;
use crate::callbacks::{self, Callback, SyntheticModule};
use crate::globals;
use crate::realm::Realm;
use crate::thrown::Thrown;

/// Properties that the flag `nodejs_compat` adds to the global object, or replaces.
const GLOBALS: [&str; 7] =
    ["Buffer", "clearImmediate", "global", "process", "setImmediate", "setInterval", "setTimeout"];

/// Returns the key of the built-in module to which a specifier refers, or `None` if it refers to
/// none.
///
/// # Errors
/// Fails if the specifier refers to a built-in module that is not available.
pub(super) fn find(revision: &Revision, specifier: &str) -> Result<Option<Key>, NotBuiltin> {
    let name = builtin(specifier, revision.compatibility_flags.iter().copied())?;
    Ok(name.map(|name| Key { name, form: Form::Builtin }))
}

/// Adds the properties of the Worker's flags to the global object. Returns `None` if the heap is
/// full.
pub(crate) fn define_globals(scope: &mut v8::PinScope<'_, '_>, revision: &Revision) -> Option<()> {
    if !revision.compatibility_flags.contains(&CompatibilityFlag::NodejsCompat) {
        return Some(());
    }
    let global = scope.get_current_context().global(scope);
    for name in GLOBALS {
        let name = v8::String::new(scope, name)?;
        globals::define_lazy(scope, global, name)?;
    }
    Some(())
}

/// Makes the module with this name, without evaluating it.
pub(super) fn module<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    realm: &Realm,
    name: &str,
) -> Option<v8::Local<'s, v8::Module>> {
    let exports = exports(scope, realm, name)?;
    let names = exports.iter().map(|(name, _)| *name).collect::<Vec<_>>();
    let name = v8::String::new(scope, name)?;
    Some(v8::Module::create_synthetic_module(
        scope,
        name,
        &names,
        callbacks::on_evaluate::<Builtin>,
    ))
}

/// The built-in modules.
struct Builtin;

impl SyntheticModule for Builtin {
    const CALLBACK: Callback = Callback::Builtin;

    /// Sets the module's exports.
    fn evaluate<'s>(
        scope: &mut v8::PinScope<'s, '_>,
        module: v8::Local<'s, v8::Module>,
    ) -> Option<v8::Local<'s, v8::Value>> {
        let realm = Realm::current(scope)?;
        let name = realm.modules.borrow().key_of(module).map(|key| key.name.clone());
        let name = name.expect("the evaluated module is not in the table");
        for (name, value) in exports(scope, &realm, &name)? {
            module.set_synthetic_module_export(scope, name, value)?;
        }
        let evaluated = v8::PromiseResolver::new(scope)?;
        let nothing = v8::undefined(scope);
        evaluated.resolve(scope, nothing.into())?;
        Some(evaluated.get_promise(scope).into())
    }
}

type Export<'s> = (v8::Local<'s, v8::String>, v8::Local<'s, v8::Value>);

/// Returns the module's exports, which are the same for each call. Throws if the module cannot be
/// made.
fn exports<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    realm: &Realm,
    name: &str,
) -> Option<Vec<Export<'s>>> {
    let hook = v8::Local::new(scope, &realm.hooks.builtin);
    let (undefined, key) = (v8::undefined(scope).into(), v8::String::new(scope, name)?.into());
    // The built-in JavaScript returns an array in which names and values alternate.
    let Ok(flat) = hook.call(scope, undefined, &[key])?.try_cast::<v8::Array>() else {
        Thrown::type_error(format!("There is no module \"{name}\"")).throw(scope);
        return None;
    };
    (0..flat.length() / 2)
        .map(|i| {
            Some((
                flat.get_index(scope, 2 * i)?.try_cast().ok()?,
                flat.get_index(scope, 2 * i + 1)?,
            ))
        })
        .collect()
}
