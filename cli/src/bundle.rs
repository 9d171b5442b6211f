//! Bundles the code of Workers as wrangler does, if annotations ask for it. This is for code that
//! imports npm packages or is spread over several files.
//!
//! ```text
//!  annotation tenon.dev/build ─► a command of the project
//!  annotation tenon.dev/main ──► esbuild of the project ─► modules, in place of the ConfigMap
//! ```
//!
//! The bundler is the esbuild that the project has installed: every wrangler project has it, and
//! the project's lock file determines its version.

mod esbuild;

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use ignore::WalkBuilder;
use kube::ResourceExt as _;
use tenon_crds::{CompatibilityFlag, Worker};

use crate::annotation::{BUILD, MAIN};
use crate::folder;
use crate::manifest::{self, Manifests};

/// The folder of npm packages. Changes in it are ignored.
const PACKAGES: &str = "node_modules";

/// Builds projects, and remembers which sources their build commands have seen.
#[derive(Default)]
pub(crate) struct Bundler {
    /// What was built, by the project's directory.
    built: BTreeMap<PathBuf, Built>,
}

/// The build commands that have succeeded for the sources of a project.
#[derive(Default)]
struct Built {
    /// The hash of the sources after the last of these commands.
    sources: u64,
    commands: BTreeSet<String>,
}

impl Bundler {
    /// Reads files like [`manifest::read`], and builds the code of Workers that need a bundler.
    pub(crate) fn read(&mut self, paths: &[PathBuf]) -> Manifests {
        manifest::read_and(paths, |manifests| {
            self.build(manifests);
            self.bundle(manifests);
        })
    }

    /// Runs the build command of each Worker whose sources have changed since the command last
    /// succeeded. Changes by commands of the same project do not count.
    fn build(&mut self, manifests: &mut Manifests) {
        let commands = manifests.workers.iter().filter_map(|(id, (location, worker))| {
            let command = worker.annotations().get(BUILD)?;
            Some((id.clone(), location.clone(), command.clone()))
        });
        for (id, location, command) in commands.collect::<Vec<_>>() {
            let directory = directory(&location.file);
            manifests.folders.extend(folders(&directory));
            let built = self.built.entry(directory.clone()).or_default();
            let sources = fingerprint(&directory);
            if built.sources != sources {
                *built = Built { sources, commands: BTreeSet::new() };
            }
            if built.commands.contains(&command) {
                continue;
            }
            eprintln!("{id}: running {command}");
            match run(&command, &directory) {
                Ok(()) => {
                    built.commands.insert(command);
                    // The command may have written files among the sources.
                    built.sources = fingerprint(&directory);
                }
                Err(message) => manifests.problem(location, Some(id), message),
            }
        }
    }

    /// Bundles the code of the Workers with a main module.
    fn bundle(&self, manifests: &mut Manifests) {
        let projects = manifests.workers.iter().filter_map(|(id, (location, worker))| {
            let main = worker.annotations().get(MAIN)?;
            Some((id.clone(), location.clone(), main.clone(), worker.clone()))
        });
        for (id, location, main, worker) in projects.collect::<Vec<_>>() {
            let directory = directory(&location.file);
            match bundle(&directory, &main, &worker) {
                Ok((key, bundle)) => {
                    manifests.folders.extend(bundle.folders);
                    let modules = folder::to_config_map(bundle.modules);
                    manifests.config_maps.insert((id.namespace().to_owned(), key), modules);
                }
                Err(message) => {
                    // The error may be in any of the project's files.
                    manifests.folders.extend(folders(&directory));
                    manifests.problem(location, Some(id), message);
                }
            }
        }
    }
}

/// Bundles a Worker's code. Returns the name of the ConfigMap that the modules replace, and the
/// modules with the folders of their sources.
fn bundle(
    directory: &Path,
    main: &str,
    worker: &Worker,
) -> Result<(String, esbuild::Bundle), String> {
    let reference = worker.spec.source.config_map_ref.as_ref().ok_or_else(|| {
        format!("spec.source.configMapRef: is required with the annotation {MAIN}; set its name, which may be that of the Worker")
    })?;
    let entrypoint = worker.spec.entrypoint.as_deref().unwrap_or("worker.js");
    let name = entrypoint.strip_suffix(".js").filter(|name| !name.contains('/')).ok_or_else(|| {
        format!("spec.entrypoint: the annotation {MAIN} produces a JavaScript module; use a name such as worker.js")
    })?;
    let project = esbuild::Project {
        directory,
        main,
        name,
        has_nodejs: worker.spec.compatibility_flags.contains(&CompatibilityFlag::NodejsCompat),
    };
    Ok((reference.name.clone(), project.bundle().map_err(|error| error.to_string())?))
}

/// Runs a command of a project.
fn run(command: &str, directory: &Path) -> Result<(), String> {
    let status = Command::new("sh").args(["-c", command]).current_dir(directory).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{BUILD}: {command:?} failed with {status}")),
        Err(error) => Err(format!("{BUILD}: cannot run {command:?}: {error}")),
    }
}

/// Returns the directory of a project, which contains the file that declares its Worker.
fn directory(file: &Path) -> PathBuf {
    match file.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Returns the source directories of a project: all except hidden directories, those of packages,
/// and those that Git ignores.
fn folders(directory: &Path) -> Vec<PathBuf> {
    sources(directory).filter(|path| path.is_dir()).collect()
}

/// Returns a hash of the names, sizes and modification times of a project's source files.
fn fingerprint(directory: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    for path in sources(directory).filter(|path| path.is_file()) {
        let metadata = path.metadata().ok();
        let time = metadata.as_ref().and_then(|metadata| metadata.modified().ok());
        let time = time.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
        (path, metadata.map(|metadata| metadata.len()), time).hash(&mut hasher);
    }
    hasher.finish()
}

fn sources(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let walk = WalkBuilder::new(directory)
        .require_git(false)
        .sort_by_file_path(Path::cmp)
        .filter_entry(|entry| entry.file_name() != PACKAGES)
        .build();
    walk.filter_map(|entry| Some(entry.ok()?.into_path()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn packages_and_ignored_files_are_not_sources() {
        let project = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = project.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(".gitignore", "dist\n");
        write("src/index.ts", "export default {}");
        let before = fingerprint(project.path());
        write("node_modules/left-pad/index.js", "");
        write("dist/worker.js", "");
        assert_eq!(fingerprint(project.path()), before);
        assert_eq!(folders(project.path()), [project.path(), &project.path().join("src")]);
        write("src/index.ts", "export default { fetch() {} }");
        assert_ne!(fingerprint(project.path()), before);
    }

    #[test]
    fn each_command_of_a_project_runs_once_per_change() {
        let project = tempfile::tempdir().unwrap();
        let worker = |name: &str| {
            format!(
                "apiVersion: tenon.dev/v1alpha1\nkind: Worker\nmetadata:\n  name: {name}\n  \
                 annotations: {{{BUILD}: echo {name} >> built}}\nspec:\n  source:\n    \
                 modules: {{worker.js: export default 1}}\n"
            )
        };
        let file = project.path().join("worker.yaml");
        fs::write(&file, format!("{}---\n{}", worker("one"), worker("two"))).unwrap();
        let mut bundler = Bundler::default();
        let mut build = || {
            assert_eq!(bundler.read(std::slice::from_ref(&file)).problems, []);
            fs::read_to_string(project.path().join("built")).unwrap()
        };
        assert_eq!(build(), "one\ntwo\n");
        assert_eq!(build(), "one\ntwo\n");
        fs::write(project.path().join("source.js"), "").unwrap();
        assert_eq!(build(), "one\ntwo\none\ntwo\n");
    }

    #[test]
    fn a_command_that_fails_is_named() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(run("true", directory.path()), Ok(()));
        let error = run("exit 3", directory.path()).unwrap_err();
        assert!(error.contains("\"exit 3\" failed with exit status: 3"), "{error}");
    }
}
