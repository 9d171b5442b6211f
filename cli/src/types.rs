//! `tenon types`: writes the TypeScript type of a Worker's `env` from its manifest.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use tenon_crds::{Secret, ServiceBinding, Worker, WorkerSpec};
use tenon_proto::id::WorkerId;

use crate::manifest::{self, Manifests};
use crate::source;

/// Name of the file to write by default. Editors and compilers find this file without further
/// configuration, and wrangler uses the same name.
const FILE: &str = "worker-configuration.d.ts";

/// The TypeScript type of a binding that takes requests.
const FETCHER: &str = "{ fetch(input: RequestInfo | URL, init?: RequestInit): Promise<Response> }";

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
    let (file, worker) = choose(&manifests, args.worker.as_deref())?;
    let types = of(&worker.spec);
    let output = match &args.output {
        Some(output) => output.clone(),
        None => file.parent().unwrap_or(Path::new(".")).join(FILE),
    };
    if output.as_os_str() == "-" {
        print!("{types}");
        return Ok(());
    }
    fs::write(&output, types).with_context(|| format!("cannot write {}", output.display()))?;
    eprintln!("wrote {}", output.display());
    Ok(())
}

/// Returns the only Worker in the files, or the only Worker of the given name, and the path of its
/// file.
fn choose<'a>(
    manifests: &'a Manifests,
    name: Option<&str>,
) -> anyhow::Result<(&'a Path, &'a Worker)> {
    let is_named = |id: &WorkerId| name.is_none_or(|name| id.name() == name);
    let mut found = manifests.workers.iter().filter(|(id, _)| is_named(id));
    match (found.next(), found.next()) {
        (Some((_, (location, worker))), None) => Ok((&location.file, worker)),
        (None, _) => match name {
            Some(name) => bail!("the files contain no Worker {name:?}; correct --worker"),
            None => {
                bail!("the files contain no Worker; add one, such as examples/hello/worker.yaml")
            }
        },
        (Some(_), Some(_)) => {
            let names: Vec<_> = manifests.workers.keys().map(ToString::to_string).collect();
            bail!(
                "the files contain several Workers: {}; choose one with --worker",
                names.join(", ")
            )
        }
    }
}

/// Returns the declarations. `Cloudflare.Env` is also the type of `env` in `cloudflare:workers`.
fn of(spec: &WorkerSpec) -> String {
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
    for ServiceBinding { name, worker } in &spec.services {
        property(format!("The Worker `{worker}`."), name, FETCHER);
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
  services: [{name: AUTH, worker: auth}]
";

    fn read(text: &str) -> Manifests {
        let mut manifests = Manifests::default();
        manifests.add_file(Path::new("project/worker.yaml"), text);
        manifests
    }

    #[test]
    fn every_binding_has_a_type() {
        let manifests = read(WORKER);
        let (file, worker) = choose(&manifests, None).unwrap();
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
  }
}
interface Env extends Cloudflare.Env {}
";
        assert_eq!(of(&worker.spec), expected);
    }

    #[test]
    fn one_of_several_workers_is_chosen_by_its_name() {
        let manifests = read(&format!("{WORKER}---{}", WORKER.replace("shop", "cart")));
        let error = choose(&manifests, None).unwrap_err().to_string();
        assert!(error.contains("default/cart, default/shop; choose one with --worker"), "{error}");
        assert_eq!(
            choose(&manifests, Some("cart")).unwrap().1.metadata.name.as_deref(),
            Some("cart")
        );
        assert!(choose(&manifests, Some("other")).is_err());
        assert!(choose(&Manifests::default(), None).is_err());
    }
}
