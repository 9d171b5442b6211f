//! The kinds of a Worker's modules, the values that imports of them evaluate to, and the resolution
//! of specifiers to module names. This module is pure. Nodes import by its rules, and the operator
//! uses it to refuse imports that would fail on a node.
//!
//! ```text
//!  import x from "./a.json" with { type: "json" }
//!                  │                      │
//!         resolve ─┴─► name ─► kind ──────┴──► form: the value of `x`, or why it is refused
//! ```
//!
//! The extension of a module's name determines its kind:
//!
//! | name | kind | default export |
//! | --- | --- | --- |
//! | `.js`, `.mjs`, no extension | [`JavaScript`](ModuleKind::JavaScript) | the declared export |
//! | `.ts`, `.mts`, `.tsx`, `.jsx` | [`TypeScript`](ModuleKind::TypeScript) | the declared export |
//! | `.json` | [`Json`](ModuleKind::Json) | the value |
//! | `.txt`, `.html`, `.css`, `.md`, `.sql`, `.svg`, `.csv`, `.xml` | [`Text`](ModuleKind::Text) | a string |
//! | `.wasm` | [`WebAssembly`](ModuleKind::WebAssembly) | a `WebAssembly.Module` |
//! | `.js.map` and so on | [`SourceMap`](ModuleKind::SourceMap) | none: used for stack traces |
//! | `.cjs`, `.cts` | [`CommonJs`](ModuleKind::CommonJs) | none: refused |
//! | any other | [`Binary`](ModuleKind::Binary) | an `ArrayBuffer` |
//!
//! The import attribute `type` requests another form. `text` and `bytes` are available for every
//! module that is stored as its author wrote it, except for a source map. A TypeScript module is
//! not stored so: a revision contains the JavaScript that was compiled from it, under its name.

mod builtin;

pub use builtin::{BUILTINS, NotBuiltin, PREFIXED, builtin};

/// The kind of a module, determined by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ModuleKind {
    /// An ECMAScript module.
    JavaScript,
    /// An ECMAScript module in TypeScript or with JSX, compiled to JavaScript before it reaches a
    /// node.
    TypeScript,
    Json,
    /// UTF-8 text.
    Text,
    WebAssembly,
    /// Arbitrary bytes.
    Binary,
    /// The source map of the module that the name without `.map` refers to.
    SourceMap,
    CommonJs,
}

/// The form in which an import provides a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// The module's exports.
    Code,
    /// The parsed value, as the default export. The forms below, except
    /// `Builtin`, are default exports as well.
    Json,
    /// A string.
    Text,
    /// An `ArrayBuffer`.
    Buffer,
    /// A `Uint8Array`.
    Bytes,
    /// A `WebAssembly.Module`.
    WebAssembly,
    /// The exports of a built-in module, such as those that Node.js documents for its module of
    /// that name. The Worker need not contain the module.
    Builtin,
}

/// The reason why an import of a module is refused.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum ImportRefused {
    #[error("import attribute \"{0}\" is not supported; use \"type\"")]
    UnknownAttribute(String),
    #[error("import type \"{0}\" is not supported; use \"json\", \"text\" or \"bytes\"")]
    UnknownType(String),
    #[error("only a .json module can be imported with type \"json\"")]
    NotJson,
    #[error(
        "a module in TypeScript or with JSX cannot be imported with type \"{0}\"; rename it, for example to .txt"
    )]
    NotStored(&'static str),
    #[error("a source map cannot be imported; rename it, for example to .json")]
    SourceMap,
    #[error(
        "CommonJS modules cannot be used; bundle the Worker as an ES module, for example with esbuild --format=esm"
    )]
    CommonJs,
}

impl ModuleKind {
    /// Returns the kind of the module with this name.
    pub fn of(name: &str) -> Self {
        let Some((stem, extension)) = split(name) else { return Self::JavaScript };
        match extension.to_ascii_lowercase().as_str() {
            "js" | "mjs" => Self::JavaScript,
            "ts" | "mts" | "tsx" | "jsx" => Self::TypeScript,
            "json" => Self::Json,
            "txt" | "html" | "css" | "md" | "sql" | "svg" | "csv" | "xml" => Self::Text,
            "wasm" => Self::WebAssembly,
            "cjs" | "cts" => Self::CommonJs,
            "map" if split(stem).is_some() && Self::of(stem).is_code() => Self::SourceMap,
            _ => Self::Binary,
        }
    }

    /// Returns whether a module of this kind is compiled, and can be a Worker's entrypoint.
    pub const fn is_code(self) -> bool {
        matches!(self, Self::JavaScript | Self::TypeScript)
    }

    /// Returns the form of an import with this value of the attribute `type`.
    ///
    /// # Errors
    /// Fails if there is no such type, or if a module of this kind cannot be imported with it.
    pub fn form(self, type_: Option<&str>) -> Result<Form, ImportRefused> {
        match (type_, self) {
            (Some("json"), Self::Json) => Ok(Form::Json),
            (Some("json"), _) => Err(ImportRefused::NotJson),
            (Some("text" | "bytes") | None, Self::SourceMap) => Err(ImportRefused::SourceMap),
            (Some("text"), Self::TypeScript) => Err(ImportRefused::NotStored("text")),
            (Some("bytes"), Self::TypeScript) => Err(ImportRefused::NotStored("bytes")),
            (Some("text"), _) => Ok(Form::Text),
            (Some("bytes"), _) => Ok(Form::Bytes),
            (Some(other), _) => Err(ImportRefused::UnknownType(other.to_owned())),
            (None, Self::JavaScript | Self::TypeScript) => Ok(Form::Code),
            (None, Self::Json) => Ok(Form::Json),
            (None, Self::Text) => Ok(Form::Text),
            (None, Self::Binary) => Ok(Form::Buffer),
            (None, Self::WebAssembly) => Ok(Form::WebAssembly),
            (None, Self::CommonJs) => Err(ImportRefused::CommonJs),
        }
    }
}

/// Returns the value of the attribute `type` among the attributes of an import. No other attribute
/// is supported.
///
/// # Errors
/// Fails if there is any other attribute.
pub fn type_attribute<T: AsRef<str>>(
    attributes: impl IntoIterator<Item = (T, T)>,
) -> Result<Option<T>, ImportRefused> {
    let mut type_ = None;
    for (key, value) in attributes {
        if key.as_ref() != "type" {
            return Err(ImportRefused::UnknownAttribute(key.as_ref().to_owned()));
        }
        type_ = Some(value);
    }
    Ok(type_)
}

/// Returns the name of a module's source map.
pub fn source_map_of(name: &str) -> String {
    format!("{name}.map")
}

/// The prefix of a module's URL (`import.meta.url`), before the module's name.
pub const ORIGIN: &str = "file:///";

/// Returns the name of the module to which `specifier` resolves in `importer`, if `exists` returns
/// true for that name.
///
/// `./x.js` and `../x.js` are relative to the importer, as in a URL. Any other specifier is a
/// module's name, optionally after a `/` or [`ORIGIN`]. The name of a JavaScript file also resolves
/// to the TypeScript file from which it would be compiled, because TypeScript code that imports
/// `./x.js` means `x.ts`.
pub fn resolve(importer: &str, specifier: &str, exists: impl Fn(&str) -> bool) -> Option<String> {
    let name = spelled_name(importer, specifier)?;
    if exists(&name) {
        return Some(name);
    }
    let (stem, extension) = split(&name)?;
    let sources: &[&str] = match extension {
        "js" => &["ts", "tsx", "jsx"],
        "mjs" => &["mts"],
        "jsx" => &["tsx"],
        _ => &[],
    };
    sources.iter().map(|source| format!("{stem}.{source}")).find(|source| exists(source))
}

/// Returns the name that a specifier spells out, or `None` if that name is outside of the Worker.
fn spelled_name(importer: &str, specifier: &str) -> Option<String> {
    if !specifier.starts_with("./") && !specifier.starts_with("../") {
        let absolute = specifier.strip_prefix(ORIGIN).or_else(|| specifier.strip_prefix('/'));
        return Some(absolute.unwrap_or(specifier).to_owned());
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

/// Splits a name into the part before its extension, and the extension. Returns `None` if the name
/// has no extension.
fn split(name: &str) -> Option<(&str, &str)> {
    name.rsplit_once('.').filter(|(_, extension)| !extension.contains('/'))
}

#[cfg(test)]
mod tests;
