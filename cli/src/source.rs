//! The input of a command: the arguments that all commands share.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;

use crate::env_file;
use crate::load::Settings;

#[derive(clap::Args)]
pub(crate) struct SourceArgs {
    /// YAML files with Workers, ConfigMaps and Secrets, or directories of such files.
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    /// Domain of Workers without routes, which are served at <name>.<namespace>.<domain>.
    #[arg(long, env = "TENON_DOMAIN", default_value = "localhost")]
    domain: String,

    /// File of NAME=VALUE lines with the values of secrets whose Secret is not among the files.
    #[arg(long, env = "TENON_ENV_FILE", value_name = "FILE")]
    env_file: Option<PathBuf>,
}

impl SourceArgs {
    /// Reads the env file and returns the settings.
    ///
    /// # Errors
    /// Fails if a path does not exist, or the env file cannot be read or parsed.
    pub(crate) fn settings(&self) -> anyhow::Result<Settings> {
        for path in &self.paths {
            fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
        }
        let env = match &self.env_file {
            None => BTreeMap::new(),
            Some(file) => {
                let text = fs::read_to_string(file)
                    .with_context(|| format!("cannot read {}", file.display()))?;
                env_file::parse(&text).with_context(|| file.display().to_string())?
            }
        };
        Ok(Settings { domain: self.domain.clone(), env, has_cluster: false, debugged_in: None })
    }
}
