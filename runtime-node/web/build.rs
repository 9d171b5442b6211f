//! Evaluates the interfaces' JavaScript into the start-up snapshot from which every isolate begins.
//!
//! A line such as `//: late, after abort.js streams-base.js` in a file says when the file is
//! compiled and after which other files it is evaluated:
//!
//! - *eager*: every function is compiled and its bytecode is kept in the snapshot, so that a fresh
//!   isolate does not compile the file's functions while it serves a request.
//! - unmarked: each function is compiled on its first call, so that no isolate holds the bytecode
//!   of functions that its Worker never calls.
//! - *late*: the snapshot holds only the names that the file declares. *module*: the snapshot holds
//!   nothing of the file. The library contains the texts of both kinds; `later.js` and `node.js`
//!   define when and for which Workers they run.
//!
//! The texts are written to `OUT_DIR`, and the generated `sources.rs` defines the table `SOURCES`,
//! which includes them in the library. The generated `ops.rs` lists the ops: the functions with the
//! attribute `#[op]`.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use camel::camel;
use make::{Source, When};

#[path = "op/src/camel.rs"]
mod camel;
#[path = "../engine/src/flags.rs"]
mod flags;
#[path = "../engine/src/snapshot/make.rs"]
mod make;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=src");
    println!("cargo:rerun-if-changed=op/src/camel.rs");
    println!("cargo:rerun-if-changed=../engine/src/flags.rs");
    println!("cargo:rerun-if-changed=../engine/src/snapshot/make.rs");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let directory = Path::new("src");
    let paths = paths(directory)?;
    // File names are unique even without their directories.
    let files = with_extension(&paths, "js").map(read).collect::<Result<_, _>>()?;
    let sources = sorted(files)?;
    let statics =
        sources.iter().map(|source| write(source, &out)).collect::<Result<Vec<_>, io::Error>>()?;
    // The compiler checks that each byte of the texts is ASCII.
    let table = format!(
        "#[allow(long_running_const_eval)]\nstatic SOURCES: [v8::OneByteConst; {}] = [\n{}];\n",
        statics.len(),
        statics.concat()
    );
    let late = sources.iter().enumerate().filter(|(_, source)| source.when.is_later());
    let late = late.map(|(index, source)| (source.name.as_str(), index)).collect::<Vec<_>>();
    let table = format!("{table}static LATE: &[(&str, usize)] = &{late:?};\n");
    fs::write(out.join("sources.rs"), table)?;
    let ops = with_extension(&paths, "rs").map(|path| ops(directory, path));
    let ops = ops.collect::<Result<Vec<_>, _>>()?.concat();
    fs::write(out.join("ops.rs"), callbacks(&ops))?;
    let names = ops.iter().map(|op| op.name.as_str()).collect::<Vec<_>>();
    if let Some(twice) = names.iter().enumerate().find(|(i, name)| names[..*i].contains(name)) {
        return Err(format!("two ops have the name {}", twice.1).into());
    }

    v8::V8::set_flags_from_string(flags::FLAGS);
    v8::V8::initialize_platform(v8::new_default_platform(1, false).make_shared());
    v8::V8::initialize();
    fs::write(out.join("snapshot.bin"), &*make::snapshot(&sources, &names)?)?;
    Ok(())
}

/// A file of JavaScript, and the names of the files that must be evaluated before it.
struct File {
    source: Source,
    after: Vec<String>,
}

/// Returns the paths of all files below `directory`, in alphabetical order within each directory.
fn paths(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut entries =
        fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    entries.sort();
    let mut files = Vec::new();
    for path in entries {
        if path.is_dir() {
            files.extend(paths(&path)?);
        } else {
            files.push(path);
        }
    }
    Ok(files)
}

/// Returns the paths with this extension.
fn with_extension<'a>(paths: &'a [PathBuf], extension: &str) -> impl Iterator<Item = &'a Path> {
    paths
        .iter()
        .map(PathBuf::as_path)
        .filter(move |path| path.extension().is_some_and(|has| has == extension))
}

fn read(path: &Path) -> Result<File, Box<dyn Error>> {
    let text = fs::read_to_string(path)?;
    let name = path.file_name().expect("the path of a file has a name").to_string_lossy();
    let marker = text.lines().find_map(|line| line.strip_prefix("//: ")).unwrap_or_default();
    let (mut when, mut after) = (When::Called, Vec::new());
    for part in marker.split(", ").filter(|part| !part.is_empty()) {
        match part {
            "eager" => when = When::Eager,
            "late" => when = When::Late,
            "module" => when = When::Module,
            _ => {
                let names = part
                    .strip_prefix("after ")
                    .ok_or_else(|| format!("{name}: the marker \"{part}\" is unknown"))?;
                after.extend(names.split(' ').map(str::to_owned));
            }
        }
    }
    Ok(File { source: Source::new(&name, when, &text), after })
}

/// Returns the files in an order in which each file comes after the files that it names. Apart from
/// that, the files keep their order.
fn sorted(mut files: Vec<File>) -> Result<Vec<Source>, Box<dyn Error>> {
    let (mut sources, mut done) = (Vec::new(), BTreeSet::new());
    while !files.is_empty() {
        let next = files.iter().position(|file| file.after.iter().all(|name| done.contains(name)));
        let next = next.ok_or_else(|| {
            let left = files
                .iter()
                .map(|file| format!("{} after {}", file.source.name, file.after.join(" ")));
            format!(
                "the `after` markers form a cycle, or name a file that does not exist: {}",
                left.collect::<Vec<_>>().join(", ")
            )
        })?;
        let file = files.remove(next);
        done.insert(file.source.name.clone());
        sources.push(file.source);
    }
    Ok(sources)
}

/// Writes the text to `out` and returns the Rust expression that includes it in the library.
fn write(source: &Source, out: &Path) -> io::Result<String> {
    let path = out.join(&source.name);
    fs::write(&path, source.text.as_str())?;
    Ok(format!("    v8::String::create_external_onebyte_const(include_bytes!({path:?})),\n"))
}

/// An op.
#[derive(Clone)]
struct Op {
    /// The name of the op in JavaScript.
    name: String,
    /// The path of the function in the library.
    path: String,
}

/// Returns the ops of a file: the functions below a line `#[op]`.
fn ops(root: &Path, file: &Path) -> Result<Vec<Op>, Box<dyn Error>> {
    let text = fs::read_to_string(file)?;
    let module = file.with_extension("");
    let module = module.strip_prefix(root)?.to_string_lossy().replace('/', "::");
    let mut lines = text.lines();
    let mut ops = Vec::new();
    while lines.any(|line| line == "#[op]") {
        let function = lines.find(|line| !line.starts_with("#["));
        let function = function.and_then(|line| line.split_once("fn ")).map(|(_, rest)| rest);
        let function = function.and_then(|rest| rest.split(['(', '<']).next());
        let function =
            function.ok_or_else(|| format!("{}: no function follows #[op]", file.display()))?;
        ops.push(Op { name: camel(function), path: format!("crate::{module}::{function}") });
    }
    Ok(ops)
}

/// Returns the text of the function that lists the ops for V8.
fn callbacks(ops: &[Op]) -> String {
    let list = ops.iter().map(|op| format!("        {}::callback(),\n", op.path));
    let list = list.collect::<String>();
    format!(
        "pub(crate) fn callbacks() -> Vec<v8::FunctionCallback> {{\n    vec![\n{list}    ]\n}}\n"
    )
}
