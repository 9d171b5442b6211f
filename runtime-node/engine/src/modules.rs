//! A revision's modules: found by name, made on first use, evaluated from the entrypoint.
//!
//! ```text
//!  import x from "./a.json" with { type: "json" }
//!     └─► find ─► Key: "a.json" as JSON ─► load ─┬─ code: compiled, from bytecode if available
//!                                                ├─ a value: a synthetic module (values)
//!                                                └─ of Node.js: a synthetic module (builtin)
//! ```
//!
//! [`tenon_proto::module`] decides what a specifier means and what importing a module gives.
//! `import()` takes the same path. Nothing outside the revision can be imported.

pub mod builtin;
pub mod values;

use std::num::NonZeroI32;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use rustc_hash::FxHashMap;
use tenon_proto::module::{Form, ImportRefused, ModuleKind, ORIGIN, resolve, type_attribute};
use v8::script_compiler::{CachedData, CompileOptions, NoCacheReason, Source, compile_module2};

use super::bytecode::{Bytecode, BytecodeLookup};
use super::fence;
use super::realm::Realm;
use super::state::State;
use super::string::beginning;

/// The longest specifier, in UTF-16 units. A longer one names no module and is not looked at, and
/// no attribute is that long.
const LONGEST: usize = 4096;

/// The size in bytes below which every function of a module is compiled at once.
const SHORT: usize = 4 << 10;

/// A module in one of the forms in which it can be imported: each is a module of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    name: String,
    form: Form,
}

/// The modules that have been made in a realm.
#[derive(Default)]
pub struct Modules {
    /// Bytecode from which modules are made without compiling.
    bytecode: Option<Arc<Bytecode>>,
    /// Set when V8 rejected some of the bytecode.
    bytecode_was_rejected: bool,
    made: FxHashMap<Key, v8::Global<v8::Module>>,
    /// Modules by V8's hash, which is not unique.
    keys: FxHashMap<NonZeroI32, Vec<(v8::Global<v8::Module>, Key)>>,
}

impl Modules {
    pub fn new(bytecode: Option<Arc<Bytecode>>) -> Self {
        Self { bytecode, ..Self::default() }
    }

    /// Returns an empty set with the same bytecode.
    pub fn anew(&self) -> Self {
        Self::new(self.bytecode.clone())
    }

    pub fn bytecode_lookup(&self) -> BytecodeLookup {
        match self.bytecode {
            None => BytecodeLookup::Miss,
            Some(_) if self.bytecode_was_rejected => BytecodeLookup::Rejected,
            Some(_) => BytecodeLookup::Hit,
        }
    }

    fn insert(&mut self, hash: NonZeroI32, key: &Key, module: v8::Global<v8::Module>) {
        self.keys.entry(hash).or_default().push((module.clone(), key.clone()));
        self.made.insert(key.clone(), module);
    }

    fn key_of(&self, module: v8::Local<'_, v8::Module>) -> Option<&Key> {
        let same_hash = self.keys.get(&module.get_identity_hash())?;
        same_hash.iter().find(|(known, _)| *known == module).map(|(_, key)| key)
    }
}

/// Compiles, links and evaluates the entrypoint. Returns the promise of its evaluation and its
/// namespace.
pub fn evaluate<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    state: &State,
) -> Option<(v8::Local<'s, v8::Value>, v8::Local<'s, v8::Value>)> {
    run(scope, state, &Key { name: state.revision.entrypoint.clone(), form: Form::Code })
}

fn run<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    state: &State,
    key: &Key,
) -> Option<(v8::Local<'s, v8::Value>, v8::Local<'s, v8::Value>)> {
    let module = load(scope, state, key)?;
    module.instantiate_module(scope, fence::on_resolve)?;
    let evaluation = module.evaluate(scope)?;
    Some((evaluation, module.get_module_namespace()))
}

/// Sets `import.meta` of a module: its URL, and whether it is the entrypoint.
pub fn fill_meta(scope: &mut v8::PinScope<'_, '_>, module: v8::Local<'_, v8::Module>, meta: v8::Local<'_, v8::Object>) {
    let Some(realm) = Realm::of(scope) else { return };
    let Some(name) = realm.modules.borrow().key_of(module).map(|key| key.name.clone()) else { return };
    let is_main = v8::Boolean::new(scope, State::of(scope).revision.entrypoint == name);
    let url = v8::String::new(scope, &format!("{ORIGIN}{name}"));
    let keys = v8::String::new(scope, "url").zip(v8::String::new(scope, "main"));
    if let Some((url, (url_key, main_key))) = url.zip(keys) {
        meta.create_data_property(scope, url_key.into(), url.into());
        meta.create_data_property(scope, main_key.into(), is_main.into());
    }
}

/// Implements `import()`.
///
/// It only requests the module. Evaluating it here would nest in the evaluation of another module,
/// which ends the process if both are the same.
pub fn import_dynamically<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    referrer: v8::Local<'s, v8::Value>,
    specifier: v8::Local<'s, v8::String>,
    attributes: v8::Local<'s, v8::FixedArray>,
) -> Option<v8::Local<'s, v8::Promise>> {
    // V8 ends the process if there is neither a promise nor an exception. An async function returns
    // its own promise; if it could not be called, that threw.
    let realm = realm(scope)?;
    let import = v8::Local::new(scope, &realm.hooks.import);
    let undefined = v8::undefined(scope).into();
    // Keys and values alternate.
    let attributes: Vec<v8::Local<'_, v8::Value>> =
        (0..attributes.length()).filter_map(|i| attributes.get(scope, i)?.try_into().ok()).collect();
    let attributes = match &attributes[..] {
        [] => undefined,
        attributes => v8::Array::new_with_elements(scope, attributes).into(),
    };
    import.call(scope, undefined, &[specifier.into(), referrer, attributes])?.try_into().ok()
}

/// Makes, links and evaluates the module that `referrer` means by `specifier`. Returns the promise
/// of its evaluation and its namespace. Throws if there is no such module, or it cannot be compiled
/// or linked. Must not be called while another module is being evaluated.
///
/// # Arguments
/// * `attributes` - an array of ours with alternating keys and values; `undefined` for none.
pub fn import<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    specifier: v8::Local<'s, v8::String>,
    referrer: &str,
    attributes: v8::Local<'s, v8::Value>,
) -> Option<(v8::Local<'s, v8::Value>, v8::Local<'s, v8::Value>)> {
    let state = State::of(scope);
    let mut texts = Vec::new();
    if let Ok(attributes) = attributes.try_cast::<v8::Array>() {
        for i in 0..attributes.length() {
            texts.push(attributes.get_index(scope, i)?.try_into().ok()?);
        }
    }
    let attributes = pairs(scope, &texts);
    let key = find(scope, &state, specifier, referrer, attributes)?;
    run(scope, &state, &key)
}

/// Returns the module that an `import` statement of another module names.
pub fn resolve_import<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    specifier: v8::Local<'s, v8::String>,
    attributes: v8::Local<'s, v8::FixedArray>,
    referrer: v8::Local<'s, v8::Module>,
) -> Option<v8::Local<'s, v8::Module>> {
    let state = State::of(scope);
    let referrer = Realm::of(scope)?.modules.borrow().key_of(referrer).map(|key| key.name.clone()).unwrap_or_default();
    // Each attribute has a key, a value, and its position in the source.
    let texts: Vec<v8::Local<'_, v8::String>> = (0..attributes.length())
        .filter(|i| i % 3 != 2)
        .filter_map(|i| v8::Local::<v8::Value>::try_from(attributes.get(scope, i)?).ok()?.try_into().ok())
        .collect();
    let attributes = pairs(scope, &texts);
    let key = find(scope, &state, specifier, &referrer, attributes)?;
    load(scope, &state, &key)
}

/// Groups texts into pairs.
fn pairs(scope: &v8::PinScope<'_, '_>, texts: &[v8::Local<'_, v8::String>]) -> Vec<(String, String)> {
    let text = |text: &v8::Local<'_, v8::String>| beginning(scope, *text, LONGEST);
    texts.chunks_exact(2).map(|pair| (text(&pair[0]), text(&pair[1]))).collect()
}

/// Returns the key of the module that `referrer` means by `specifier`; throws if there is none.
fn find(
    scope: &mut v8::PinScope<'_, '_>,
    state: &State,
    specifier: v8::Local<'_, v8::String>,
    referrer: &str,
    attributes: Vec<(String, String)>,
) -> Option<Key> {
    if specifier.length() > LONGEST {
        throw(scope, "Cannot find module: its specifier is too long");
        return None;
    }
    let specifier = specifier.to_rust_string_lossy(scope);
    let Some(name) = resolve(referrer, &specifier, |name| state.revision.modules.contains_key(name)) else {
        let found = builtin::find(state, &specifier);
        if let Ok(Some(key)) = found {
            return Some(key);
        }
        let why = found.err().map(|not| format!(": {not}")).unwrap_or_default();
        throw(scope, &format!("Cannot find module \"{specifier}\" imported from \"{referrer}\"{why}"));
        return None;
    };
    let form = type_attribute(attributes).and_then(|type_| ModuleKind::of(&name).form(type_.as_deref()));
    match form {
        Ok(form) => Some(Key { name, form }),
        Err(refused) => {
            refuse(scope, &name, referrer, &refused);
            None
        }
    }
}

fn refuse(scope: &mut v8::PinScope<'_, '_>, name: &str, referrer: &str, refused: &ImportRefused) {
    throw(scope, &format!("Cannot import module \"{name}\" from \"{referrer}\": {refused}"));
}

/// Returns the module; throws if it cannot be compiled.
fn load<'s>(scope: &mut v8::PinScope<'s, '_>, state: &State, key: &Key) -> Option<v8::Local<'s, v8::Module>> {
    let realm = realm(scope)?;
    if let Some(module) = realm.modules.borrow().made.get(key) {
        return Some(v8::Local::new(scope, module));
    }
    let module = match (key.form, state.revision.modules.get(&key.name)) {
        (Form::Builtin, _) => builtin::module(scope, &realm, &key.name)?,
        (_, None) => {
            throw(scope, &format!("There is no module \"{}\"", key.name));
            return None;
        }
        (Form::Code, Some(content)) => compile(scope, &realm, &key.name, content)?,
        (Form::Json | Form::Text | Form::Buffer | Form::Bytes | Form::WebAssembly, Some(_)) => {
            values::module(scope, &key.name)?
        }
    };
    realm.modules.borrow_mut().insert(module.get_identity_hash(), key, v8::Global::new(scope, module));
    Some(module)
}

fn compile<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    realm: &Realm,
    name: &str,
    code: &Bytes,
) -> Option<v8::Local<'s, v8::Module>> {
    let Some(source) = text(scope, code) else {
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
        // Most of a small module is used, and functions that are not compiled ahead are parsed
        // twice.
        None if code.len() < SHORT => (Source::new(source, Some(&origin)), CompileOptions::EagerCompile),
        None => (Source::new(source, Some(&origin)), CompileOptions::NoCompileOptions),
    };
    let module = compile_module2(scope, &mut source, options, NoCacheReason::NoReason)?;
    realm.modules.borrow_mut().bytecode_was_rejected |= source.get_cached_data().is_some_and(CachedData::rejected);
    Some(module)
}

/// Returns a module's text for V8. ASCII text, which nearly all code is, is not copied: all
/// isolates of the node share it. Returns `None` if the text is too long for V8.
#[allow(unsafe_code)] // Asserts that the text lives for as long as V8 may read it.
fn text<'s>(scope: &mut v8::PinScope<'s, '_>, text: &[u8]) -> Option<v8::Local<'s, v8::String>> {
    if !text.is_ascii() {
        return v8::String::new_from_utf8(scope, text, v8::NewStringType::Normal);
    }
    // SAFETY: the bytes are of a module of the isolate's revision; they never move or change, and
    // the revision belongs to the isolate's state, which an `Isolate` drops after V8's part of it.
    let text: &'static [u8] = unsafe { std::slice::from_raw_parts(text.as_ptr(), text.len()) };
    v8::String::new_external_onebyte_static(scope, text)
}

/// Returns the bytecode of everything that has been compiled, as far as V8 provides it.
pub fn bytecode(scope: &mut v8::PinScope<'_, '_>, realm: &Realm) -> Bytecode {
    let modules = realm.modules.borrow();
    let code = modules.made.iter().filter(|(key, _)| key.form == Form::Code);
    let mut bytecode = Bytecode::default();
    for (key, module) in code {
        let module = v8::Local::new(scope, module);
        if let Some(cache) = module.get_unbound_module_script(scope).create_code_cache() {
            bytecode.insert(key.name.clone(), cache.to_vec());
        }
    }
    bytecode
}

/// Returns the realm whose code is running; throws if it has ended.
pub fn realm(scope: &mut v8::PinScope<'_, '_>) -> Option<Rc<Realm>> {
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
