//! Evaluates the interfaces' JavaScript into the start-up snapshot from which every isolate begins.
//!
//! `order.txt` says in which order the files are evaluated, and when each is compiled:
//!
//! - *eager*: every function is compiled and its bytecode kept in the snapshot, so that a fresh
//!   isolate compiles nothing while it serves a request.
//! - unmarked: each function is compiled on its first call, so that no isolate carries functions
//!   its Worker never calls.
//! - *late*: the snapshot holds only the names that the file declares. *module*: the snapshot holds
//!   nothing of the file. The library has the text of both; `later.js` and `node.js` define when and
//!   for which Workers they run.
//!
//! The texts are written to `OUT_DIR`, and the generated `sources.rs` defines the table `SOURCES` of
//! them for the library. `ops.rs` joins the native functions that the modules list (`ops::native`).

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use make::{Source, When};

#[path = "../engine/src/flags.rs"]
mod flags;
#[path = "../engine/src/snapshot/make.rs"]
mod make;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=src");
    println!("cargo:rerun-if-changed=../engine/src/flags.rs");
    println!("cargo:rerun-if-changed=../engine/src/snapshot/make.rs");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let directory = Path::new("src");
    let sources = fs::read_to_string(directory.join("order.txt"))?
        .lines()
        .map(|line| read(directory, line))
        .collect::<Result<Vec<_>, io::Error>>()?;
    let statics = sources.iter().map(|source| write(source, &out)).collect::<Result<Vec<_>, io::Error>>()?;
    let table = format!("static SOURCES: [v8::OneByteConst; {}] = [\n{}];\n", statics.len(), statics.concat());
    let late = sources.iter().enumerate().filter(|(_, source)| source.when.is_later());
    let late = late.map(|(place, source)| (source.name.as_str(), place)).collect::<Vec<_>>();
    let table = format!("{table}static LATE: &[(&str, usize)] = &{late:?};\n");
    fs::write(out.join("sources.rs"), table)?;
    let native = native(directory, directory)?;
    let modules = native.iter().map(|(module, _)| format!("    crate::{module}::native(),\n"));
    let modules = modules.collect::<String>();
    let callbacks =
        format!("pub(crate) fn callbacks() -> Vec<v8::FunctionCallback> {{\n    [{modules}].concat()\n}}\n");
    fs::write(out.join("ops.rs"), callbacks)?;
    let names = native.iter().flat_map(|(_, names)| names).map(String::as_str).collect::<Vec<_>>();

    v8::V8::set_flags_from_string(flags::FLAGS);
    v8::V8::initialize_platform(v8::new_default_platform(1, false).make_shared());
    v8::V8::initialize();
    fs::write(out.join("snapshot.bin"), &*make::snapshot(&sources, &names)?)?;
    Ok(())
}

/// Reads one file. Its name is unique without its directory.
///
/// # Arguments
/// * `line` - a line of `order.txt`: the file's path, optionally followed by `eager`, `late` or
///   `module`.
fn read(directory: &Path, line: &str) -> io::Result<Source> {
    let (path, when) = match line.split_once(' ') {
        Some((path, "eager")) => (path, When::Eager),
        Some((path, "late")) => (path, When::Late),
        Some((path, "module")) => (path, When::Module),
        _ => (line, When::Called),
    };
    let (_, name) = path.rsplit_once('/').unwrap_or(("", path));
    Ok(Source::new(name, when, &fs::read_to_string(directory.join(path))?))
}

/// Writes the text to `out` and returns the Rust expression that includes it in the library.
fn write(source: &Source, out: &Path) -> io::Result<String> {
    let path = out.join(&source.name);
    fs::write(&path, source.text.as_str())?;
    Ok(format!("    v8::String::create_external_onebyte_const(include_bytes!({path:?})),\n"))
}

/// Returns the names of the native functions that the modules below `directory` list, by module.
fn native(root: &Path, directory: &Path) -> io::Result<Vec<(String, Vec<String>)>> {
    let mut paths = fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() {
            found.extend(native(root, &path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path)?;
            let Some((_, list)) = text.split_once("\ncrate::ops::native! {\n") else { continue };
            let lines = list.lines().take_while(|line| *line != "}");
            let names = lines.filter_map(|line| Some(line.trim().strip_prefix('"')?.split_once('"')?.0.to_owned()));
            let module = path.with_extension("");
            let module = module.strip_prefix(root).expect("it lies below the root").to_string_lossy();
            found.push((module.replace('/', "::"), names.collect()));
        }
    }
    Ok(found)
}
