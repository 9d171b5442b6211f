//! A process of ours: its log, its end.

use std::fs::File;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::await_condition;
use crate::http_client::Connection;

/// Debug builds on a busy machine are slow to start.
const STARTS_WITHIN: Duration = Duration::from_secs(30);

/// A running binary of the workspace. Dropped, it is killed.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a binary of the workspace.
    ///
    /// # Arguments
    /// * `name` - what its log is called.
    /// * `logs` - the folder of the log. A process of the same name goes on in the same file.
    ///
    /// # Errors
    /// When it has not been built.
    pub fn spawn(name: &str, binary: &str, logs: &Path, configure: impl FnOnce(&mut Command)) -> anyhow::Result<Self> {
        let program = binary_path(binary)?;
        let log = logs.join(format!("{name}.log"));
        let output = File::options().create(true).append(true).open(&log)?;
        let mut command = Command::new(&program);
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).kill_on_drop(true);
        configure(&mut command);
        let child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Self { name: name.to_owned(), child, log })
    }

    /// Waits until `/readyz` says so.
    ///
    /// # Errors
    /// When it ends instead, or takes too long.
    pub async fn await_ready(&mut self, address: IpAddr) -> anyhow::Result<()> {
        let what = format!("{} to be ready", self.name);
        let status = await_condition(&what, STARTS_WITHIN, async || {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            let answer = Connection::to((address, 9090)).get("admin", "/readyz").await?;
            ensure!(answer.status == 200, "{}", answer.body);
            Ok(None)
        })
        .await?;
        match status {
            None => Ok(()),
            Some(status) => bail!("{} ended with {status}; see {}", self.name, self.log.display()),
        }
    }

    /// SIGKILL.
    pub async fn kill(mut self) -> anyhow::Result<()> {
        Ok(self.child.kill().await?)
    }

    /// SIGTERM, and how it ended.
    ///
    /// # Errors
    /// When it does not end within `grace`; it is killed then.
    pub async fn terminate(mut self, grace: Duration) -> anyhow::Result<ExitStatus> {
        let pid = self.child.id().context("it has ended already")?;
        let sent = Command::new("kill").args(["-TERM", &pid.to_string()]).status().await?;
        ensure!(sent.success(), "cannot signal {}", self.name);
        let ended = timeout(grace, self.child.wait()).await;
        Ok(ended.with_context(|| format!("{} goes on {grace:?} after SIGTERM", self.name))??)
    }

    /// Where a binary of the workspace is.
    ///
    /// # Errors
    /// When it has not been built.
    pub fn binary(binary: &str) -> anyhow::Result<PathBuf> {
        binary_path(binary)
    }
}

fn binary_path(binary: &str) -> anyhow::Result<PathBuf> {
    let folder = match std::env::var_os("TENON_E2E_BINARIES") {
        Some(folder) => PathBuf::from(folder),
        None => {
            // A suite is target/debug/deps/suite-…, with the binaries one folder up; a program is among them.
            let own = std::env::current_exe()?;
            let mut folders = own.ancestors().skip(1).take(2);
            folders.find(|folder| folder.join(binary).is_file()).unwrap_or(Path::new(".")).to_owned()
        }
    };
    let path = folder.join(binary);
    ensure!(path.is_file(), "{} is not there; `make test-e2e` and `make e2e` build it", path.display());
    Ok(path)
}
