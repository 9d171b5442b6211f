//! A revision's modules: found by name, compiled on first use, evaluated from the entrypoint.
//!
//! A specifier that begins with `./` or `../` is resolved against the importing module's name; any other must be
//! the name of a module. `import()` takes the same way. Nothing outside of the revision can be imported.

use std::num::NonZeroI32;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use rustc_hash::FxHashMap;
use v8::script_compiler::{CachedData, CompileOptions, NoCacheReason, Source, compile_module2};

use super::bytecode::{Bytecode, BytecodeLookup};
use super::realm::Realm;
use super::state::State;

/// A longer specifier names no module, and is not looked at.
const LONGEST: usize = 4096;

/// Of a module of fewer bytes every function is compiled at once.
const SHORT: usize = 4 << 10;

/// What `import.meta.url` begins with.
const ORIGIN: &str = "file:///";

/// The compiled modules of an isolate.
#[derive(Default)]
pub(super) struct Modules {
    /// What they need not be compiled from again.
    bytecode: Option<Arc<Bytecode>>,
    /// V8 did not want some of that.
    bytecode_was_rejected: bool,
    by_name: FxHashMap<String, v8::Global<v8::Module>>,
    /// V8's hash of a module is not unique.
    names: FxHashMap<NonZeroI32, Vec<(v8::Global<v8::Module>, String)>>,
}

impl Modules {
    pub(super) fn new(bytecode: Option<Arc<Bytecode>>) -> Self {
        Self { bytecode, ..Self::default() }
    }

    /// None yet, with the same bytecode.
    pub(super) fn anew(&self) -> Self {
        Self::new(self.bytecode.clone())
    }

    pub(super) fn bytecode_lookup(&self) -> BytecodeLookup {
        match self.bytecode {
            None => BytecodeLookup::Miss,
            Some(_) if self.bytecode_was_rejected => BytecodeLookup::Rejected,
            Some(_) => BytecodeLookup::Hit,
        }
    }

    fn insert(&mut self, hash: NonZeroI32, name: &str, module: v8::Global<v8::Module>) {
        self.names.entry(hash).or_default().push((module.clone(), name.to_owned()));
        self.by_name.insert(name.to_owned(), module);
    }

    fn name_of(&self, module: v8::Local<'_, v8::Module>) -> Option<&str> {
        let same_hash = self.names.get(&module.get_identity_hash())?;
        same_hash.iter().find(|(known, _)| *known == module).map(|(_, name)| name.as_str())
    }
}

/// Compiles, links and evaluates the entrypoint. Returns the promise of its evaluation and its namespace.
pub(super) fn evaluate<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    state: &State,
) -> Option<(v8::Local<'s, v8::Value>, v8::Local<'s, v8::Value>)> {
    let module = load(scope, state, &state.revision.entrypoint)?;
    module.instantiate_module(scope, resolve_callback)?;
    let evaluation = module.evaluate(scope)?;
    Some((evaluation, module.get_module_namespace()))
}

/// For `Isolate::set_host_initialize_import_meta_object_callback`.
#[allow(unsafe_code)] // The scope of a callback can be had in no other way.
pub(super) unsafe extern "C" fn on_import_meta(
    context: v8::Local<'_, v8::Context>,
    module: v8::Local<'_, v8::Module>,
    meta: v8::Local<'_, v8::Object>,
) {
    // SAFETY: V8 is calling back, which is what such a scope is for.
    v8::callback_scope!(unsafe scope, context);
    let Some(realm) = Realm::of(scope) else { return };
    let url = realm.modules.borrow().name_of(module).map(|name| format!("{ORIGIN}{name}"));
    let pair = v8::String::new(scope, "url").zip(url.and_then(|url| v8::String::new(scope, &url)));
    if let Some((key, url)) = pair {
        meta.create_data_property(scope, key.into(), url.into());
    }
}

/// For `Isolate::set_host_import_module_dynamically_callback`.
///
/// It only asks for the module. To evaluate one from here would be to do it while another is being evaluated, which
/// ends the process where the one is the other.
pub(super) fn on_dynamic_import<'s, 'i>(
    scope: &mut v8::PinScope<'s, 'i>,
    _options: v8::Local<'s, v8::Data>,
    referrer: v8::Local<'s, v8::Value>,
    specifier: v8::Local<'s, v8::String>,
    _attributes: v8::Local<'s, v8::FixedArray>,
) -> Option<v8::Local<'s, v8::Promise>> {
    // V8 ends the process where there is neither a promise nor an exception: an async function gives a promise, its
    // own, or it could not be called, and that threw.
    let realm = realm(scope)?;
    let import = v8::Local::new(scope, &realm.hooks.import);
    let undefined = v8::undefined(scope).into();
    import.call(scope, undefined, &[specifier.into(), referrer])?.try_into().ok()
}

/// Compiles, links and evaluates the module that `referrer` means by `specifier`. Returns the promise of its evaluation
/// and its namespace; throws if there is none, or it cannot be compiled or linked. Not to be called while another is
/// being evaluated.
pub(super) fn import<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    specifier: v8::Local<'s, v8::String>,
    referrer: &str,
) -> Option<(v8::Local<'s, v8::Value>, v8::Local<'s, v8::Value>)> {
    let state = State::of(scope);
    let name = find(scope, &state, specifier, referrer)?;
    let module = load(scope, &state, &name)?;
    module.instantiate_module(scope, resolve_callback)?;
    Some((module.evaluate(scope)?, module.get_module_namespace()))
}

#[allow(unsafe_code)] // The scope of a callback can be had in no other way.
fn resolve_callback<'s>(
    context: v8::Local<'s, v8::Context>,
    specifier: v8::Local<'s, v8::String>,
    _attributes: v8::Local<'s, v8::FixedArray>,
    referrer: v8::Local<'s, v8::Module>,
) -> Option<v8::Local<'s, v8::Module>> {
    // SAFETY: V8 is calling back, which is what such a scope is for.
    v8::callback_scope!(unsafe scope, context);
    let state = State::of(scope);
    let referrer = Realm::of(scope)?.modules.borrow().name_of(referrer).unwrap_or_default().to_owned();
    let name = find(scope, &state, specifier, &referrer)?;
    load(scope, &state, &name)
}

/// The name of the module that `referrer` means by `specifier`; throws if there is none.
fn find(
    scope: &mut v8::PinScope<'_, '_>,
    state: &State,
    specifier: v8::Local<'_, v8::String>,
    referrer: &str,
) -> Option<String> {
    if specifier.length() > LONGEST {
        throw(scope, "Cannot find module: its specifier is too long");
        return None;
    }
    let specifier = specifier.to_rust_string_lossy(scope);
    let found = resolve(&specifier, referrer, |name| state.revision.modules.contains_key(name));
    if found.is_none() {
        throw(scope, &format!("Cannot find module \"{specifier}\" imported from \"{referrer}\""));
    }
    found
}

/// The compiled module; throws if it cannot be compiled.
fn load<'s>(scope: &mut v8::PinScope<'s, '_>, state: &State, name: &str) -> Option<v8::Local<'s, v8::Module>> {
    let realm = realm(scope)?;
    if let Some(module) = realm.modules.borrow().by_name.get(name) {
        return Some(v8::Local::new(scope, module));
    }
    let Some(source) = state.revision.modules.get(name) else {
        throw(scope, &format!("There is no module \"{name}\""));
        return None;
    };
    let length = source.len();
    let Some(source) = text(scope, source) else {
        throw(scope, &format!("The module \"{name}\" is too large"));
        return None;
    };
    let resource = v8::String::new(scope, name)?.into();
    let origin = v8::ScriptOrigin::new(scope, resource, 0, 0, false, -1, None, false, false, true, None);
    let bytecode = realm.modules.borrow().bytecode.clone();
    let (mut source, options) = match bytecode.as_ref().and_then(|bytecode| bytecode.get(name)) {
        Some(cached) => {
            let cached = CachedData::new(cached);
            (Source::new_with_cached_data(source, Some(&origin), cached), CompileOptions::ConsumeCodeCache)
        }
        // Of little code most is used, and what is not compiled ahead is parsed twice.
        None if length < SHORT => (Source::new(source, Some(&origin)), CompileOptions::EagerCompile),
        None => (Source::new(source, Some(&origin)), CompileOptions::NoCompileOptions),
    };
    let module = compile_module2(scope, &mut source, options, NoCacheReason::NoReason)?;
    let mut modules = realm.modules.borrow_mut();
    modules.bytecode_was_rejected |= source.get_cached_data().is_some_and(CachedData::rejected);
    modules.insert(module.get_identity_hash(), name, v8::Global::new(scope, module));
    Some(module)
}

/// A module's source for V8. What is ASCII, as nearly all code is, stays where it is, once for all isolates of the node.
#[allow(unsafe_code)] // Says of text that it is there for as long as V8 may look at it.
fn text<'s>(scope: &mut v8::PinScope<'s, '_>, source: &Bytes) -> Option<v8::Local<'s, v8::String>> {
    if !source.is_ascii() {
        return v8::String::new_from_utf8(scope, source, v8::NewStringType::Normal);
    }
    // SAFETY: the bytes never move or change, and their revision belongs to the isolate's state, which an `Isolate`
    // drops after V8's part of it.
    let source: &'static [u8] = unsafe { std::slice::from_raw_parts(source.as_ptr(), source.len()) };
    v8::String::new_external_onebyte_static(scope, source)
}

/// The bytecode of what has been compiled, as far as V8 can tell it.
pub(super) fn bytecode(scope: &mut v8::PinScope<'_, '_>, realm: &Realm) -> Bytecode {
    let modules: Vec<_> =
        realm.modules.borrow().by_name.iter().map(|(name, module)| (name.clone(), module.clone())).collect();
    let mut bytecode = Bytecode::default();
    for (name, module) in modules {
        let module = v8::Local::new(scope, module);
        if let Some(cache) = module.get_unbound_module_script(scope).create_code_cache() {
            bytecode.insert(name, cache.to_vec());
        }
    }
    bytecode
}

/// The realm whose code is running; throws if it has ended.
pub(super) fn realm(scope: &mut v8::PinScope<'_, '_>) -> Option<Rc<Realm>> {
    let realm = Realm::of(scope);
    if realm.is_none() {
        throw(scope, "The invocation has ended");
    }
    realm
}

fn throw(scope: &mut v8::PinScope<'_, '_>, message: &str) {
    if let Some(message) = v8::String::new(scope, message) {
        let exception = v8::Exception::type_error(scope, message);
        scope.throw_exception(exception);
    }
}

/// The module's name that `specifier` stands for in `referrer`, if `exists` knows it.
fn resolve(specifier: &str, referrer: &str, exists: impl Fn(&str) -> bool) -> Option<String> {
    let name = if let Some(absolute) = specifier.strip_prefix('/') {
        absolute.to_owned()
    } else if specifier.starts_with("./") || specifier.starts_with("../") {
        let mut path: Vec<_> = referrer.split('/').collect();
        path.pop();
        for step in specifier.split('/') {
            match step {
                "." => {}
                ".." => drop(path.pop()?),
                step => path.push(step),
            }
        }
        path.join("/")
    } else {
        specifier.to_owned()
    };
    exists(&name).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(specifier: &str, referrer: &str) -> Option<String> {
        let modules = ["main.js", "lib/a.js", "lib/b.js", "lib/deep/c.js"];
        resolve(specifier, referrer, |name| modules.contains(&name))
    }

    #[test]
    fn a_relative_specifier_starts_from_the_importing_module() {
        assert_eq!(resolved("./lib/a.js", "main.js").as_deref(), Some("lib/a.js"));
        assert_eq!(resolved("./b.js", "lib/a.js").as_deref(), Some("lib/b.js"));
        assert_eq!(resolved("../../main.js", "lib/deep/c.js").as_deref(), Some("main.js"));
        assert_eq!(resolved("./deep/../b.js", "lib/a.js").as_deref(), Some("lib/b.js"));
    }

    #[test]
    fn a_bare_specifier_is_a_modules_whole_name() {
        assert_eq!(resolved("lib/a.js", "lib/deep/c.js").as_deref(), Some("lib/a.js"));
        assert_eq!(resolved("a.js", "lib/b.js"), None);
        assert_eq!(resolved("/main.js", "lib/a.js").as_deref(), Some("main.js"));
    }

    #[test]
    fn no_specifier_leads_out_of_the_revision() {
        assert_eq!(resolved("../main.js", "main.js"), None);
        assert_eq!(resolved("../../../main.js", "lib/a.js"), None);
        assert_eq!(resolved("https://example.com/main.js", "main.js"), None);
    }
}
