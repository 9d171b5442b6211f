//! `tenon types`: writes the TypeScript type of a Worker's `env` from its manifest.

use std::fmt::Write as _;
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, bail};
use kube::ResourceExt as _;
use tenon_crds::{Secret, ServiceBinding, Worker, WorkerSpec};
use tenon_proto::id::WorkerId;

use crate::annotation::MAIN;
use crate::manifest::{self, Manifests};
use crate::source;

/// Name of the file to write by default. Editors and compilers find this file without further
/// configuration, and wrangler uses the same name.
const FILE: &str = "worker-configuration.d.ts";

/// The TypeScript type of a binding that takes requests.
const FETCHER: &str = "{ fetch(input: RequestInfo | URL, init?: RequestInit): Promise<Response> }";

/// The class that entrypoints extend.
const ENTRYPOINT: &str = "WorkerEntrypoint";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// YAML files with the Worker, or directories of such files.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// Name of the Worker, if the files contain several.
    #[arg(long, value_name = "NAME")]
    worker: Option<String>,

    /// File to write, or `-` for standard output. Defaults to `worker-configuration.d.ts` beside
    /// the Worker's file.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Writes the declarations to the file.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    source::ensure_manifests(&args.paths)?;
    let manifests = manifest::read(&args.paths);
    if let Some(problem) = manifests.problems.first() {
        bail!("{problem}");
    }
    let (file, id, worker) = choose(&manifests, args.worker.as_deref())?;
    let output = match &args.output {
        Some(output) if output.as_os_str() != "-" => output.clone(),
        _ => file.with_file_name(FILE),
    };
    let types = of(&worker.spec, |bound| class_of(&manifests, id, bound, &output));
    let output = args.output.clone().unwrap_or(output);
    if output.as_os_str() == "-" {
        print!("{types}");
        return Ok(());
    }
    fs::write(&output, types).with_context(|| format!("cannot write {}", output.display()))?;
    eprintln!("wrote {}", output.display());
    Ok(())
}

/// Returns the only Worker in the files, or the only Worker of the given name, with the path of its
/// file and its id.
fn choose<'a>(
    manifests: &'a Manifests,
    name: Option<&str>,
) -> anyhow::Result<(&'a Path, &'a WorkerId, &'a Worker)> {
    let is_named = |id: &WorkerId| name.is_none_or(|name| id.name() == name);
    let mut found = manifests.workers.iter().filter(|(id, _)| is_named(id));
    match (found.next(), found.next()) {
        (Some((id, (location, worker))), None) => Ok((&location.file, id, worker)),
        (None, _) => match name {
            Some(name) => bail!("the files contain no Worker {name:?}; correct --worker"),
            None => {
                bail!("the files contain no Worker; add one, such as examples/hello/worker.yaml")
            }
        },
        (Some(_), Some(_)) => {
            let names: Vec<_> = manifests.workers.keys().map(ToString::to_string).collect();
            let choose = match name {
                Some(_) => "name the file of one of them",
                None => "choose one with --worker",
            };
            bail!("the files contain several Workers: {}; {choose}", names.join(", "))
        }
    }
}

/// Returns the type of the class that handles the calls of a binding, or `None` if the files
/// contain no such class in TypeScript.
///
/// # Arguments
/// * `caller` - the Worker that has the binding.
/// * `output` - the file that will import the class.
fn class_of(
    manifests: &Manifests,
    caller: &WorkerId,
    bound: &ServiceBinding,
    output: &Path,
) -> Option<String> {
    let (location, worker) =
        manifests.workers.get(&WorkerId::new(caller.namespace(), &bound.worker))?;
    let main = match worker.annotations().get(MAIN) {
        Some(main) => location.file.with_file_name(main),
        None => {
            let entrypoint = worker.spec.entrypoint.as_deref().unwrap_or("worker.ts");
            manifests.folder_of(location, worker)?.join(entrypoint)
        }
    };
    let is_typescript =
        main.extension().is_some_and(|name| name == "ts" || name == "tsx" || name == "mts");
    if !is_typescript || !fs::read_to_string(&main).ok()?.contains(ENTRYPOINT) {
        return None;
    }
    let module = relative(output, &main.with_extension(""))?;
    let export = bound.entrypoint.as_deref().unwrap_or("default");
    Some(format!("typeof import(\"{module}\").{export}"))
}

/// Returns the path of a file as an import in another file names it, or `None` if the path is not
/// UTF-8.
fn relative(importer: &Path, to: &Path) -> Option<String> {
    let plain = |path: &Path| -> Vec<PathBuf> {
        let parts = path.components().filter(|part| *part != Component::CurDir);
        parts.map(|part| PathBuf::from(part.as_os_str())).collect()
    };
    let (importer, to) = (std::path::absolute(importer).ok()?, std::path::absolute(to).ok()?);
    let (from, to) = (plain(importer.parent()?), plain(&to));
    let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let up = if shared == from.len() { "./".to_owned() } else { "../".repeat(from.len() - shared) };
    let down: PathBuf = to[shared..].iter().collect();
    Some(format!("{up}{}", down.to_str()?.replace('\\', "/")))
}

/// Returns the declarations. `Cloudflare.Env` is also the type of `env` in `cloudflare:workers`.
///
/// # Arguments
/// * `class` - returns the type of the class that handles the calls of a binding, if it is known.
fn of(spec: &WorkerSpec, class: impl Fn(&ServiceBinding) -> Option<String>) -> String {
    let mut types = String::from(
        "// Written by `tenon types`. Run the command again when the Worker's manifest changes.\n\
         declare namespace Cloudflare {\n  interface Env {\n",
    );
    let mut property = |comment: String, name: &str, type_: &str| {
        // Writing to a `String` cannot fail.
        _ = writeln!(types, "    /** {comment} */\n    readonly {name}: {type_};");
    };
    for name in spec.vars.keys() {
        property("A variable.".to_owned(), name, "string");
    }
    for Secret { name, secret_key_ref: reference } in &spec.secrets {
        property(
            format!("Key `{}` of Secret `{}`.", reference.key, reference.name),
            name,
            "string",
        );
    }
    for service in &spec.services {
        let ServiceBinding { name, worker, entrypoint } = service;
        let comment = match entrypoint {
            Some(entrypoint) => format!("The export `{entrypoint}` of the Worker `{worker}`."),
            None => format!("The Worker `{worker}`."),
        };
        match class(service) {
            // `Service` is a type of `@cloudflare/workers-types`, which also declares the module
            // from which the class imports `WorkerEntrypoint`.
            Some(class) => property(comment, name, &format!("Service<{class}>")),
            None => property(comment, name, FETCHER),
        }
    }
    if let Some(name) = spec.assets.as_ref().and_then(|assets| assets.binding.as_ref()) {
        property("The Worker's static files.".to_owned(), name, FETCHER);
    }
    types.push_str("  }\n}\ninterface Env extends Cloudflare.Env {}\n");
    types
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKER: &str = "
apiVersion: tenon.dev/v1alpha1
kind: Worker
metadata: {name: shop}
spec:
  source: {modules: {worker.js: 'export default {}'}}
  vars: {GREETING: hello}
  secrets: [{name: KEY, secretKeyRef: {name: keys, key: main}}]
  services: [{name: AUTH, worker: auth}, {name: ADMIN, worker: auth, entrypoint: Admin}]
";

    fn read(text: &str) -> Manifests {
        let mut manifests = Manifests::default();
        manifests.add_file(Path::new("project/worker.yaml"), text);
        manifests
    }

    #[test]
    fn every_binding_has_a_type() {
        let manifests = read(WORKER);
        let (file, _, worker) = choose(&manifests, None).unwrap();
        assert_eq!(file, Path::new("project/worker.yaml"));
        let expected = "\
// Written by `tenon types`. Run the command again when the Worker's manifest changes.
declare namespace Cloudflare {
  interface Env {
    /** A variable. */
    readonly GREETING: string;
    /** Key `main` of Secret `keys`. */
    readonly KEY: string;
    /** The Worker `auth`. */
    readonly AUTH: { fetch(input: RequestInfo | URL, init?: RequestInit): Promise<Response> };
    /** The export `Admin` of the Worker `auth`. */
    readonly ADMIN: { fetch(input: RequestInfo | URL, init?: RequestInit): Promise<Response> };
  }
}
interface Env extends Cloudflare.Env {}
";
        assert_eq!(of(&worker.spec, |_| None), expected);
    }

    #[test]
    fn a_binding_to_a_worker_in_typescript_has_the_methods_of_its_class() {
        let directory = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("shop/worker.yaml", WORKER);
        write(
            "auth/worker.yaml",
            "{apiVersion: tenon.dev/v1alpha1, kind: Worker, metadata: {name: auth}, \
             spec: {source: {configMapRef: {name: code}}}}",
        );
        write("auth/code/worker.ts", "export default class extends WorkerEntrypoint {}");
        let manifests = manifest::read(&[directory.path().to_owned()]);
        let (file, id, worker) = choose(&manifests, Some("shop")).unwrap();
        let output = file.with_file_name(FILE);
        let types = of(&worker.spec, |bound| class_of(&manifests, id, bound, &output));
        for (name, export) in [("AUTH", "default"), ("ADMIN", "Admin")] {
            let expected = format!(
                "readonly {name}: Service<typeof import(\"../auth/code/worker\").{export}>;"
            );
            assert!(types.contains(&expected), "{types}");
        }
    }

    #[test]
    fn an_import_leads_from_the_file_that_contains_it() {
        let import = |importer, to| relative(Path::new(importer), Path::new(to)).unwrap();
        assert_eq!(import("env.d.ts", "src/cart"), "./src/cart");
        assert_eq!(import("types/env.d.ts", "src/cart"), "../src/cart");
        assert_eq!(import("./a/b/env.d.ts", "a/./cart"), "../cart");
    }

    #[test]
    fn one_of_several_workers_is_chosen_by_its_name() {
        let manifests = read(&format!("{WORKER}---{}", WORKER.replace("shop", "cart")));
        let error = choose(&manifests, None).unwrap_err().to_string();
        assert!(error.contains("default/cart, default/shop; choose one with --worker"), "{error}");
        assert_eq!(
            choose(&manifests, Some("cart")).unwrap().2.metadata.name.as_deref(),
            Some("cart")
        );
        assert!(choose(&manifests, Some("other")).is_err());
        assert!(choose(&Manifests::default(), None).is_err());
    }
}
