//! Makes the start-up snapshot from which every isolate begins. Build scripts compile this file
//! separately (`#[path]`), because a snapshot is made before the library that loads it.
//!
//! Each file of the built-in JavaScript is a function expression, which is called once with the
//! shared object `internal`. The snapshot contains that object as the context's only data. The
//! source text stays outside the snapshot, so that all isolates share it: the snapshot refers to
//! source text, and to native functions, by index.

#![allow(unsafe_code)] // Uses addresses as placeholders for functions.
#![cfg_attr(
    test,
    expect(
        dead_code,
        reason = "the engine's tests make a snapshot of one file, and call only a part of this code"
    )
)]

use std::collections::BTreeSet;
use std::error::Error;
use std::ffi::c_void;
use std::ptr;

use v8::script_compiler::{CompileOptions, NoCacheReason};

/// One file of JavaScript.
pub struct Source {
    pub name: String,
    pub when: When,
    pub text: &'static v8::OneByteConst,
}

/// The time at which a file runs and its functions are compiled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// All functions are compiled while the snapshot is made.
    Eager,
    /// The file runs while the snapshot is made; each function is compiled on its first call.
    Called,
    /// The file runs on the first use of a name that it declares.
    Late,
    /// The file runs when a Worker, or another module file, imports it.
    Module,
}

impl When {
    /// Returns whether the snapshot contains no code of the file.
    pub fn is_later(self) -> bool {
        matches!(self, Self::Late | Self::Module)
    }
}

impl Source {
    /// Creates a source. Escapes non-ASCII characters, which does not change the meaning of
    /// literals and is irrelevant in comments. The text is never freed.
    pub fn new(name: &str, when: When, text: &str) -> Self {
        let mut ascii = String::with_capacity(text.len());
        for unit in text.encode_utf16() {
            match u8::try_from(unit) {
                Ok(byte) if byte.is_ascii() => ascii.push(byte.into()),
                _ => ascii.push_str(&format!("\\u{unit:04x}")),
            }
        }
        let text = v8::String::create_external_onebyte_const(ascii.leak().as_bytes());
        Self { name: name.to_owned(), when, text: Box::leak(Box::new(text)) }
    }

    /// Returns the primordials that the file takes in `const { …, … } = internal.primordials;`, or
    /// none if the file runs while the snapshot is made.
    fn wanted(&self) -> impl Iterator<Item = &str> {
        let taken =
            self.text.as_str().split_once("internal.primordials;").filter(|_| self.when.is_later());
        let names = taken.and_then(|(before, _)| {
            before.trim_end().strip_suffix('=')?.trim_end().strip_suffix('}')
        });
        let names =
            names.and_then(|before| before.rsplit_once("const {")).map_or("", |(_, names)| names);
        names.split(',').map(str::trim).filter(|name| !name.is_empty())
    }
}

/// Evaluates the files into a snapshot. V8 must have been initialized with the flags of the
/// isolates that will start from the snapshot.
///
/// # Arguments
/// * `sources` - the files, in the order in which they are evaluated.
/// * `names` - the names of the native functions, in the order of `Builtins::functions`.
///
/// # Errors
/// Fails if a file throws or takes a primordial that does not exist, or if V8 makes no snapshot.
pub fn snapshot(sources: &[Source], names: &[&str]) -> Result<v8::StartupData, Box<dyn Error>> {
    let declared = &Declared::collect(sources, names)?;
    let texts = sources.iter().map(|source| v8::ExternalReference {
        pointer: ptr::from_ref(source.text).cast_mut().cast(),
    });
    let functions =
        (0..names.len()).map(|index| v8::ExternalReference { function: stand_in(index) });
    let getter: v8::AccessorNameGetterCallback = v8::MapFnTo::map_fn_to(lazy);
    let getter = v8::ExternalReference { pointer: getter as *mut c_void };
    let references = texts.chain(functions).chain([getter]).collect();
    let mut isolate = v8::Isolate::snapshot_creator(Some(references), None);
    let evaluated = {
        v8::scope!(let scope, &mut isolate);
        let context = v8::Context::new(scope, v8::ContextOptions::default());
        let scope = &mut v8::ContextScope::new(scope, context);
        let internal = declared.internal(scope, context, names);
        let now = sources.iter().filter(|source| !source.when.is_later());
        let evaluated = now.into_iter().try_for_each(|source| evaluate(scope, internal, source));
        let evaluated = evaluated.and_then(|()| keep_primordials(scope, internal, sources));
        define_lazies(scope, declared).expect("cannot define the lazy properties");
        forget(scope, internal);
        scope.add_context_data(context, internal);
        scope.add_context(context);
        // V8 also requires a default context. The engine does not create contexts from the default
        // one, because V8 does not report whether that failed.
        let default = v8::Context::new(scope, v8::ContextOptions::default());
        scope.set_default_context(default);
        evaluated
    };
    let blob = isolate.create_blob(v8::FunctionCodeHandling::Keep);
    evaluated?;
    Ok(blob.ok_or("V8 did not make a snapshot")?)
}

/// Maximum number of native functions.
const MAX_OPS: usize = 512;

/// Returns a placeholder for a native function while the snapshot is made. The placeholder is never
/// called.
///
/// # Arguments
/// * `index` - the function's index among the native functions.
fn stand_in(index: usize) -> v8::FunctionCallback {
    static ADDRESSES: [u8; MAX_OPS] = [0; MAX_OPS];
    // SAFETY: nothing calls the result; V8 only looks up the address among the external references.
    unsafe { std::mem::transmute::<*const u8, v8::FunctionCallback>(&raw const ADDRESSES[index]) }
}

/// The declarations of the files, as pairs of names in the form of the tables in `later.js`.
#[derive(Default)]
struct Declared {
    files: Vec<(String, String)>,
    lazies: Vec<(String, String)>,
}

impl Declared {
    /// Collects the declarations in an isolate that is then discarded, because a snapshot keeps
    /// every string of every file that was parsed in it.
    fn collect(sources: &[Source], names: &[&str]) -> Result<Self, Box<dyn Error>> {
        let mut isolate = v8::Isolate::new(v8::CreateParams::default());
        v8::scope!(let scope, &mut isolate);
        let context = v8::Context::new(scope, v8::ContextOptions::default());
        let scope = &mut v8::ContextScope::new(scope, context);
        let internal = Self::default().internal(scope, context, names);
        let now = sources.iter().filter(|source| source.when != When::Module);
        now.into_iter().try_for_each(|source| evaluate(scope, internal, source))?;
        let read = |scope: &mut _, name| {
            pairs(scope, internal, name).ok_or_else(|| format!("internal.{name} is not a table"))
        };
        Ok(Self { files: read(scope, "files")?, lazies: read(scope, "lazies")? })
    }

    /// Returns the object `internal` with the properties that it has before the first file runs.
    fn internal<'s>(
        &self,
        scope: &mut v8::PinScope<'s, '_>,
        context: v8::Local<'s, v8::Context>,
        names: &[&str],
    ) -> v8::Local<'s, v8::Object> {
        let internal = v8::Object::new(scope);
        let set = |scope: &mut v8::PinScope<'s, '_>, name, value: v8::Local<'s, v8::Object>| {
            let key = v8::String::new(scope, name).expect("cannot make a string");
            internal.set(scope, key.into(), value.into());
        };
        let value = ops(scope, names);
        set(scope, "ops", value);
        // `extras` has V8's own functions for the data that V8 carries with promise reactions
        // (`engine::continuation`).
        let value = context.get_extras_binding_object(scope);
        set(scope, "extras", value);
        let value = table(scope, &self.files);
        set(scope, "files", value);
        let value = table(scope, &self.lazies);
        set(scope, "lazies", value);
        internal
    }
}

/// Returns the properties of the object `internal.<name>`, with their names and values as strings.
fn pairs(
    scope: &mut v8::PinScope<'_, '_>,
    internal: v8::Local<'_, v8::Object>,
    name: &str,
) -> Option<Vec<(String, String)>> {
    let key = v8::String::new(scope, name)?;
    let table: v8::Local<'_, v8::Object> = internal.get(scope, key.into())?.try_into().ok()?;
    let names = table.get_own_property_names(scope, v8::GetPropertyNamesArgs::default())?;
    let pair = |i| {
        let name = names.get_index(scope, i)?;
        let value = table.get(scope, name)?;
        Some((name.to_rust_string_lossy(scope), value.to_rust_string_lossy(scope)))
    };
    (0..names.length()).map(pair).collect()
}

fn table<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    pairs: &[(String, String)],
) -> v8::Local<'s, v8::Object> {
    let string = |text: &str| v8::String::new(scope, text).expect("cannot make a string");
    let names = pairs.iter().map(|(name, _)| string(name).into()).collect::<Vec<_>>();
    let values = pairs.iter().map(|(_, value)| string(value).into()).collect::<Vec<_>>();
    let nothing = v8::null(scope).into();
    v8::Object::with_prototype_and_properties(scope, nothing, &names, &values)
}

/// Returns the object that holds the native functions.
fn ops<'s>(scope: &mut v8::PinScope<'s, '_>, names: &[&str]) -> v8::Local<'s, v8::Object> {
    let ops = v8::Object::new(scope);
    for (index, name) in names.iter().enumerate() {
        let key = v8::String::new(scope, name).expect("cannot make a string");
        let builder = v8::Function::builder_raw(stand_in(index))
            .constructor_behavior(v8::ConstructorBehavior::Throw);
        let function = builder.build(scope).expect("cannot make a function");
        ops.set(scope, key.into(), function.into());
    }
    let nothing = v8::null(scope).into();
    ops.set_prototype(scope, nothing);
    ops
}

/// Removes all of the hundreds of primordials except those that files take when they run later. The
/// files that have been evaluated keep the primordials that they have taken.
fn keep_primordials(
    scope: &mut v8::PinScope<'_, '_>,
    internal: v8::Local<'_, v8::Object>,
    sources: &[Source],
) -> Result<(), String> {
    let key = v8::String::new(scope, "primordials").expect("cannot make a string").into();
    let all: v8::Local<'_, v8::Object> = internal
        .get(scope, key)
        .and_then(|all| all.try_into().ok())
        .ok_or("there are no primordials")?;
    let names = sources.iter().flat_map(Source::wanted).collect::<BTreeSet<_>>();
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    for name in names {
        let key: v8::Local<'_, v8::Name> =
            v8::String::new(scope, name).expect("cannot make a string").into();
        let value = all.get(scope, key.into()).filter(|value| !value.is_undefined());
        keys.push(key);
        values.push(value.ok_or_else(|| format!("there is no primordial {name}"))?);
    }
    let nothing = v8::null(scope).into();
    let kept = v8::Object::with_prototype_and_properties(scope, nothing, &keys, &values);
    internal.set(scope, key, kept.into());
    Ok(())
}

/// A placeholder for the getter of lazy properties while the snapshot is made. The placeholder is
/// never called.
fn lazy(
    _: &mut v8::PinScope<'_, '_>,
    _: v8::Local<'_, v8::Name>,
    _: v8::PropertyCallbackArguments<'_>,
    _: v8::ReturnValue<'_, v8::Value>,
) {
    unreachable!("a file read a lazy property while the snapshot was made");
}

/// Defines the names that were declared to `internal.later` as lazy properties of the global
/// object; the first read of a property makes its value. The properties have no data, because V8
/// would keep the objects to which the data refers both for the isolate and for the context.
fn define_lazies(scope: &mut v8::PinScope<'_, '_>, declared: &Declared) -> Option<()> {
    let global = scope.get_current_context().global(scope);
    for (name, _) in &declared.lazies {
        let nothing = v8::undefined(scope).into();
        let [getter, setter] =
            [v8::SideEffectType::HasSideEffect, v8::SideEffectType::HasSideEffect];
        // As in `bootstrap.js`, the property of an interface is not enumerable. The name of an
        // interface begins with a capital.
        let is_member = name.starts_with(|first: char| first.is_ascii_lowercase());
        let name = v8::String::new(scope, name)?.into();
        let attributes =
            if is_member { v8::PropertyAttribute::NONE } else { v8::PropertyAttribute::DONT_ENUM };
        global.set_lazy_data_property_with_data(
            scope, name, lazy, nothing, attributes, getter, setter,
        )?;
    }
    Some(())
}

/// Removes from `internal` the properties that are needed only while the files are evaluated.
fn forget(scope: &mut v8::PinScope<'_, '_>, internal: v8::Local<'_, v8::Object>) {
    for name in ["files", "globals", "late", "lazies"] {
        let key = v8::String::new(scope, name).expect("cannot make a string");
        let undefined = v8::undefined(scope).into();
        internal.set(scope, key.into(), undefined);
    }
}

fn evaluate(
    scope: &mut v8::PinScope<'_, '_>,
    internal: v8::Local<'_, v8::Object>,
    source: &Source,
) -> Result<(), String> {
    let name = &source.name;
    v8::tc_scope!(let scope, scope);
    let run = |scope: &mut v8::PinScope<'_, '_>| {
        let resource: v8::Local<'_, v8::Value> =
            v8::String::new(scope, &format!("tenon:{name}"))?.into();
        let text = v8::String::new_from_onebyte_const(scope, source.text)?;
        let origin =
            v8::ScriptOrigin::new(scope, resource, 0, 0, false, 0, None, false, false, false, None);
        let options = if source.when == When::Eager {
            CompileOptions::EagerCompile
        } else {
            CompileOptions::NoCompileOptions
        };
        let mut text = v8::script_compiler::Source::new(text, Some(&origin));
        let script =
            v8::script_compiler::compile(scope, &mut text, options, NoCacheReason::NoReason)?;
        let function: v8::Local<'_, v8::Function> = script.run(scope)?.try_into().ok()?;
        let undefined = v8::undefined(scope).into();
        let key = v8::String::new(scope, "late")?.into();
        let late = if source.when == When::Late {
            v8::String::new(scope, name)?.into()
        } else {
            undefined
        };
        internal.set(scope, key, late);
        function.call(scope, undefined, &[internal.into()]).map(drop)
    };
    if run(scope).is_some() {
        return Ok(());
    }
    let Some(message) = scope.message() else {
        return Err(format!("{name} is not a function expression"));
    };
    let line = message.get_line_number(scope).unwrap_or_default();
    let text = message.get(scope).to_rust_string_lossy(scope);
    Err(format!("{name}:{line}: {text}"))
}
