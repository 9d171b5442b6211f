//! `tenon import`: writes a Worker's manifest from a wrangler project.
//!
//! - [`translate`]: translates a configuration into a Worker and notes. Pure.
//! - [`routes`]: translates a route's pattern into hosts and paths. Pure.
//! - [`advice`]: advice about each key that has no counterpart.

mod advice;
mod routes;
mod translate;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde_json::Value;

use translate::translate;

/// The configuration files of wrangler, in the order in which wrangler looks for them.
const FILES: [&str; 3] = ["wrangler.json", "wrangler.jsonc", "wrangler.toml"];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Directory of a wrangler project, or its configuration file.
    #[arg(default_value = ".", value_name = "PATH")]
    path: PathBuf,

    /// Environment of the configuration, under its key `env`.
    #[arg(long, value_name = "NAME")]
    env: Option<String>,

    /// File to write, or `-` for standard output. Defaults to `worker.yaml` beside the
    /// configuration.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Overwrite the file if it exists.
    #[arg(long)]
    force: bool,
}

/// Writes the manifest. Prints a note about each key that was not taken over unchanged, and the
/// steps that remain, to standard error.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let file = configuration(&args.path)?;
    let config = parse(&file)?;
    let directory = file.parent().unwrap_or(Path::new("."));
    let fallback = directory.canonicalize().ok();
    let fallback = fallback.as_deref().and_then(Path::file_name).unwrap_or_default();
    let translation = translate(&config, args.env.as_deref(), &fallback.to_string_lossy())?;

    let yaml = serde_yaml::to_string(&translation.worker)?;
    let output = args.output.clone().unwrap_or_else(|| directory.join("worker.yaml"));
    if output.as_os_str() == "-" {
        print!("{yaml}");
    } else {
        if output.exists() && !args.force {
            bail!(
                "{} exists; use --force to overwrite it, or --output to write another file",
                output.display()
            );
        }
        fs::write(&output, yaml).with_context(|| format!("cannot write {}", output.display()))?;
        eprintln!("wrote {}", output.display());
    }
    for note in &translation.notes {
        eprintln!("note: {note}");
    }
    for step in &translation.steps {
        eprintln!("next: {step}");
    }
    Ok(())
}

/// Returns the configuration file of a project.
fn configuration(path: &Path) -> anyhow::Result<PathBuf> {
    let metadata = fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
    if !metadata.is_dir() {
        return Ok(path.to_owned());
    }
    let found = FILES.map(|name| path.join(name)).into_iter().find(|file| file.is_file());
    found.with_context(|| {
        format!("{} contains none of the files {}", path.display(), FILES.join(", "))
    })
}

fn parse(file: &Path) -> anyhow::Result<Value> {
    let name = file.display();
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
    if file.extension().is_some_and(|extension| extension == "toml") {
        return toml::from_str(&text).with_context(|| format!("{name} is not valid TOML"));
    }
    let value = jsonc_parser::parse_to_serde_value(&text, &jsonc_parser::ParseOptions::default());
    value.with_context(|| format!("{name} is not valid JSON"))
}
