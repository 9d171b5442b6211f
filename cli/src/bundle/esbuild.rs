//! Runs the esbuild of a project with the options that suit a Worker.
//!
//! Modules that are not JavaScript become modules of the Worker (`.wasm`, `.bin`) or text (`.txt`,
//! `.html`, `.sql`), as with wrangler. Modules of Node.js stay imports.
//!
//! A package in CommonJS may `require` a module of Node.js, but an ES module has no function
//! `require`. The first run of esbuild lists these calls; if there are any, a second run gives the
//! bundle a function `require` that knows these modules.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use serde::Deserialize;
use tenon_proto::module::{BUILTINS, PREFIXED};

use super::PACKAGES;

/// The options of every run.
const OPTIONS: [&str; 17] = [
    "--bundle",
    "--format=esm",
    "--conditions=workerd,worker,browser",
    "--external:node:*",
    "--external:cloudflare:*",
    "--define:process.env.NODE_ENV=\"production\"",
    "--asset-names=[name]-[hash]",
    "--chunk-names=[name]-[hash]",
    "--loader:.js=jsx",
    "--loader:.mjs=jsx",
    "--loader:.html=text",
    "--loader:.sql=text",
    "--loader:.wasm=copy",
    "--loader:.bin=copy",
    "--sourcemap=linked",
    "--log-level=error",
    "--color=false",
];

/// The version of JavaScript that the bundle may use. Current releases of wrangler use the same.
const TARGET: &str = "es2024";

/// The version for releases of esbuild that do not know [`TARGET`].
const OLD_TARGET: &str = "es2022";

/// A project, and the Worker that is made from its code.
pub(super) struct Project<'a> {
    pub(super) directory: &'a Path,
    /// The path of the main module, relative to the directory.
    pub(super) main: &'a str,
    /// The name of the module to write, without `.js`.
    pub(super) name: &'a str,
    /// Whether the Worker may import modules of Node.js.
    pub(super) has_nodejs: bool,
}

/// The result of a bundler.
#[derive(Debug)]
pub(super) struct Bundle {
    /// The modules and source maps, by name.
    pub(super) modules: BTreeMap<String, Vec<u8>>,
    /// The folders with the files that were bundled, except those of packages.
    pub(super) folders: Vec<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum BundleError {
    #[error(
        "{main}: bundling needs esbuild, which is not installed here; run `npm install` or `npm install --save-dev \
         esbuild` in {directory}"
    )]
    NotInstalled { main: String, directory: String },
    #[error("{main}: cannot be bundled:\n{messages}")]
    Failed { main: String, messages: String },
    #[error("{main}: cannot be bundled: {error}")]
    Io { main: String, error: io::Error },
}

/// The part of esbuild's description of a bundle that is needed here.
#[derive(Deserialize)]
struct Metafile {
    inputs: BTreeMap<String, Input>,
}

#[derive(Deserialize)]
struct Input {
    imports: Vec<Import>,
}

#[derive(Deserialize)]
struct Import {
    path: String,
    kind: String,
    #[serde(default)]
    external: bool,
}

impl Project<'_> {
    /// Bundles the main module with all that it imports.
    ///
    /// # Errors
    /// Fails if esbuild is not installed, cannot be run, or reports an error, or if its output
    /// cannot be read.
    pub(super) fn bundle(&self) -> Result<Bundle, BundleError> {
        let esbuild = find(self.directory).ok_or_else(|| BundleError::NotInstalled {
            main: self.main.to_owned(),
            directory: self.directory.display().to_string(),
        })?;
        let failed = |error| BundleError::Io { main: self.main.to_owned(), error };
        let scratch = tempfile::tempdir().map_err(failed)?;
        let (out, metafile) = (scratch.path().join("out"), scratch.path().join("meta.json"));
        let target = match self.run(&esbuild, &out, &metafile, TARGET, None) {
            Err(BundleError::Failed { messages, .. }) if is_unknown(TARGET, &messages) => {
                self.run(&esbuild, &out, &metafile, OLD_TARGET, None)?;
                OLD_TARGET
            }
            outcome => outcome.map(|()| TARGET)?,
        };
        let malformed = |error: serde_json::Error| failed(error.into());
        let metafile: Metafile =
            serde_json::from_slice(&fs::read(&metafile).map_err(failed)?).map_err(malformed)?;
        let required = required(&metafile);
        if !required.is_empty() {
            fs::remove_dir_all(&out).map_err(failed)?;
            let again = scratch.path().join("again.json");
            self.run(&esbuild, &out, &again, target, Some(&require(&required)))?;
        }
        let modules = read(&out).map_err(failed)?;
        Ok(Bundle { modules, folders: folders(self.directory, &metafile) })
    }

    fn run(
        &self,
        esbuild: &Path,
        out: &Path,
        metafile: &Path,
        target: &str,
        banner: Option<&str>,
    ) -> Result<(), BundleError> {
        let flag = |name: &str, value: &Path| {
            let mut flag = OsString::from(name);
            flag.push(value);
            flag
        };
        let mut command = Command::new(esbuild);
        command
            .current_dir(self.directory)
            .arg(self.main)
            .args(OPTIONS)
            .arg(format!("--target={target}"))
            .arg(format!("--entry-names={}", self.name))
            .arg(flag("--outdir=", out))
            .arg(flag("--metafile=", metafile));
        if self.has_nodejs {
            // An alias applies to the paths below a module as well.
            let bare = BUILTINS.iter().filter(|name| !name.contains('/') && **name != PREFIXED);
            command.args(bare.map(|module| format!("--alias:{module}=node:{module}")));
        }
        command.args(banner.map(|banner| format!("--banner:js={banner}")));
        let output = command
            .output()
            .map_err(|error| BundleError::Io { main: self.main.to_owned(), error })?;
        if output.status.success() {
            return Ok(());
        }
        let printed = String::from_utf8_lossy(&output.stderr);
        Err(BundleError::Failed { main: self.main.to_owned(), messages: messages(&printed) })
    }
}

/// Returns the messages of esbuild, without the stack trace that its launcher in JavaScript prints.
fn messages(printed: &str) -> String {
    let end = printed.find("\nnode:").unwrap_or(printed.len());
    printed[..end].trim().to_owned()
}

/// Returns whether esbuild has refused a target as unknown.
fn is_unknown(target: &str, messages: &str) -> bool {
    messages.contains(&format!("Invalid target \"{target}\""))
}

/// Returns the path of the esbuild in the `node_modules` of a project or of a directory above. A
/// package manager that does not hoist dependencies puts esbuild among the packages of wrangler,
/// or, if it is pnpm, below `.pnpm`.
fn find(directory: &Path) -> Option<PathBuf> {
    const PLACES: [&str; 3] = [
        ".bin/esbuild",
        "wrangler/node_modules/.bin/esbuild",
        ".pnpm/node_modules/esbuild/bin/esbuild",
    ];
    let directory = directory.canonicalize().ok()?;
    let packages = directory.ancestors().map(|above| above.join(PACKAGES));
    let places = packages.flat_map(|packages| PLACES.map(|place| packages.join(place)));
    places.into_iter().find(|place| place.is_file())
}

/// Returns the modules of Node.js that the bundle loads with `require`.
fn required(metafile: &Metafile) -> BTreeSet<&str> {
    let imports = metafile.inputs.values().flat_map(|input| &input.imports);
    let calls = imports.filter(|import| import.external && import.kind == "require-call");
    calls.map(|import| import.path.as_str()).filter(|path| path.starts_with("node:")).collect()
}

/// Returns code that declares `require` for these modules. esbuild does not parse the code, and so
/// cannot rename what conflicts with it: the prefix `$tenon` makes a conflict unlikely.
fn require(modules: &BTreeSet<&str>) -> String {
    let (mut imports, mut table) = (String::new(), String::new());
    for (index, module) in modules.iter().enumerate() {
        imports += &format!("import $tenon{index} from {module:?};");
        table += &format!("[{module:?}, $tenon{index}], ");
    }
    format!(
        "{imports}const require = ((modules) => (name) => {{ \
         if (modules.has(name)) return modules.get(name); \
         throw new Error(`Cannot find module '${{name}}'`); }})(new Map([{table}]));"
    )
}

/// Reads the files that esbuild has written, by name. All are in one directory.
fn read(out: &Path) -> io::Result<BTreeMap<String, Vec<u8>>> {
    let mut modules = BTreeMap::new();
    for entry in fs::read_dir(out)? {
        let entry = entry?;
        modules.insert(entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path())?);
    }
    Ok(modules)
}

fn folders(directory: &Path, metafile: &Metafile) -> Vec<PathBuf> {
    let own = metafile
        .inputs
        .keys()
        .map(Path::new)
        .filter(|path| !path.components().any(|component| component.as_os_str() == PACKAGES));
    let folders: BTreeSet<_> =
        own.filter_map(Path::parent).map(|folder| directory.join(folder)).collect();
    folders.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_modules_of_node_js_that_are_required_are_imported() {
        let metafile: Metafile = serde_json::from_str(
            r#"{"inputs": {
                "node_modules/pg/index.js": {"bytes": 1, "imports": [
                    {"path": "node:crypto", "kind": "require-call", "external": true},
                    {"path": "node_modules/pg/lib.js", "kind": "require-call", "original": "./lib"}
                ]},
                "src/index.ts": {"bytes": 1, "imports": [
                    {"path": "node:path", "kind": "import-statement", "external": true}
                ]}
            }}"#,
        )
        .unwrap();
        assert_eq!(required(&metafile), BTreeSet::from(["node:crypto"]));
        let code = require(&required(&metafile));
        assert!(code.starts_with("import $tenon0 from \"node:crypto\";"), "{code}");
        assert_eq!(folders(Path::new("shop"), &metafile), [Path::new("shop/src")]);
    }

    #[test]
    fn an_esbuild_that_does_not_know_the_target_gets_an_older_one() {
        use std::os::unix::fs::PermissionsExt as _;
        // Answers as esbuild 0.17 does, and writes the target that it accepts into the bundle.
        const OLD: &str = r#"#!/bin/sh
            for argument in "$@"; do case "$argument" in
                --target=es2024) echo '[ERROR] Invalid target "es2024" in "--target=es2024"' >&2; exit 1 ;;
                --target=*) target=$argument ;;
                --outdir=*) out=${argument#*=} ;;
                --metafile=*) echo '{"inputs": {}}' > "${argument#*=}" ;;
            esac; done
            mkdir -p "$out" && printf %s "$target" > "$out/a.js""#;
        let directory = tempfile::tempdir().unwrap();
        let bin = directory.path().join("node_modules/.bin");
        fs::create_dir_all(&bin).unwrap();
        fs::write(bin.join("esbuild"), OLD).unwrap();
        fs::set_permissions(bin.join("esbuild"), fs::Permissions::from_mode(0o755)).unwrap();
        let project =
            Project { directory: directory.path(), main: "a.ts", name: "a", has_nodejs: false };
        assert_eq!(project.bundle().unwrap().modules["a.js"], b"--target=es2022");
    }

    #[test]
    fn a_project_without_esbuild_is_told_to_install_it() {
        let directory = tempfile::tempdir().unwrap();
        let project =
            Project { directory: directory.path(), main: "a.ts", name: "a", has_nodejs: false };
        let error = project.bundle().unwrap_err().to_string();
        assert!(error.contains("npm install"), "{error}");
    }
}
