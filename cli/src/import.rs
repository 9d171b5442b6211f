//! `tenon import`: writes a Worker's manifest from a wrangler project. Other commands read the
//! project as if that manifest existed.
//!
//! - [`translate`]: translates a configuration into a Worker and notes. Pure.
//! - [`generated`]: the configuration that a build has generated, in place of the author's.
//! - [`routes`]: translates a route's pattern into hosts and paths. Pure.
//! - [`advice`]: advice about each key that has no counterpart.

mod advice;
mod generated;
mod routes;
mod translate;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::env_file;
pub(crate) use translate::Translation;
use translate::translate;

/// The file that `tenon import` writes.
const MANIFEST: &str = "worker.yaml";

/// The file from which wrangler reads secrets during development.
const SECRETS: &str = ".dev.vars";

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

/// Writes the manifest. Prints a note about each key that was not carried over unchanged, and the
/// steps that remain, to standard error.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let file = configuration(&args.path)?;
    let translation = read(&file, args.env.as_deref())?;
    let yaml = serde_yaml::to_string(&translation.worker)?;
    let output = args.output.clone().unwrap_or_else(|| file.with_file_name(MANIFEST));
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

/// Translates the configuration of a project, and the names of the secrets in its `.dev.vars`. If a
/// build has generated a configuration, it is translated instead, with paths relative to the
/// project.
///
/// # Arguments
/// * `environment` - the environment to translate, or the top level if `None`.
///
/// # Errors
/// Fails if a file cannot be read, parsed or translated, there is no such environment, or an
/// environment is named although a build has generated the configuration.
pub(crate) fn read(file: &Path, environment: Option<&str>) -> anyhow::Result<Translation> {
    let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let config = match (generated::find(directory)?, environment) {
        (None, _) => parse(file)?,
        (Some(generated), None) => {
            let mut config = parse(&directory.join(&generated))?;
            config.as_object_mut().into_iter().for_each(|keys| generated::adopt(keys, &generated));
            config
        }
        (Some(generated), Some(environment)) => bail!(
            "{} was generated for one environment; build the project with \
             CLOUDFLARE_ENV={environment}, and omit --env",
            generated.display()
        ),
    };
    let fallback = directory.canonicalize().ok();
    let fallback = fallback.as_deref().and_then(Path::file_name).unwrap_or_default();
    let secrets: Vec<_> = local_secrets(file)?.into_keys().collect();
    Ok(translate(&config, environment, &fallback.to_string_lossy(), &secrets)?)
}

/// Returns the secrets that a project has for development, by name.
///
/// # Errors
/// Fails if the file with the secrets exists but cannot be read or parsed.
pub(crate) fn local_secrets(file: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let file = file.with_file_name(SECRETS);
    match fs::read_to_string(&file) {
        Ok(text) => env_file::parse(&text).with_context(|| file.display().to_string()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
    }
}

/// Returns the wrangler configuration that a path stands for: the path itself if it has the name of
/// such a file, or the file in a directory that contains no `worker.yaml`.
pub(crate) fn project(path: &Path) -> Option<PathBuf> {
    if path.is_dir() {
        return configuration_in(path).filter(|_| !path.join(MANIFEST).exists());
    }
    let name = path.file_name()?.to_str()?;
    FILES.contains(&name).then(|| path.to_owned())
}

/// Returns the configuration file of a project.
fn configuration(path: &Path) -> anyhow::Result<PathBuf> {
    let metadata = fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
    if !metadata.is_dir() {
        return Ok(path.to_owned());
    }
    configuration_in(path).with_context(|| {
        format!(
            "{} contains none of the files {}; if the project's build generates one, build the \
             project first",
            path.display(),
            FILES.join(", ")
        )
    })
}

/// Returns the configuration file in a directory. If there is none, but a build has generated one,
/// returns the path that a file by the author would have. Otherwise returns `None`.
fn configuration_in(directory: &Path) -> Option<PathBuf> {
    let files = FILES.map(|name| directory.join(name));
    let found = files.iter().find(|file| file.is_file());
    found.or_else(|| files.first().filter(|_| generated::exists(directory))).cloned()
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
