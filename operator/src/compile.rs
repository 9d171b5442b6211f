//! From a Worker's modules as they were written to those that a node runs, or to what is wrong with them. Pure.
//!
//! ```text
//!  bounds ─► module by module: code ─ syntax, early errors ─► JavaScript of TypeScript, with a source map
//!                              data ─ whether it is what its name says
//!         ─► imports, between them ─► an entrypoint that handles ─► source maps, as far as there is room
//! ```
//!
//! What ECMAScript calls early errors is found here, with the place in the author's source; what only shows when code runs
//! is not. What a module is goes by its name ([`tenon_proto::module`]); the JavaScript that is made of TypeScript has the
//! name of the TypeScript, so that every import finds it, and a source map is the module `NAME.map`.
//!
//! Types are not checked: that is what an author's editor and `tsc --noEmit` are for. Each module is compiled by itself, as
//! TypeScript's `isolatedModules` has it.
//!
//! - [`code`]: one module of code; [`typescript`]: what becomes of TypeScript; [`data`]: one of anything else.
//! - [`links`]: what modules ask of each other; [`maps`]: the source maps that there are and that authors bring.
//! - [`error`], [`position`]: what is wrong, and where.
//!
//! Tenant code is hostile: see [`code::on_a_stack`].

mod code;
mod data;
mod error;
mod links;
mod maps;
mod position;
mod typescript;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use tenon_proto::module::{ModuleKind, resolve};
use tenon_proto::pattern::{MAX_PROPERTIES, properties};
use tenon_proto::revision::CompatibilityFlag;
use tenon_proto::revision::{MAX_MODULE_BYTES, MAX_MODULES, MAX_SOURCE_BYTES};

use code::Code;
pub use error::CompileError;
use links::Links;
use typescript::Jsx;

/// How deep brackets may nest. Nothing that people or bundlers write comes near. Where it cannot be known what a bracket
/// begins, an arrow function or the arguments of a type, the parser tries one and then the other, so that what it takes goes
/// by the square of this, and in some places of types by a power: who compiles what others write does so in a process that
/// can be ended ([`crate::compiler`]).
const MAX_NESTING: usize = 1_000;

/// How many errors are reported. Later ones are mostly the echo of the first.
const MAX_ERRORS: usize = 20;

/// What is made of a Worker's modules by name, or all that is wrong, in the order of the modules' names and of their lines:
/// never an empty list.
pub type Outcome = Result<BTreeMap<String, Bytes>, Vec<CompileError>>;

/// Compiles the modules of a Worker, by name, as they would be loaded from `entrypoint`.
///
/// # Arguments
/// * `flags` - what else there is to import goes by them.
///
/// # Errors
/// With all that is wrong.
pub fn compile(modules: &BTreeMap<String, Bytes>, entrypoint: &str, flags: &BTreeSet<CompatibilityFlag>) -> Outcome {
    compile_and_tell(modules, entrypoint, flags, |_| ())
}

/// The same, for who does not wait for the end whatever comes.
///
/// # Arguments
/// * `begins` - is told of each module that is taken up.
///
/// # Errors
/// With all that is wrong.
pub fn compile_and_tell(
    modules: &BTreeMap<String, Bytes>,
    entrypoint: &str,
    flags: &BTreeSet<CompatibilityFlag>,
    begins: impl Fn(&str),
) -> Outcome {
    let mut errors = check_bounds(modules);
    if errors.is_empty() {
        match compile_all(modules, entrypoint, flags, begins) {
            Ok(compiled) => return Ok(compiled),
            Err(found) => errors = found,
        }
    }
    errors.truncate(MAX_ERRORS);
    Err(errors)
}

fn check_bounds(modules: &BTreeMap<String, Bytes>) -> Vec<CompileError> {
    let of_all = |message| vec![CompileError::of_module(modules.keys().next().map_or("", String::as_str), message)];
    if modules.len() > MAX_MODULES {
        let found = modules.len();
        return of_all(format!("a Worker has at most {MAX_MODULES} modules, not {found}; bundle them"));
    }
    let bytes: usize = modules.iter().map(|(file, source)| file.len() + source.len()).sum();
    if bytes > MAX_SOURCE_BYTES {
        return of_all(format!("a Worker's modules have at most {MAX_SOURCE_BYTES} bytes together, not {bytes}"));
    }
    let broken = modules.iter().filter_map(|(file, source)| {
        let message = if source.len() > MAX_MODULE_BYTES {
            format!("a module has at most {MAX_MODULE_BYTES} bytes, not {}", source.len())
        } else if nesting(ModuleKind::of(file), source) > MAX_NESTING {
            format!("brackets nest more than {MAX_NESTING} deep")
        } else if ModuleKind::of(file).is_code() && properties(source) > MAX_PROPERTIES {
            format!("regular expressions name more than {MAX_PROPERTIES} properties of Unicode, of which one of strings counts for many")
        } else {
            return None;
        };
        Some(CompileError::of_module(file, message))
    });
    broken.collect()
}

/// How deep brackets nest in code, by a look that takes strings and comments for code. In TypeScript `<` may be one, until
/// the statement ends or the bracket around it.
fn nesting(kind: ModuleKind, source: &[u8]) -> usize {
    let has_angles = match kind {
        ModuleKind::JavaScript => false,
        ModuleKind::TypeScript => true,
        _ => return 0,
    };
    // How deep it was before each bracket that is open.
    let mut before: Vec<usize> = Vec::new();
    let (mut depth, mut deepest, mut last) = (0usize, 0usize, b' ');
    for byte in source.iter().copied() {
        let within = before.last().map_or(0, |before| before + 1);
        match byte {
            b'(' | b'[' | b'{' => {
                before.push(depth);
                depth += 1;
            }
            b')' | b']' | b'}' => depth = before.pop().unwrap_or_default(),
            b'<' if has_angles => depth += 1,
            b'>' if has_angles && last != b'=' => depth = depth.saturating_sub(1).max(within),
            b';' => depth = within,
            _ => {}
        }
        (deepest, last) = (deepest.max(depth), byte);
    }
    deepest
}

fn compile_all(
    modules: &BTreeMap<String, Bytes>,
    entrypoint: &str,
    flags: &BTreeSet<CompatibilityFlag>,
    begins: impl Fn(&str),
) -> Outcome {
    let jsx = Jsx::of(|name| resolve("", name, |name| modules.contains_key(name)).is_some());
    let (mut errors, mut links) = (Vec::new(), Links::default());
    let (mut compiled, mut maps) = (BTreeMap::new(), BTreeMap::new());
    for (file, content) in modules {
        begins(file);
        match ModuleKind::of(file) {
            ModuleKind::JavaScript | ModuleKind::TypeScript => match code::compile(file, content, jsx) {
                Ok(Code { source, links: found, made }) => {
                    links.add(file, source, found);
                    let (code, map) = match made {
                        Some((code, map)) => (code, map),
                        None => maps::of_author(modules, file, source, content),
                    };
                    compiled.insert(file.clone(), code);
                    maps.extend(map.map(|map| (file.clone(), map)));
                }
                Err(found) => errors.extend(found),
            },
            // Those that belong to a module are looked for beside it.
            ModuleKind::SourceMap => {}
            kind => match data::check(kind, file, content) {
                Ok(()) => drop(compiled.insert(file.clone(), content.clone())),
                Err(found) => errors.push(found),
            },
        }
    }
    // Between modules that do not parse every import would be an error of its own.
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
