//! What a Worker's modules are, what importing one gives, and which one a specifier means. Pure, and the one place where
//! it is decided: the operator refuses by it what a node would fail at.
//!
//! ```text
//!  import x from "./a.json" with { type: "json" }
//!                  │                      │
//!         resolve ─┴─► name ─► kind ──────┴──► form: what `x` is, or why it cannot be imported
//! ```
//!
//! A module's kind goes by the end of its name:
//!
//! | name | kind | its default export |
//! | --- | --- | --- |
//! | `.js`, `.mjs`, or no extension | [`JavaScript`](ModuleKind::JavaScript) | what it exports |
//! | `.ts`, `.mts`, `.tsx`, `.jsx` | [`TypeScript`](ModuleKind::TypeScript) | what it exports |
//! | `.json` | [`Json`](ModuleKind::Json) | the value |
//! | `.txt`, `.html`, `.css`, `.md`, `.sql`, `.svg`, `.csv`, `.xml` | [`Text`](ModuleKind::Text) | a string |
//! | `.wasm` | [`WebAssembly`](ModuleKind::WebAssembly) | a `WebAssembly.Module` |
//! | `.js.map` and so on | [`SourceMap`](ModuleKind::SourceMap) | none: it is for stack traces |
//! | `.cjs`, `.cts` | [`CommonJs`](ModuleKind::CommonJs) | none: it is refused |
//! | any other | [`Binary`](ModuleKind::Binary) | an `ArrayBuffer` |
//!
//! The import attribute `type` asks for another form: `text` and `bytes` are to be had of whatever is kept as its author
//! wrote it. TypeScript is not: a revision has the JavaScript that was made of it, under the module's own name.

mod builtin;

pub use builtin::{BUILTINS, NotBuiltin, builtin};

/// What a module is, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ModuleKind {
    /// An ECMAScript module.
    JavaScript,
    /// An ECMAScript module in TypeScript or with JSX, of which JavaScript is made before it reaches a node.
    TypeScript,
    Json,
    /// UTF-8.
    Text,
    WebAssembly,
    /// Anything.
    Binary,
    /// The source map of the module whose name is before the `.map`.
    SourceMap,
    CommonJs,
}

/// What an import of a module gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// What the module exports.
    Code,
    /// The value, as its default export; so are those that follow.
    Json,
    /// A string.
    Text,
    /// An `ArrayBuffer`.
    Buffer,
    /// A `Uint8Array`.
    Bytes,
    /// A `WebAssembly.Module`.
    WebAssembly,
    /// What Node.js documents of its module of that name, which the Worker need not have.
    Builtin,
}

/// Why a module cannot be imported like this.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum ImportRefused {
    #[error("there is no import attribute \"{0}\"; there is \"type\"")]
    UnknownAttribute(String),
    #[error("there is no import of type \"{0}\"; there are \"json\", \"text\" and \"bytes\"")]
    UnknownType(String),
    #[error("only a .json module can be imported with type \"json\"")]
    NotJson,
    #[error("a module in TypeScript or with JSX cannot be imported with type \"{0}\": rename it, to .txt for example")]
    NotKept(&'static str),
    #[error("a source map cannot be imported: rename it, to .json for example")]
    SourceMap,
    #[error(
        "CommonJS modules cannot be used: bundle the Worker as an ES module, with esbuild --format=esm for example"
    )]
    CommonJs,
}

impl ModuleKind {
    /// Of the module of this name.
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

    /// Whether it is compiled, and can be a Worker's entrypoint.
    pub const fn is_code(self) -> bool {
        matches!(self, Self::JavaScript | Self::TypeScript)
    }

    /// What an import with this attribute `type`, if it has one, gives.
    ///
    /// # Errors
    /// When there is no such type, or a module of this kind cannot be had in it.
    pub fn form(self, type_: Option<&str>) -> Result<Form, ImportRefused> {
        match (type_, self) {
            (Some("json"), Self::Json) => Ok(Form::Json),
            (Some("json"), _) => Err(ImportRefused::NotJson),
            (Some("text" | "bytes") | None, Self::SourceMap) => Err(ImportRefused::SourceMap),
            (Some("text"), Self::TypeScript) => Err(ImportRefused::NotKept("text")),
            (Some("bytes"), Self::TypeScript) => Err(ImportRefused::NotKept("bytes")),
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

/// The value of the attribute `type` among those of an import, the only one there is.
///
/// # Errors
/// When there is another.
pub fn type_attribute<T: AsRef<str>>(attributes: impl IntoIterator<Item = (T, T)>) -> Result<Option<T>, ImportRefused> {
    let mut type_ = None;
    for (key, value) in attributes {
        if key.as_ref() != "type" {
            return Err(ImportRefused::UnknownAttribute(key.as_ref().to_owned()));
        }
        type_ = Some(value);
    }
    Ok(type_)
}

/// The name of a module's source map.
pub fn source_map_of(name: &str) -> String {
    format!("{name}.map")
}

/// What a module's URL (`import.meta.url`) has before its name.
pub const ORIGIN: &str = "file:///";

/// The name of the module that `importer` means by `specifier`, if `exists` knows it.
///
/// `./x.js` and `../x.js` are relative to the importer, as in a URL; anything else is a module's name, by itself or after
/// a `/` or [`ORIGIN`]. A name of JavaScript also stands for the TypeScript that it would be made of: who writes
/// `./x.js` in TypeScript means `x.ts`.
pub fn resolve(importer: &str, specifier: &str, exists: impl Fn(&str) -> bool) -> Option<String> {
    let name = named(importer, specifier)?;
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

/// The name that a specifier spells out. `None` when it leads out of the Worker.
fn named(importer: &str, specifier: &str) -> Option<String> {
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

/// A name without its extension, and the extension.
fn split(name: &str) -> Option<(&str, &str)> {
    name.rsplit_once('.').filter(|(_, extension)| !extension.contains('/'))
}

#[cfg(test)]
mod tests;
