//! Compiles the modules that a Worker's author wrote into the modules that a node runs, or reports
//! their errors. The crate is pure, except for [`process`].
//!
//! ```text
//!  bounds ─► each module: code ─ syntax, early errors ─► JavaScript and source map of TypeScript
//!                         data ─ content matches its kind
//!         ─► imports between modules ─► handlers of the entrypoint ─► source maps that fit
//! ```
//!
//! The compiler finds ECMAScript's early errors, with their positions in the author's source. It
//! does not find errors that occur only when the code runs. A module's name determines its kind
//! ([`tenon_proto::module`]). The JavaScript compiled from a TypeScript module keeps the module's
//! name, so that every import finds it. The source map is the module `NAME.map`.
//!
//! The compiler does not check types, which the author's editor and `tsc --noEmit` do. Each module
//! is compiled by itself, as with TypeScript's `isolatedModules`.
//!
//! - [`code`]: one module of code.
//! - [`typescript`]: the compilation of TypeScript; [`comments`]: the comments of JavaScript.
//! - [`data`]: one module of any other kind.
//! - [`links`]: imports and exports between modules.
//! - [`maps`]: the source maps that are generated and those that authors provide.
//! - [`nesting`]: how deeply brackets are nested.
//! - [`error`], [`position`]: compile errors and their positions.
//! - [`process`]: compilation in separate processes, which can be killed.
//!
//! Tenant code may be hostile: see [`code::on_large_stack`].

mod code;
mod comments;
mod data;
mod error;
mod links;
mod maps;
mod nesting;
mod position;
pub mod process;
mod typescript;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use tenon_proto::module::{ModuleKind, resolve};
use tenon_proto::pattern::{MAX_PROPERTIES, properties};
use tenon_proto::revision::{CompatibilityFlag, MAX_MODULES, MAX_SOURCE_BYTES};

use code::Code;
pub use error::CompileError;
use links::Links;
pub use maps::without_maps_beyond;
use typescript::Jsx;

/// Maximum nesting of brackets, far above what people or bundlers write. If the parser cannot tell
/// whether a bracket begins an arrow function or type arguments, for example, it tries one after
/// the other. The time to parse then grows with the square of the nesting, and far faster within
/// some types, so untrusted code is compiled in a process that can be killed ([`process`]).
const MAX_NESTING: usize = 1_000;

/// Maximum number of reported errors. Later errors mostly follow from the first errors.
const MAX_ERRORS: usize = 20;

/// The compiled modules by name, or a non-empty list of the first errors.
pub type Outcome = Result<BTreeMap<String, Bytes>, Vec<CompileError>>;

/// Formats errors for a person, each with its source line.
pub fn report(errors: &[CompileError]) -> String {
    let lines: Vec<_> = errors.iter().map(|error| error.with_source().to_string()).collect();
    lines.join("\n")
}

/// Compiles the modules of a Worker.
///
/// # Arguments
/// * `modules` - the content of each module, by its name.
/// * `entrypoint` - the name of the module at which the Worker starts.
/// * `flags` - the flags, which determine the built-in modules that can be imported.
///
/// # Errors
/// Returns the first errors of the modules.
pub fn compile(
    modules: &BTreeMap<String, Bytes>,
    entrypoint: &str,
    flags: &BTreeSet<CompatibilityFlag>,
) -> Outcome {
    compile_with_progress(modules, entrypoint, flags, |_| ())
}

/// Compiles the modules like [`compile`], and reports the progress to a caller that may have to
/// interrupt the compilation.
///
/// # Arguments
/// * `on_module` - a function that is called with the name of each module before the module is
///   compiled.
///
/// # Errors
/// Returns the first errors of the modules.
pub fn compile_with_progress(
    modules: &BTreeMap<String, Bytes>,
    entrypoint: &str,
    flags: &BTreeSet<CompatibilityFlag>,
    on_module: impl Fn(&str),
) -> Outcome {
    let mut errors = check_bounds(modules);
    if errors.is_empty() {
        match compile_all(modules, entrypoint, flags, on_module) {
            Ok(compiled) => return Ok(compiled),
            Err(found) => errors = found,
        }
    }
    errors.truncate(MAX_ERRORS);
    Err(errors)
}

/// Returns the source map of a JavaScript module with all fields, as the map's author wrote it, or
/// `None` if there is no such module, it is not UTF-8, or it has no map.
pub fn source_map_as_written(modules: &BTreeMap<String, Bytes>, name: &str) -> Option<Bytes> {
    let content = modules.get(name)?;
    let source = std::str::from_utf8(content).ok()?;
    maps::as_written(modules, name, source, content).1
}

/// Returns the text of one of the author's files by the name that stack traces and logs show, or
/// `None` if neither the modules nor their source maps contain it.
///
/// # Arguments
/// * `modules` - the modules as their author wrote them.
pub fn text_of(modules: &BTreeMap<String, Bytes>, file: &str) -> Option<String> {
    maps::text_of(modules, file)
}

fn check_bounds(modules: &BTreeMap<String, Bytes>) -> Vec<CompileError> {
    let error_of_all = |message| {
        vec![CompileError::of_module(modules.keys().next().map_or("", String::as_str), message)]
    };
    if modules.len() > MAX_MODULES {
        let found = modules.len();
        return error_of_all(format!(
            "the Worker has {found} modules, more than {MAX_MODULES}; bundle them into fewer \
             modules"
        ));
    }
    let bytes: usize = modules.iter().map(|(file, source)| file.len() + source.len()).sum();
    if bytes > MAX_SOURCE_BYTES {
        return error_of_all(format!(
            "the modules have {bytes} bytes in total, more than {MAX_SOURCE_BYTES}; remove or \
             minify modules"
        ));
    }
    let broken = modules.iter().filter_map(|(file, source)| {
        let message = if nesting::exceeds(MAX_NESTING, ModuleKind::of(file), source) {
            format!("brackets are nested more than {MAX_NESTING} deep; nest them less deeply")
        } else if ModuleKind::of(file).is_code() && properties(source) > MAX_PROPERTIES {
            format!(
                "regular expressions use more than {MAX_PROPERTIES} Unicode properties (a property \
                 of strings counts many times); use fewer properties"
            )
        } else {
            return None;
        };
        Some(CompileError::of_module(file, message))
    });
    broken.collect()
}

fn compile_all(
    modules: &BTreeMap<String, Bytes>,
    entrypoint: &str,
    flags: &BTreeSet<CompatibilityFlag>,
    on_module: impl Fn(&str),
) -> Outcome {
    let jsx = Jsx::of(|name| resolve("", name, |name| modules.contains_key(name)).is_some());
    let (mut errors, mut links) = (Vec::new(), Links::default());
    let (mut compiled, mut maps) = (BTreeMap::new(), BTreeMap::new());
    for (file, content) in modules {
        on_module(file);
        match ModuleKind::of(file) {
            ModuleKind::JavaScript | ModuleKind::TypeScript => {
                match code::compile(file, content, jsx) {
                    Ok(Code { source, links: found, generated, comments }) => {
                        links.add(file, source, found);
                        let (code, map) = generated.unwrap_or_else(|| {
                            let (code, map) = maps::from_author(modules, file, source, content);
                            (comments::in_ascii(code, &comments), map)
                        });
                        compiled.insert(file.clone(), code);
                        maps.extend(map.map(|map| (file.clone(), map)));
                    }
                    Err(found) => errors.extend(found),
                }
            }
            // A source map that belongs to a module is read together with it.
            ModuleKind::SourceMap => {}
            kind => match data::check(kind, file, content) {
                Ok(()) => drop(compiled.insert(file.clone(), content.clone())),
                Err(found) => errors.push(found),
            },
        }
    }
    // The exports of a module with errors are unknown, so every import of the module would be
    // reported as another error.
    if errors.is_empty() {
        errors = links.check(modules, entrypoint, flags);
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    maps::add(&mut compiled, maps);
    Ok(compiled)
}

#[cfg(test)]
mod tests;
