//! Compiles one module of code into its imports, its exports and the generated JavaScript, or into
//! its errors.

use std::ops::Range;
use std::thread;

use bytes::Bytes;
use oxc_allocator::Allocator;
use oxc_ast::ast::{Decorator, Program};
use oxc_ast_visit::Visit;
use oxc_diagnostics::OxcDiagnostic;
use oxc_parser::{ParseOptions, Parser};
use oxc_semantic::SemanticBuilder;
use tenon_proto::module::ModuleKind;

use super::CompileError;
use super::comments;
use super::links::ModuleLinks;
use super::typescript::{self, Jsx};

/// Stack per byte of source, in bytes. The parser and the passes after it recurse for every level
/// of nesting, and a level takes at least one byte of source (`[[[[…`). A source whose stack is not
/// cut to [`MAX_STACK`] therefore cannot overflow the stack. A stack is only address space: pages
/// that a module does not reach are never touched.
const BYTES_PER_LEVEL: usize = 4 * 1024;

/// Maximum size of the stack, in bytes, which is enough for half a million levels. Linux refuses to
/// reserve more memory than a machine has. A larger module that nests deeper ends the process that
/// compiles it ([`crate::process`]).
const MAX_STACK: usize = 2 << 30;

/// Stack for a source without any nesting, in bytes.
const BASE_STACK: usize = 1024 * 1024;

/// A compiled module.
pub(super) struct Code<'a> {
    pub(super) source: &'a str,
    pub(super) links: ModuleLinks,
    /// The generated JavaScript and its source map, if the module was not JavaScript.
    pub(super) generated: Option<(Bytes, Option<Bytes>)>,
    /// The positions, in bytes, of comments that are not in ASCII ([`comments`]).
    pub(super) comments: Vec<Range<usize>>,
}

/// Compiles a module.
///
/// # Errors
/// Returns the errors of the module itself, without the errors of its imports.
pub(super) fn compile<'a>(
    file: &str,
    content: &'a [u8],
    jsx: Jsx,
) -> Result<Code<'a>, Vec<CompileError>> {
    let source = std::str::from_utf8(content).map_err(|error| {
        let valid = std::str::from_utf8(&content[..error.valid_up_to()]).unwrap_or_default();
        vec![CompileError::at(
            file,
            valid,
            valid.len(),
            "the module is not valid UTF-8; save it as UTF-8",
        )]
    })?;
    on_large_stack(file, source, || compile_here(file, source, jsx))
}

/// Runs `compile` on a stack of a size that fits the module, up to [`MAX_STACK`].
fn on_large_stack<T: Send>(
    file: &str,
    source: &str,
    compile: impl FnOnce() -> Result<T, Vec<CompileError>> + Send,
) -> Result<T, Vec<CompileError>> {
    let stack = (BASE_STACK + source.len() * BYTES_PER_LEVEL).min(MAX_STACK);
    let result = thread::scope(|scope| {
        thread::Builder::new()
            .name("compile".into())
            .stack_size(stack)
            .spawn_scoped(scope, compile)
            .map(|thread| thread.join())
    });
    match result {
        Ok(Ok(compiled)) => compiled,
        // A panic is a bug in the compiler, and a lack of threads is temporary. Neither means that
        // the module is invalid.
        Ok(Err(_)) => {
            Err(vec![CompileError::of_module(file, "the compiler failed on this module")])
        }
        Err(error) => Err(vec![CompileError::of_module(
            file,
            format!("cannot start a thread to compile the module: {error}"),
        )]),
    }
}

fn compile_here<'a>(file: &str, source: &'a str, jsx: Jsx) -> Result<Code<'a>, Vec<CompileError>> {
    let allocator = Allocator::default();
    let options = ParseOptions { parse_regular_expression: true, ..ParseOptions::default() };
    let parsed = Parser::new(&allocator, source, typescript::source_type(file))
        .with_options(options)
        .parse();
    fail_if_any(file, source, parsed.diagnostics.errors())?;
    let mut program = parsed.program;
    let semantic = SemanticBuilder::new_compiler().with_enum_eval(true).build(&program);
    fail_if_any(file, source, semantic.diagnostics.errors())?;
    refuse_decorators(file, source, &program)?;
    let scoping = semantic.semantic.into_scoping();
    let generated = match ModuleKind::of(file) {
        ModuleKind::TypeScript => {
            let transformed = typescript::transform(&allocator, file, jsx, scoping, &mut program);
            // Constructs that cause only a warning, such as `require`, would not run either.
            fail_if_any(file, source, transformed.iter())?;
            Some(typescript::print(file, &program))
        }
        _ => None,
    };
    let comments = comments::not_in_ascii(source, &program.comments);
    Ok(Code { source, links: ModuleLinks::of(&program), generated, comments })
}

fn fail_if_any<'d>(
    file: &str,
    source: &str,
    found: impl Iterator<Item = &'d OxcDiagnostic>,
) -> Result<(), Vec<CompileError>> {
    let errors: Vec<_> = found.map(|error| describe(file, source, error)).collect();
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

fn describe(file: &str, source: &str, error: &OxcDiagnostic) -> CompileError {
    let mut message = error.message.to_string();
    if let Some(help) = &error.help {
        let help: Vec<_> = help.split_whitespace().collect();
        message = format!("{}. {}", message.trim_end_matches('.'), help.join(" "));
    }
    match error.labels.first() {
        Some(label) => CompileError::at(file, source, label.offset() as usize, message),
        None => CompileError::of_module(file, message),
    }
}

/// Refuses decorators. They are not part of ECMAScript yet, and their TypeScript compilation
/// depends on an option that cannot be set here.
fn refuse_decorators(
    file: &str,
    source: &str,
    program: &Program<'_>,
) -> Result<(), Vec<CompileError>> {
    /// The offset of the first decorator, in bytes.
    struct First(Option<u32>);

    impl<'a> Visit<'a> for First {
        fn visit_decorator(&mut self, decorator: &Decorator<'a>) {
            self.0.get_or_insert(decorator.span.start);
        }
    }

    if !source.contains('@') {
        return Ok(());
    }
    let mut first = First(None);
    first.visit_program(program);
    let Some(offset) = first.0 else { return Ok(()) };
    let message = "decorators are not part of JavaScript yet; compile them, for example with \
                   esbuild --target=es2022";
    Err(vec![CompileError::at(file, source, offset as usize, message)])
}
