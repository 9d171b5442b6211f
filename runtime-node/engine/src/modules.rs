//! Finds a revision's modules by their names, makes them on first use, and evaluates the
//! entrypoint.
//!
//! ```text
//!  import x from "./a.json" with { type: "json" }
//!     └─► find ─► Key: "a.json" as JSON ─► load ─┬─ code: compiled, from bytecode if available
//!                                                ├─ a value: a synthetic module (values)
//!                                                └─ built-in: a synthetic module (builtin)
//! ```
//!
//! [`tenon_proto::module`] decides to which module a specifier refers, and in which form the module
//! is imported. `import()` takes the same path. Only modules of the revision and built-in modules
//! can be imported. Each realm has its own [`table`] of the modules that have been made.

pub mod builtin;
pub mod table;
mod text;
mod values;

use std::rc::Rc;

use bytes::Bytes;
use tenon_proto::module::{Form, ImportRefused, ModuleKind, ORIGIN, resolve, type_attribute};
use tenon_proto::revision::Revision;
use v8::script_compiler::{CachedData, CompileOptions, NoCacheReason, Source, compile_module2};

use super::bytecode::Bytecode;
use super::callbacks::{self, ResolveImport};
use super::inspector::agent::Agent;
use super::realm::Realm;
use super::slot::slot_value;
use super::string::beginning;
use super::thrown::Thrown;

use table::Key;
use text::text;

/// Maximum length of a specifier or an attribute, in UTF-16 units. A longer specifier names no
/// module and is not examined.
const MAX_SPECIFIER: usize = 4096;

/// Size of a module, in bytes, below which all of its functions are compiled eagerly.
const SHORT: usize = 4 << 10;

/// Compiles, links and evaluates the entrypoint. Returns the promise of its evaluation and its
/// namespace.
pub fn evaluate<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    revision: &Revision,
) -> Option<(v8::Local<'s, v8::Value>, v8::Local<'s, v8::Value>)> {
    run(scope, revision, &Key { name: revision.entrypoint.clone(), form: Form::Code })
}

fn run<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    revision: &Revision,
    key: &Key,
) -> Option<(v8::Local<'s, v8::Value>, v8::Local<'s, v8::Value>)> {
    let module = load(scope, revision, key)?;
    module.instantiate_module(scope, callbacks::on_resolve::<Imports>)?;
    let evaluation = module.evaluate(scope)?;
    Some((evaluation, module.get_module_namespace()))
}

/// Sets `import.meta` of a module: its URL, and whether it is the entrypoint.
pub fn fill_meta(
    scope: &mut v8::PinScope<'_, '_>,
    module: v8::Local<'_, v8::Module>,
    meta: v8::Local<'_, v8::Object>,
) {
    let Some(realm) = Realm::of(scope) else { return };
    let Some(name) = realm.modules.borrow().key_of(module).map(|key| key.name.clone()) else {
        return;
    };
    let is_main = v8::Boolean::new(scope, slot_value::<Rc<Revision>>(scope).entrypoint == name);
    let url = v8::String::new(scope, &format!("{ORIGIN}{name}"));
    let keys = v8::String::new(scope, "url").zip(v8::String::new(scope, "main"));
    if let Some((url, (url_key, main_key))) = url.zip(keys) {
        meta.create_data_property(scope, url_key.into(), url.into());
        meta.create_data_property(scope, main_key.into(), is_main.into());
    }
}

/// Implements `import()`.
///
/// This function only requests the module. If the module were evaluated here, its evaluation could
/// nest inside that of the importing module, and V8 aborts the process if both are the same module.
pub fn import_dynamically<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    referrer: v8::Local<'s, v8::Value>,
    specifier: v8::Local<'s, v8::String>,
    attributes: v8::Local<'s, v8::FixedArray>,
) -> Option<v8::Local<'s, v8::Promise>> {
    // V8 ends the process if this function returns no promise and throws no exception. The hook is
    // an async function and returns its promise; if it could not be called, the call threw.
    let realm = Realm::current(scope)?;
    let import = v8::Local::new(scope, &realm.hooks.import);
    let undefined = v8::undefined(scope).into();
    // Keys and values alternate.
    let attributes: Vec<v8::Local<'_, v8::Value>> = (0..attributes.length())
        .filter_map(|i| attributes.get(scope, i)?.try_into().ok())
        .collect();
    let attributes = match &attributes[..] {
        [] => undefined,
        attributes => v8::Array::new_with_elements(scope, attributes).into(),
    };
    import.call(scope, undefined, &[specifier.into(), referrer, attributes])?.try_into().ok()
}

/// Makes, links and evaluates the module to which `specifier` refers in `referrer`. Returns the
/// promise of the module's evaluation and its namespace. Throws if there is no such module, or if
/// the module cannot be compiled or linked. The caller must not be within the evaluation of another
/// module.
///
/// # Arguments
/// * `attributes` - an array from the built-in JavaScript in which keys and values alternate, or
///   `undefined` if there are no attributes.
pub fn import<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    specifier: v8::Local<'s, v8::String>,
    referrer: &str,
    attributes: v8::Local<'s, v8::Value>,
) -> Option<(v8::Local<'s, v8::Value>, v8::Local<'s, v8::Value>)> {
    let revision = slot_value::<Rc<Revision>>(scope);
    let mut texts = Vec::new();
    if let Ok(attributes) = attributes.try_cast::<v8::Array>() {
        for i in 0..attributes.length() {
            texts.push(attributes.get_index(scope, i)?.try_into().ok()?);
        }
    }
    let attributes = pairs(scope, &texts);
    let key = find(scope, &revision, specifier, referrer, attributes)?;
    run(scope, &revision, &key)
}

/// The resolver of `import` statements.
struct Imports;

impl ResolveImport for Imports {
    /// Returns the module that an `import` statement of another module names.
    fn resolve<'s>(
        scope: &mut v8::PinScope<'s, '_>,
        specifier: v8::Local<'s, v8::String>,
        attributes: v8::Local<'s, v8::FixedArray>,
        referrer: v8::Local<'s, v8::Module>,
    ) -> Option<v8::Local<'s, v8::Module>> {
        let revision = slot_value::<Rc<Revision>>(scope);
        let referrer = Realm::of(scope)?
            .modules
            .borrow()
            .key_of(referrer)
            .map(|key| key.name.clone())
            .unwrap_or_default();
        // Each attribute has a key, a value, and its position in the source.
        let texts: Vec<v8::Local<'_, v8::String>> = (0..attributes.length())
            .filter(|i| i % 3 != 2)
            .filter_map(|i| {
                v8::Local::<v8::Value>::try_from(attributes.get(scope, i)?).ok()?.try_into().ok()
            })
            .collect();
        let attributes = pairs(scope, &texts);
        let key = find(scope, &revision, specifier, &referrer, attributes)?;
        load(scope, &revision, &key)
    }
}

/// Groups texts into pairs.
fn pairs(
    scope: &v8::PinScope<'_, '_>,
    texts: &[v8::Local<'_, v8::String>],
) -> Vec<(String, String)> {
    let text = |text: &v8::Local<'_, v8::String>| beginning(scope, *text, MAX_SPECIFIER);
    texts.chunks_exact(2).map(|pair| (text(&pair[0]), text(&pair[1]))).collect()
}

/// Returns the key of the module to which `specifier` refers in `referrer`. Throws if there is
/// none, or if it cannot be imported with these attributes.
fn find(
    scope: &mut v8::PinScope<'_, '_>,
    revision: &Revision,
    specifier: v8::Local<'_, v8::String>,
    referrer: &str,
    attributes: Vec<(String, String)>,
) -> Option<Key> {
    if specifier.length() > MAX_SPECIFIER {
        Thrown::type_error("Cannot find module: its specifier is too long").throw(scope);
        return None;
    }
    let specifier = specifier.to_rust_string_lossy(scope);
    let Some(name) = resolve(referrer, &specifier, |name| revision.modules.contains_key(name))
    else {
        let found = builtin::find(revision, &specifier);
        if let Ok(Some(key)) = found {
            return Some(key);
        }
        let why = found.err().map(|error| format!(": {error}")).unwrap_or_default();
        Thrown::type_error(format!(
            "Cannot find module \"{specifier}\" imported from \"{referrer}\"{why}"
        ))
        .throw(scope);
        return None;
    };
    let form =
        type_attribute(attributes).and_then(|type_| ModuleKind::of(&name).form(type_.as_deref()));
    match form {
        Ok(form) => Some(Key { name, form }),
        Err(refused) => {
            refuse(scope, &name, referrer, &refused);
            None
        }
    }
}

fn refuse(scope: &mut v8::PinScope<'_, '_>, name: &str, referrer: &str, refused: &ImportRefused) {
    Thrown::type_error(format!("Cannot import module \"{name}\" from \"{referrer}\": {refused}"))
        .throw(scope);
}

/// Returns the module, and makes it if it has not been made. Throws if it cannot be made.
fn load<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    revision: &Revision,
    key: &Key,
) -> Option<v8::Local<'s, v8::Module>> {
    let realm = Realm::current(scope)?;
    if let Some(module) = realm.modules.borrow().get(key) {
        return Some(v8::Local::new(scope, module));
    }
    let module = match (key.form, revision.modules.get(&key.name)) {
        (Form::Builtin, _) => builtin::module(scope, &realm, &key.name)?,
        (_, None) => {
            Thrown::type_error(format!("There is no module \"{}\"", key.name)).throw(scope);
            return None;
        }
        (Form::Code, Some(content)) => compile(scope, &realm, &key.name, content)?,
        (Form::Json | Form::Text | Form::Buffer | Form::Bytes | Form::WebAssembly, Some(_)) => {
            values::module(scope, &key.name)?
        }
    };
    realm.modules.borrow_mut().insert(
        module.get_identity_hash(),
        key,
        v8::Global::new(scope, module),
    );
    Some(module)
}

fn compile<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    realm: &Realm,
    name: &str,
    code: &Bytes,
) -> Option<v8::Local<'s, v8::Module>> {
    let Some(source) = text(scope, code) else {
        Thrown::type_error(format!("The module \"{name}\" is too large")).throw(scope);
        return None;
    };
    let origin = origin(scope, name)?;
    let bytecode = realm.modules.borrow().bytecode();
    let (mut source, options) = match bytecode.as_ref().and_then(|bytecode| bytecode.get(name)) {
        Some(cached) => {
            let cached = CachedData::new(cached);
            (
                Source::new_with_cached_data(source, Some(&origin), cached),
                CompileOptions::ConsumeCodeCache,
            )
        }
        // Most functions of a small module are used, and functions that are not compiled eagerly
        // are parsed twice.
        None if code.len() < SHORT => {
            (Source::new(source, Some(&origin)), CompileOptions::EagerCompile)
        }
        None => (Source::new(source, Some(&origin)), CompileOptions::NoCompileOptions),
    };
    let module = compile_module2(scope, &mut source, options, NoCacheReason::NoReason)?;
    if source.get_cached_data().is_some_and(CachedData::rejected) {
        realm.modules.borrow_mut().reject_bytecode();
    }
    Some(module)
}

/// Returns the origin of a module of code, with its source map for the clients of an inspector.
fn origin<'s>(scope: &mut v8::PinScope<'s, '_>, name: &str) -> Option<v8::ScriptOrigin<'s>> {
    let agent = Agent::of(scope);
    let script = agent.as_ref().and_then(|agent| agent.script(name));
    let resource = v8::String::new(scope, name)?.into();
    let map = script
        .and_then(|script| script.source_map_url.as_deref())
        .and_then(|url| v8::String::new(scope, url))
        .map(Into::into);
    // V8 reports an exception to an inspector only if its script is marked as shared.
    let is_shared = script.is_some();
    Some(v8::ScriptOrigin::new(scope, resource, 0, 0, is_shared, -1, map, false, false, true, None))
}

/// Returns the bytecode of the functions that have been compiled, for the modules for which V8
/// provides it.
pub fn bytecode(scope: &mut v8::PinScope<'_, '_>, realm: &Realm) -> Bytecode {
    let modules = realm.modules.borrow();
    let mut bytecode = Bytecode::default();
    for (name, module) in modules.code() {
        let module = v8::Local::new(scope, module);
        if let Some(cache) = module.get_unbound_module_script(scope).create_code_cache() {
            bytecode.insert(name.to_owned(), cache.to_vec());
        }
    }
    bytecode
}
