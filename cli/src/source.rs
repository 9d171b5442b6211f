//! The arguments of the commands that read Workers from files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

use crate::load::Settings;
use crate::{env_file, import};

#[derive(clap::Args)]
pub(crate) struct SourceArgs {
    /// YAML files with Workers, ConfigMaps and Secrets, directories of such files, or wrangler
    /// projects.
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    /// Domain of Workers without routes, which are served at <name>.<namespace>.<domain>.
    #[arg(long, env = "TENON_DOMAIN", default_value = "localhost")]
    domain: String,

    /// File of NAME=VALUE lines with the values of secrets whose Secret is not among the files.
    /// Defaults to the .dev.vars of a wrangler project.
    #[arg(long, env = "TENON_ENV_FILE", value_name = "FILE")]
    env_file: Option<PathBuf>,
}

impl SourceArgs {
    /// Reads the env file and returns the settings.
    ///
    /// # Errors
    /// Fails as [`ensure_manifests`] does, or if the env file cannot be read or parsed.
    pub(crate) fn settings(&self) -> anyhow::Result<Settings> {
        ensure_manifests(&self.paths)?;
        let env = match &self.env_file {
            None => self.local_secrets()?,
            Some(file) => {
                let text = fs::read_to_string(file)
                    .with_context(|| format!("cannot read {}", file.display()))?;
                env_file::parse(&text).with_context(|| file.display().to_string())?
            }
        };
        Ok(Settings { domain: self.domain.clone(), env, has_cluster: false, debug_directory: None })
    }

    /// Returns the secrets that the projects have for development.
    fn local_secrets(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let mut secrets = BTreeMap::new();
        for file in self.paths.iter().filter_map(|path| import::project(path)) {
            secrets.extend(import::local_secrets(&file)?);
        }
        Ok(secrets)
    }
}

/// Checks that every path exists and may be a manifest or a directory of manifests.
///
/// # Errors
/// Fails if a path does not exist, or is a file of another kind, such as a module.
pub(crate) fn ensure_manifests(paths: &[PathBuf]) -> anyhow::Result<()> {
    for path in paths {
        let metadata =
            fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
        ensure!(
            metadata.is_dir() || may_be_manifest(path),
            "{} is not a manifest; pass a YAML file with a Worker that has the module in \
             spec.source.modules, or in the folder of spec.source.configMapRef",
            path.display()
        );
    }
    Ok(())
}

/// Returns whether a file may be a manifest or the configuration of a wrangler project. A file
/// without an extension may be one, because a shell passes such a file for `<(command)`.
fn may_be_manifest(path: &Path) -> bool {
    path.extension().is_none_or(|extension| {
        ["json", "jsonc", "toml", "yaml", "yml"]
            .iter()
            .any(|allowed| extension.eq_ignore_ascii_case(allowed))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_for_a_file_of_another_kind_states_which_kind_to_pass() {
        let folder = tempfile::tempdir().unwrap();
        for (name, is_refused) in [
            ("worker.js", true),
            ("main.rs", true),
            ("w.YAML", false),
            ("w.json", false),
            ("63", false),
        ] {
            let path = folder.path().join(name);
            fs::write(&path, "").unwrap();
            let outcome = ensure_manifests(&[path]).map_err(|error| error.to_string());
            assert_eq!(outcome.is_err_and(|error| error.contains("pass a YAML file")), is_refused);
        }
        assert!(ensure_manifests(&[folder.path().join("none")]).is_err());
        assert!(ensure_manifests(&[folder.path().to_owned()]).is_ok());
    }
}
