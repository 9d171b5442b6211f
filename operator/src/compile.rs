//! Whether a Worker's modules will compile, before any node tries. Pure.
//!
//! ```text
//!  bounds ─► syntax and early errors, module by module ─► imports, between them ─► an entrypoint that handles
//! ```
//!
//! What ECMAScript calls early errors is found here, with the place in the source; what only shows when code
//! runs is not. Tenant code is hostile: see [`BYTES_PER_LEVEL`].

mod links;
mod position;

use std::collections::BTreeMap;
use std::fmt;
use std::thread;

use bytes::Bytes;
use oxc_allocator::Allocator;
use oxc_diagnostics::OxcDiagnostic;
use oxc_parser::{ParseOptions, Parser};
use oxc_semantic::SemanticBuilder;
use oxc_span::SourceType;
use tenon_proto::revision::{MAX_MODULE_BYTES, MAX_MODULES, MAX_SOURCE_BYTES};

use links::{Links, ModuleLinks};
use position::Position;

/// How deep brackets may nest. Nothing that people or bundlers write comes near; it keeps most of what is written
/// to exhaust memory from the parser.
const MAX_NESTING: usize = 10_000;

/// How many errors are reported. Later ones are mostly the echo of the first.
const MAX_ERRORS: usize = 20;

/// The parser recurses for every level of nesting, and a level takes at least one byte of source (`[[[[…`).
/// With so much stack for each byte no source can overflow it. It is address space: pages that an ordinary
/// module never reaches are never touched.
const BYTES_PER_LEVEL: usize = 4 * 1024;

/// What the parser needs for a source without any nesting.
const BASE_STACK: usize = 1024 * 1024;

/// One reason why the modules do not compile. Displayed as `worker.js:3:14: message`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileError {
    /// Name of the module.
    pub file: String,
    /// From 1.
    pub line: u32,
    /// In characters, from 1.
    pub column: u32,
    pub message: String,
    /// The line without its end; empty when the error is about the module as a whole.
    pub source_line: String,
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)
    }
}

impl std::error::Error for CompileError {}

impl CompileError {
    /// For people: the error, and below it the source line with a caret under the column.
    pub fn with_source(&self) -> impl fmt::Display + '_ {
        fmt::from_fn(|f| {
            fmt::Display::fmt(self, f)?;
            if self.source_line.is_empty() {
                return Ok(());
            }
            // Tabs stay tabs, so that the caret stands where the terminal puts the column.
            let before = self.source_line.chars().take(self.column as usize - 1);
            let indent: String = before.map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
            let gutter = self.line.to_string();
            write!(f, "\n  {gutter} | {}\n  {:width$} | {indent}^", self.source_line, "", width = gutter.len())
        })
    }

    /// About a place in a module.
    fn at(file: &str, source: &str, offset: usize, message: impl Into<String>) -> Self {
        let Position { line, column, text } = Position::of(source, offset);
        Self { file: file.to_owned(), line, column, message: message.into(), source_line: text.to_owned() }
    }

    /// About a module as a whole.
    fn of_module(file: &str, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line: 1, column: 1, message: message.into(), source_line: String::new() }
    }
}

/// Checks the modules of a Worker, by name, as they would be loaded from `entrypoint`.
///
/// # Errors
/// All that is wrong, in the order of the modules' names and of their lines; never an empty list.
pub fn check(modules: &BTreeMap<String, Bytes>, entrypoint: &str) -> Result<(), Vec<CompileError>> {
    let mut errors = check_bounds(modules);
    if errors.is_empty() {
        errors = check_sources(modules, entrypoint);
    }
    errors.truncate(MAX_ERRORS);
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// The module that `specifier` names when `importer` imports it, if it can name one: `./x.js` and `../x.js`
/// are relative to the importer, as in a URL; anything else is a module's name, after a `/` or by itself. Nodes
/// resolve the same way.
pub fn resolve(importer: &str, specifier: &str) -> Option<String> {
    if !specifier.starts_with("./") && !specifier.starts_with("../") {
        return Some(specifier.strip_prefix('/').unwrap_or(specifier).to_owned());
    }
    let mut path: Vec<&str> = importer.split('/').collect();
    path.pop();
    for segment in specifier.split('/') {
        match segment {
            "." => {}
            ".." => drop(path.pop()?),
            name => path.push(name),
        }
    }
    Some(path.join("/"))
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
        } else if is_javascript(file) && nesting(source) > MAX_NESTING {
            format!("brackets nest more than {MAX_NESTING} deep")
        } else {
            return None;
        };
        Some(CompileError::of_module(file, message))
    });
    broken.collect()
}

/// How deep brackets nest, by a look that takes strings and comments for code.
fn nesting(source: &[u8]) -> usize {
    let depths = source.iter().scan(0usize, |depth, byte| {
        match byte {
            b'(' | b'[' | b'{' => *depth += 1,
            b')' | b']' | b'}' => *depth = depth.saturating_sub(1),
            _ => {}
        }
        Some(*depth)
    });
    depths.max().unwrap_or_default()
}

fn check_sources(modules: &BTreeMap<String, Bytes>, entrypoint: &str) -> Vec<CompileError> {
    let (mut errors, mut links) = (Vec::new(), Links::default());
    for (file, source) in modules.iter().filter(|(file, _)| is_javascript(file)) {
        match std::str::from_utf8(source) {
            Err(error) => {
                let valid = std::str::from_utf8(&source[..error.valid_up_to()]).unwrap_or_default();
                errors.push(CompileError::at(file, valid, valid.len(), "the module is not valid UTF-8"));
            }
            Ok(source) => match check_source(file, source) {
                Ok(module) => links.add(file, source, module),
                Err(found) => errors.extend(found),
            },
        }
    }
    // Between modules that do not parse every import would be an error of its own.
    if errors.is_empty() {
        errors = links.check(modules, entrypoint);
    }
    errors
}

/// The modules that are compiled; others are data.
fn is_javascript(file: &str) -> bool {
    file.ends_with(".js") || file.ends_with(".mjs")
}

/// Parses one module on a stack that it cannot overflow.
fn check_source(file: &str, source: &str) -> Result<ModuleLinks, Vec<CompileError>> {
    let stack = BASE_STACK + source.len() * BYTES_PER_LEVEL;
    let result = thread::scope(|scope| {
        let parse = || parse(file, source);
        thread::Builder::new().name("compile".into()).stack_size(stack).spawn_scoped(scope, parse).map(|it| it.join())
    });
    match result {
        Ok(Ok(parsed)) => parsed,
        // The parser's own fault, or a lack of threads: either way nothing is known of this module.
        Ok(Err(_)) => Err(vec![CompileError::of_module(file, "the parser failed on this module")]),
        Err(error) => Err(vec![CompileError::of_module(file, format!("the module cannot be parsed now: {error}"))]),
    }
}

fn parse(file: &str, source: &str) -> Result<ModuleLinks, Vec<CompileError>> {
    let allocator = Allocator::default();
    let options = ParseOptions { parse_regular_expression: true, ..ParseOptions::default() };
    let parsed = Parser::new(&allocator, source, SourceType::mjs()).with_options(options).parse();
    let errors: Vec<_> = parsed.diagnostics.errors().map(|error| describe(file, source, error)).collect();
    if !errors.is_empty() {
        return Err(errors);
    }
    let links = ModuleLinks::of(&parsed.module_record);
    let program = allocator.alloc(parsed.program);
    let early = SemanticBuilder::new_compiler().build(program).diagnostics;
    let errors: Vec<_> = early.errors().map(|error| describe(file, source, error)).collect();
    if errors.is_empty() { Ok(links) } else { Err(errors) }
}

fn describe(file: &str, source: &str, error: &OxcDiagnostic) -> CompileError {
    let mut message = error.message.to_string();
    if let Some(help) = &error.help {
        message = format!("{message}. {help}");
    }
    match error.labels.first() {
        Some(label) => CompileError::at(file, source, label.offset() as usize, message),
        None => CompileError::of_module(file, message),
    }
}

#[cfg(test)]
mod tests;
