//! Runs Helm from the command line, as users do.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use serde::Deserialize;
use tenon_e2e::{Cluster, SYSTEM_NAMESPACE};
use tokio::process::Command;

/// Timeout of each Helm command, which Helm applies itself.
const TIMEOUT: &str = "5m";

/// Time limit for changes that Helm does not wait for.
pub const SETTLES_WITHIN: Duration = Duration::from_secs(300);

pub struct Helm {
    /// The program: `TENON_E2E_HELM`.
    program: OsString,
    kubeconfig: PathBuf,
}

/// A release in the output of `helm list`.
#[derive(Debug, Deserialize)]
pub struct Release {
    pub name: String,
    pub namespace: String,
    /// The chart's name and version.
    pub chart: String,
}

impl Helm {
    pub fn of(cluster: &Cluster) -> Self {
        let program = env::var_os("TENON_E2E_HELM").unwrap_or_else(|| "helm".into());
        Self { program, kubeconfig: cluster.kubeconfig().to_owned() }
    }

    /// Installs or upgrades a release and waits until its resources are ready.
    ///
    /// # Arguments
    /// * `values` - arguments that name files or set values, such as `--set=keep=false`.
    pub async fn upgrade(
        &self,
        release: &str,
        chart: &Path,
        values: &[String],
    ) -> anyhow::Result<()> {
        let chart = chart.to_string_lossy();
        let arguments = ["upgrade", "--install", release, &chart, "--wait", "--timeout", TIMEOUT];
        let values = values.iter().map(String::as_str);
        self.run(&arguments.into_iter().chain(values).collect::<Vec<_>>()).await.map(drop)
    }

    pub async fn rollback(&self, release: &str, revision: u32) -> anyhow::Result<()> {
        self.run(&["rollback", release, &revision.to_string(), "--wait", "--timeout", TIMEOUT])
            .await
            .map(drop)
    }

    /// Runs `helm test` and returns its output. The chart makes Helm print the logs of the test
    /// Pods before it deletes them.
    pub async fn test(&self, release: &str) -> anyhow::Result<String> {
        self.run(&["test", release, "--timeout", TIMEOUT]).await
    }

    pub async fn uninstall(&self, release: &str) -> anyhow::Result<()> {
        self.run(&["uninstall", release, "--wait", "--timeout", TIMEOUT]).await.map(drop)
    }

    /// Returns every release in the cluster.
    pub async fn releases(&self) -> anyhow::Result<Vec<Release>> {
        Ok(serde_json::from_str(
            &self.run(&["list", "--all-namespaces", "--output", "json"]).await?,
        )?)
    }

    async fn run(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new(&self.program);
        command
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(["--namespace", SYSTEM_NAMESPACE])
            .args(arguments);
        let output = command
            .kill_on_drop(true)
            .output()
            .await
            .context("cannot run helm; add it to the PATH, or set HELM to the program")?;
        let (stdout, stderr) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(
            output.status.success(),
            "`helm {}` failed: {}\n{}",
            arguments.join(" "),
            stderr.trim(),
            stdout.trim()
        );
        Ok(stdout.into_owned())
    }
}

/// Formats an argument of `upgrade` that names a file of values.
pub fn file(path: &Path) -> String {
    format!("--values={}", path.display())
}

/// Formats an argument of `upgrade` that sets one value.
pub fn set(name: &str, value: &str) -> String {
    format!("--set={name}={value}")
}
