//! What a Worker's modules ask of each other, and whether they get it.
//!
//! Cycles are legal in ECMAScript, so nothing here follows imports in depth except `export *`, and that
//! visits each module once.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use oxc_syntax::module_record::{ExportExportName, ImportImportName, ModuleRecord};

use super::{CompileError, resolve};

/// The names of one module that others see, and those of others that it asks for.
#[derive(Default)]
pub(super) struct ModuleLinks {
    exports: HashSet<String>,
    /// Specifiers of `export * from`.
    stars: Vec<String>,
    requests: Vec<Request>,
}

struct Request {
    /// Where the import stands, in bytes.
    offset: usize,
    specifier: String,
    /// The export that is asked for, unless it is the module as a whole.
    name: Option<String>,
}

impl ModuleLinks {
    pub(super) fn of(record: &ModuleRecord<'_>) -> Self {
        let mut links = Self::default();
        for (specifier, requests) in &record.requested_modules {
            if let Some(first) = requests.first() {
                links.request(first.span.start, specifier, None);
            }
        }
        for import in &record.import_entries {
            let specifier = import.module_request.name.as_str();
            match &import.import_name {
                ImportImportName::Name(name) => links.request(name.span.start, specifier, Some(name.name.as_str())),
                ImportImportName::Default(span) => links.request(span.start, specifier, Some("default")),
                ImportImportName::NamespaceObject => {}
            }
        }
        for export in record.local_export_entries.iter().chain(&record.indirect_export_entries) {
            match &export.export_name {
                ExportExportName::Name(name) => drop(links.exports.insert(name.name.to_string())),
                ExportExportName::Default(_) => drop(links.exports.insert("default".to_owned())),
                ExportExportName::Null => {}
            }
        }
        let stars = record.star_export_entries.iter().filter_map(|export| export.module_request.as_ref());
        links.stars = stars.map(|request| request.name.to_string()).collect();
        links.requests.sort_by_key(|request| request.offset);
        links
    }

    fn request(&mut self, offset: u32, specifier: &str, name: Option<&str>) {
        let request =
            Request { offset: offset as usize, specifier: specifier.to_owned(), name: name.map(str::to_owned) };
        self.requests.push(request);
    }
}

/// All modules of a Worker.
#[derive(Default)]
pub(super) struct Links<'a> {
    modules: BTreeMap<&'a str, (&'a str, ModuleLinks)>,
}

impl<'a> Links<'a> {
    pub(super) fn add(&mut self, file: &'a str, source: &'a str, links: ModuleLinks) {
        self.modules.insert(file, (source, links));
    }

    /// Every request that is not met; `all` are the modules, JavaScript or not.
    pub(super) fn check(&self, all: &BTreeMap<String, Bytes>, entrypoint: &str) -> Vec<CompileError> {
        let mut errors: Vec<_> = self.check_entrypoint(entrypoint).into_iter().collect();
        for (file, (source, links)) in &self.modules {
            for request in &links.requests {
                if let Err(message) = self.check_request(all, file, request) {
                    errors.push(CompileError::at(file, source, request.offset, message));
                }
            }
        }
        errors
    }

    fn check_entrypoint(&self, entrypoint: &str) -> Option<CompileError> {
        let Some((_, links)) = self.modules.get(entrypoint) else {
            let names: Vec<_> = self.modules.keys().copied().collect();
            let message = match &names[..] {
                [] => "the entrypoint is not among the modules: there is no .js or .mjs module".to_owned(),
                names => {
                    format!("the entrypoint is not among the .js and .mjs modules, which are {}", names.join(", "))
                }
            };
            return Some(CompileError::of_module(entrypoint, message));
        };
        let handles = links.exports.contains("default")
            || self.modules.values().any(|(source, _)| source.contains("addEventListener"));
        (!handles).then(|| {
            let message = "nothing handles requests: the entrypoint has no `export default { fetch(request) { … } }` \
                           and no module calls `addEventListener(\"fetch\", …)`";
            CompileError::of_module(entrypoint, message)
        })
    }

    fn check_request(&self, all: &BTreeMap<String, Bytes>, file: &str, request: &Request) -> Result<(), String> {
        let specifier = &request.specifier;
        let target = resolve(file, specifier).filter(|target| all.contains_key(target));
        let Some(target) = target else {
            // The request for a name adds nothing to that for the module.
            return if request.name.is_some() { Ok(()) } else { Err(unresolved(all, file, specifier)) };
        };
        match &request.name {
            Some(name) if !self.exports(&target, name, &mut HashSet::new()) => {
                Err(format!("module \"{target}\" does not export \"{name}\""))
            }
            _ => Ok(()),
        }
    }

    /// Whether `name` can be imported from `file`. Of what is no JavaScript nothing is known.
    fn exports(&self, file: &str, name: &str, visited: &mut HashSet<String>) -> bool {
        let Some((_, links)) = self.modules.get(file) else { return true };
        if links.exports.contains(name) {
            return true;
        }
        // `export *` passes on everything but the default.
        name != "default"
            && visited.insert(file.to_owned())
            && links.stars.iter().filter_map(|star| resolve(file, star)).any(|star| self.exports(&star, name, visited))
    }
}

fn unresolved(all: &BTreeMap<String, Bytes>, file: &str, specifier: &str) -> String {
    let guesses =
        [format!("{specifier}.js"), format!("{specifier}.mjs"), format!("./{specifier}"), format!("./{specifier}.js")];
    let guess = guesses.iter().find(|guess| resolve(file, guess).is_some_and(|target| all.contains_key(&target)));
    match guess {
        Some(guess) => format!("no module \"{specifier}\"; did you mean \"{guess}\"?"),
        None if specifier.starts_with('.') => format!("no module \"{specifier}\" among the Worker's modules"),
        None => format!(
            "no module \"{specifier}\": packages are not installed; bundle it, or import a module of the Worker as \"./name.js\""
        ),
    }
}
