//! Evaluates `src/js` into the start-up snapshot that every isolate begins from.
//!
//! Each script is a function expression, called once with the shared object `internal`; the object travels in the
//! snapshot as the context's only data. Everything is compiled eagerly and the bytecode kept, so that a fresh
//! isolate compiles nothing of ours.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

#[path = "src/engine/flags.rs"]
mod flags;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=src/js");
    println!("cargo:rerun-if-changed=src/engine/flags.rs");
    let directory = Path::new("src/js");
    let sources = fs::read_to_string(directory.join("order.txt"))?
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|name| Ok((format!("tenon:{name}"), fs::read_to_string(directory.join(name))?)))
        .collect::<Result<Vec<_>, std::io::Error>>()?;

    v8::V8::set_flags_from_string(flags::FLAGS);
    v8::V8::initialize_platform(v8::new_default_platform(1, false).make_shared());
    v8::V8::initialize();
    let blob = snapshot(&sources)?;
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("snapshot.bin"), &*blob)?;
    Ok(())
}

fn snapshot(sources: &[(String, String)]) -> Result<v8::StartupData, Box<dyn Error>> {
    let mut isolate = v8::Isolate::snapshot_creator(None, None);
    let evaluated = {
        v8::scope!(let scope, &mut isolate);
        let context = v8::Context::new(scope, v8::ContextOptions::default());
        let scope = &mut v8::ContextScope::new(scope, context);
        let internal = v8::Object::new(scope);
        let evaluated = sources.iter().try_for_each(|(name, source)| evaluate(scope, internal, name, source));
        scope.add_context_data(context, internal);
        scope.set_default_context(context);
        evaluated
    };
    let blob = isolate.create_blob(v8::FunctionCodeHandling::Keep);
    evaluated?;
    Ok(blob.ok_or("V8 made no snapshot")?)
}

fn evaluate(
    scope: &mut v8::PinScope<'_, '_>,
    internal: v8::Local<'_, v8::Object>,
    name: &str,
    source: &str,
) -> Result<(), String> {
    v8::tc_scope!(let scope, scope);
    let run = |scope: &mut v8::PinScope<'_, '_>| {
        let resource: v8::Local<'_, v8::Value> = v8::String::new(scope, name)?.into();
        let source = v8::String::new(scope, source)?;
        let origin = v8::ScriptOrigin::new(scope, resource, 0, 0, false, 0, None, false, false, false, None);
        let mut source = v8::script_compiler::Source::new(source, Some(&origin));
        let script = v8::script_compiler::compile(
            scope,
            &mut source,
            v8::script_compiler::CompileOptions::EagerCompile,
            v8::script_compiler::NoCacheReason::NoReason,
        )?;
        let function: v8::Local<'_, v8::Function> = script.run(scope)?.try_into().ok()?;
        let undefined = v8::undefined(scope).into();
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
    Err(format!("src/js/{}:{line}: {text}", name.trim_start_matches("tenon:")))
}
