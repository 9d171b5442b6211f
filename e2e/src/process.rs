//! A Tenon process that writes to a log file and can be signaled.

use std::fs::{DirEntry, File};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::await_condition;
use crate::http_client::Connection;

/// Time limit for a process to become ready. Debug builds on a busy machine start slowly.
const STARTS_WITHIN: Duration = Duration::from_secs(30);

/// Time limit for the children of a killed process to exit.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);

/// A running binary of the workspace. It is killed on drop.
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
    /// * `name` - the name of the process, and of its log file without the extension.
    /// * `logs` - the folder of the log file. Processes of the same name append to the same file.
    ///
    /// # Errors
    /// Fails if the binary has not been built or cannot be started, or if the log file cannot be
    /// opened.
    pub fn spawn(
        name: &str,
        binary: &str,
        logs: &Path,
        configure: impl FnOnce(&mut Command),
    ) -> anyhow::Result<Self> {
        let program = binary_path(binary)?;
        let log = logs.join(format!("{name}.log"));
        let output = File::options().create(true).append(true).open(&log)?;
        let mut command = Command::new(&program);
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).kill_on_drop(true);
        configure(&mut command);
        let child =
            command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Self { name: name.to_owned(), child, log })
    }

    /// Waits until `/readyz` responds with 200.
    ///
    /// # Errors
    /// Fails if the process exits, or is not ready within `STARTS_WITHIN`.
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

    /// Sends SIGKILL to the process and its children, as when a Pod's machine fails, and waits
    /// until all have exited.
    ///
    /// # Errors
    /// Fails if the process has already exited, or its children cannot be listed or signaled.
    pub async fn kill(mut self) -> anyhow::Result<()> {
        let pid = self.child.id().with_context(|| format!("{} has already exited", self.name))?;
        let children = children(pid)?;
        let all = std::iter::once(pid).chain(children.iter().copied()).map(|pid| pid.to_string());
        let sent = Command::new("kill").arg("-KILL").args(all).status().await?;
        ensure!(sent.success(), "cannot signal {} and its children", self.name);
        self.child.wait().await?;
        await_condition(
            &format!("the children of {} to exit", self.name),
            EXIT_TIMEOUT,
            async || {
                ensure!(
                    !children.iter().any(|pid| is_running(*pid)),
                    "some of {children:?} still run"
                );
                Ok(())
            },
        )
        .await
    }

    /// Pauses the process until it is resumed, as if its machine hung.
    ///
    /// # Errors
    /// Fails if the process has exited.
    pub async fn pause(&self) -> anyhow::Result<()> {
        self.signal("-STOP").await
    }

    /// Resumes a process that was paused.
    ///
    /// # Errors
    /// Fails if the process has exited.
    pub async fn resume(&self) -> anyhow::Result<()> {
        self.signal("-CONT").await
    }

    async fn signal(&self, signal: &str) -> anyhow::Result<()> {
        let pid = self.child.id().with_context(|| format!("{} has already exited", self.name))?;
        let sent = Command::new("kill").args([signal, &pid.to_string()]).status().await?;
        ensure!(sent.success(), "cannot signal {}", self.name);
        Ok(())
    }

    /// Sends SIGTERM and returns the exit status.
    ///
    /// # Errors
    /// Fails if the process has already exited, or does not exit within `grace`. The process is
    /// then killed.
    pub async fn terminate(mut self, grace: Duration) -> anyhow::Result<ExitStatus> {
        self.signal("-TERM").await?;
        let ended = timeout(grace, self.child.wait()).await;
        Ok(ended
            .with_context(|| format!("{} is still running {grace:?} after SIGTERM", self.name))??)
    }

    /// Returns the path of a binary of the workspace.
    ///
    /// # Errors
    /// Fails if the binary has not been built.
    pub fn binary(binary: &str) -> anyhow::Result<PathBuf> {
        binary_path(binary)
    }
}

fn binary_path(binary: &str) -> anyhow::Result<PathBuf> {
    let folder = match std::env::var_os("TENON_E2E_BINARIES") {
        Some(folder) => PathBuf::from(folder),
        None => {
            // A test suite is target/debug/deps/suite-…, one folder below the binaries; a program
            // is beside them.
            let own = std::env::current_exe()?;
            let mut folders = own.ancestors().skip(1).take(2);
            folders
                .find(|folder| folder.join(binary).is_file())
                .unwrap_or(Path::new("."))
                .to_owned()
        }
    };
    let path = folder.join(binary);
    ensure!(
        path.is_file(),
        "{} does not exist; `make test-e2e` and `make e2e` build it",
        path.display()
    );
    Ok(path)
}

/// Returns the children of a process.
fn children(pid: u32) -> anyhow::Result<Vec<u32>> {
    let mut children = Vec::new();
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let listed = std::fs::read_to_string(thread?.path().join("children")).unwrap_or_default();
        children.extend(listed.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
    }
    Ok(children)
}

/// Returns whether any thread of a process is running. The connections of a process close when its
/// last thread exits. A process that has exited is listed until its parent has reaped it.
fn is_running(pid: u32) -> bool {
    let is_running = |thread: DirEntry| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with(['Z', 'X']))
    };
    std::fs::read_dir(format!("/proc/{pid}/task"))
        .is_ok_and(|mut threads| threads.any(|thread| thread.is_ok_and(is_running)))
}
