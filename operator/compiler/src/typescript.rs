//! Compiles TypeScript and JSX into JavaScript that V8 runs unchanged, and a source map.
//!
//! Types, and imports that only types use, are removed. Enums, namespaces and parameter properties
//! are compiled as `tsc` compiles them. Everything else is ECMAScript and is kept. The options are
//! those of `tsc` for a modern ES module with `isolatedModules`. A `tsconfig.json` has no effect.
//!
//! JSX becomes calls of `jsx` from `react/jsx-runtime` if the Worker has a module of that name, and
//! of `React.createElement` otherwise, as with TypeScript's `"jsx": "react"`. A comment at the head
//! of a file overrides this: `@jsxImportSource preact`, `@jsxRuntime automatic`, or `@jsx h` and
//! `@jsxFrag Fragment`.

use std::path::Path;

use bytes::Bytes;
use oxc_allocator::Allocator;
use oxc_ast::ast::Program;
use oxc_codegen::{Codegen, CodegenOptions, CommentOptions};
use oxc_diagnostics::Diagnostics;
use oxc_semantic::Scoping;
use oxc_span::SourceType;
use oxc_transformer::{EnvOptions, JsxOptions, JsxRuntime, Module, TransformOptions, Transformer};

use super::maps;

/// The functions that JSX calls by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Jsx(JsxRuntime);

impl Jsx {
    /// Chooses the runtime that the Worker provides.
    ///
    /// # Arguments
    /// * `exists` - returns whether a module name resolves in the Worker.
    pub(super) fn of(exists: impl Fn(&str) -> bool) -> Self {
        Self(if exists("react/jsx-runtime") { JsxRuntime::Automatic } else { JsxRuntime::Classic })
    }
}

/// Returns the language of the module with this name.
pub(super) fn source_type(file: &str) -> SourceType {
    let name = file.to_ascii_lowercase();
    match name.rsplit_once('.') {
        Some((stem, "ts" | "mts")) if stem.ends_with(".d") => SourceType::d_ts(),
        Some((_, "ts" | "mts")) => SourceType::ts(),
        Some((_, "tsx")) => SourceType::tsx(),
        Some((_, "jsx")) => SourceType::jsx(),
        _ => SourceType::mjs(),
    }
}

/// Transforms `program` into JavaScript, and returns the errors and warnings.
pub(super) fn transform<'a>(
    allocator: &'a Allocator,
    file: &str,
    jsx: Jsx,
    scoping: Scoping,
    program: &mut Program<'a>,
) -> Diagnostics {
    let jsx = JsxOptions {
        jsx_plugin: true,
        runtime: jsx.0,
        pure: false,
        throw_if_namespace: false,
        ..JsxOptions::disable()
    };
    let env = EnvOptions { module: Module::Esm, ..EnvOptions::default() };
    let options = TransformOptions { jsx, env, ..TransformOptions::default() };
    Transformer::new(allocator, Path::new(file), &options)
        .build_with_scoping(scoping, program)
        .diagnostics
}

/// Prints a program without comments, and returns the text and its source map.
pub(super) fn print(file: &str, program: &Program<'_>) -> (Bytes, Option<Bytes>) {
    let options = CodegenOptions {
        comments: CommentOptions::disabled(),
        source_map_path: Some(file.into()),
        ..CodegenOptions::default()
    };
    let printed = Codegen::new().with_options(options).build(program);
    (printed.code.into(), printed.map.map(maps::positions_only))
}
