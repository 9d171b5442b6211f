//! The imports and exports of a Worker's modules, and the check that they match.
//!
//! Cyclic imports are legal in ECMAScript. The check is recursive only for `export *`, and visits
//! each module once in such a recursion.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use bytes::Bytes;
use oxc_ast::ast::{
    Declaration, ImportDeclarationSpecifier, Program, Statement, StringLiteral, WithClause,
};
use oxc_span::GetSpan as _;
use tenon_proto::module::{Form, ModuleKind, builtin, resolve, type_attribute};
use tenon_proto::revision::CompatibilityFlag;

use super::CompileError;

/// The exports and imports of one module.
#[derive(Default)]
pub(super) struct ModuleLinks {
    exports: HashSet<String>,
    /// The specifiers in `export * from`.
    stars: Vec<String>,
    requests: Vec<ModuleRequest>,
}

/// An `import … from` or `export … from` statement.
struct ModuleRequest {
    /// Position of the specifier, as a byte offset.
    offset: usize,
    specifier: String,
    /// Import attributes as keys and values.
    attributes: Vec<(String, String)>,
    /// The imported names, each with its byte offset.
    names: Vec<(usize, String)>,
}

impl ModuleLinks {
    /// Returns the links of a program from which types have been removed.
    pub(super) fn of(program: &Program<'_>) -> Self {
        let mut links = Self::default();
        for statement in &program.body {
            links.add(statement);
        }
        links
    }

    fn add(&mut self, statement: &Statement<'_>) {
        match statement {
            Statement::ImportDeclaration(import) => {
                let names =
                    import.specifiers.iter().flatten().filter_map(|specifier| match specifier {
                        ImportDeclarationSpecifier::ImportSpecifier(specifier) => Some((
                            specifier.span.start as usize,
                            specifier.imported.name().to_string(),
                        )),
                        ImportDeclarationSpecifier::ImportDefaultSpecifier(specifier) => {
                            Some((specifier.span.start as usize, "default".to_owned()))
                        }
                        ImportDeclarationSpecifier::ImportNamespaceSpecifier(_) => None,
                    });
                self.add_request(&import.source, import.with_clause.as_deref(), names.collect());
            }
            Statement::ExportFromDeclaration(export) => {
                self.exports.extend(
                    export.specifiers.iter().map(|specifier| specifier.exported.name().to_string()),
                );
                let names = export.specifiers.iter();
                let names = names
                    .map(|name| (name.local.span().start as usize, name.local.name().to_string()));
                self.add_request(&export.source, export.with_clause.as_deref(), names.collect());
            }
            Statement::ExportAllDeclaration(export) => {
                match &export.exported {
                    Some(name) => drop(self.exports.insert(name.name().to_string())),
                    None => self.stars.push(export.source.value.to_string()),
                }
                self.add_request(&export.source, export.with_clause.as_deref(), Vec::new());
            }
            Statement::ExportNamedDeclaration(export) => {
                self.exports.extend(
                    export.specifiers.iter().map(|specifier| specifier.exported.name().to_string()),
                );
            }
            Statement::ExportDeclaration(export) => match &export.declaration {
                Declaration::VariableDeclaration(variables) => {
                    let names = variables
                        .declarations
                        .iter()
                        .flat_map(|declarator| declarator.id.get_binding_identifiers());
                    self.exports.extend(names.map(|name| name.name.to_string()));
                }
                declaration => {
                    self.exports.extend(declaration.id().map(|name| name.name.to_string()))
                }
            },
            Statement::ExportDefaultDeclaration(_) => {
                self.exports.insert("default".to_owned());
            }
            _ => {}
        }
    }

    fn add_request(
        &mut self,
        source: &StringLiteral<'_>,
        with: Option<&WithClause<'_>>,
        names: Vec<(usize, String)>,
    ) {
        let attributes = with.iter().flat_map(|with| &with.with_entries);
        let attributes = attributes
            .map(|entry| (entry.key.as_arena_str().to_string(), entry.value.value.to_string()))
            .collect();
        let (offset, specifier) = (source.span.start as usize, source.value.to_string());
        self.requests.push(ModuleRequest { offset, specifier, attributes, names });
    }
}

/// The links of all modules of a Worker.
#[derive(Default)]
pub(super) struct Links<'a> {
    modules: BTreeMap<&'a str, (&'a str, ModuleLinks)>,
}

impl<'a> Links<'a> {
    pub(super) fn add(&mut self, file: &'a str, source: &'a str, links: ModuleLinks) {
        self.modules.insert(file, (source, links));
    }

    /// Returns an error for every import that cannot be resolved or whose name is not exported, and
    /// for an entrypoint that is not a code module or has no handler.
    ///
    /// # Arguments
    /// * `all` - all modules of the Worker, with code or with data.
    pub(super) fn check(
        &self,
        all: &BTreeMap<String, Bytes>,
        entrypoint: &str,
        flags: &BTreeSet<CompatibilityFlag>,
    ) -> Vec<CompileError> {
        let mut errors: Vec<_> = self.check_entrypoint(entrypoint).into_iter().collect();
        for (file, (source, links)) in &self.modules {
            let found = links
                .requests
                .iter()
                .flat_map(|request| self.check_request(all, flags, file, request));
            errors.extend(
                found.map(|(offset, message)| CompileError::at(file, source, offset, message)),
            );
        }
        errors
    }

    fn check_entrypoint(&self, entrypoint: &str) -> Option<CompileError> {
        let Some((_, links)) = self.modules.get(entrypoint) else {
            let names: Vec<_> = self.modules.keys().copied().collect();
            let message = match &names[..] {
                [] => {
                    "the entrypoint is not a code module; add a module such as worker.js".to_owned()
                }
                names => format!(
                    "the entrypoint is not a code module; choose one of {}",
                    names.join(", ")
                ),
            };
            return Some(CompileError::of_module(entrypoint, message));
        };
        // A call of `addEventListener` may be anywhere, and a class may extend `WorkerEntrypoint`
        // through another one. Only running the code would show whether the call registers a
        // handler, and whether the entrypoint exports such a class.
        let is_in_code =
            |name: &str| self.modules.values().any(|(source, _)| source.contains(name));
        let has_handler = links.exports.contains("default")
            || is_in_code("addEventListener")
            || is_in_code("WorkerEntrypoint");
        (!has_handler).then(|| {
            let message = "no handler for requests; add `export default { fetch(request) { … } }` \
                           to the entrypoint, or call `addEventListener(\"fetch\", …)`";
            CompileError::of_module(entrypoint, message)
        })
    }

    fn check_request(
        &self,
        all: &BTreeMap<String, Bytes>,
        flags: &BTreeSet<CompatibilityFlag>,
        file: &str,
        request: &ModuleRequest,
    ) -> Vec<(usize, String)> {
        let ModuleRequest { offset, specifier, attributes, names } = request;
        let Some(target) = resolve(file, specifier, |name| all.contains_key(name)) else {
            return match builtin(specifier, flags.iter().copied()) {
                // Only the runtime knows the exports of a built-in module.
                Ok(Some(_)) => Vec::new(),
                Ok(None) => vec![(*offset, unresolved(all, file, specifier))],
                Err(unsupported) => vec![(*offset, unsupported.to_string())],
            };
        };
        let attributes = attributes.iter().map(|(key, value)| (key, value));
        let type_ = match type_attribute(attributes) {
            Ok(type_) => type_.map(String::as_str),
            Err(refused) => return vec![(*offset, refused.to_string())],
        };
        let form = match ModuleKind::of(&target).form(type_) {
            Ok(form) => form,
            Err(refused) => {
                return vec![(
                    *offset,
                    format!("module \"{target}\" cannot be imported: {refused}"),
                )];
            }
        };
        let missing = names.iter().filter(|(_, name)| match form {
            Form::Code => !self.exports(all, &target, name, &mut HashSet::new()),
            _ => name != "default",
        });
        let errors = missing.map(|(offset, name)| {
            let remedy = match (form, ModuleKind::of(&target)) {
                (Form::Code, ModuleKind::TypeScript) => {
                    "; if it is a type, use import type or export type"
                }
                (Form::Code, _) => "",
                _ => "; a data module has only a default export",
            };
            (*offset, format!("module \"{target}\" does not export \"{name}\"{remedy}"))
        });
        errors.collect()
    }

    /// Returns whether `name` can be imported from `file`.
    fn exports(
        &self,
        all: &BTreeMap<String, Bytes>,
        file: &str,
        name: &str,
        visited: &mut HashSet<String>,
    ) -> bool {
        // A module that is not code exports only `default`.
        let Some((_, links)) = self.modules.get(file) else { return name == "default" };
        if links.exports.contains(name) {
            return true;
        }
        // `export *` re-exports everything but `default`. A built-in module may export any name,
        // because its exports are not known here.
        name != "default"
            && visited.insert(file.to_owned())
            && links.stars.iter().any(|star| {
                match resolve(file, star, |name| all.contains_key(name)) {
                    Some(star) => self.exports(all, &star, name, visited),
                    None => true,
                }
            })
    }
}

fn unresolved(all: &BTreeMap<String, Bytes>, file: &str, specifier: &str) -> String {
    let endings = ["", ".js", ".mjs", ".ts", ".tsx", ".json", "/index.js", "/index.ts"];
    let guess = ["", "./"]
        .into_iter()
        .flat_map(|start| endings.map(|end| format!("{start}{specifier}{end}")))
        .find(|guess| resolve(file, guess, |name| all.contains_key(name)).is_some());
    match guess {
        Some(guess) => format!("no module \"{specifier}\"; did you mean \"{guess}\"?"),
        None if specifier.starts_with('.') => {
            format!("no module \"{specifier}\" among the Worker's modules")
        }
        None => format!(
            "no module \"{specifier}\": packages are not installed; bundle the package, or import \
             a module of the Worker as \"./name.js\""
        ),
    }
}
