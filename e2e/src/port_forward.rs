//! Forwards a Pod's port to this machine. This works on any cluster for which there is a
//! kubeconfig, regardless of the cluster's NetworkPolicies.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::{Cluster, Connection};

const OPENS_WITHIN: Duration = Duration::from_secs(20);

/// A running `kubectl port-forward`. It is killed on drop.
#[derive(Debug)]
pub struct PortForward {
    address: SocketAddr,
    _child: Child,
    /// kubectl logs every connection and would exit if the pipe were closed.
    _output: BufReader<ChildStdout>,
}

impl PortForward {
    /// Starts kubectl and waits until it listens.
    ///
    /// # Errors
    /// Fails if the Pod does not exist or cannot be reached, or if kubectl prints nothing in time.
    /// If kubectl ends, the error contains its error output.
    pub async fn open(
        cluster: &Cluster,
        namespace: &str,
        pod: &str,
        port: u16,
    ) -> anyhow::Result<Self> {
        let mut command = Command::new("kubectl");
        command.arg("--kubeconfig").arg(cluster.kubeconfig()).args(["--namespace", namespace]);
        command.args([
            "port-forward",
            "--address",
            "127.0.0.1",
            &format!("pod/{pod}"),
            &format!(":{port}"),
        ]);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().context("cannot run kubectl; add it to the PATH")?;
        let opened = timeout(OPENS_WITHIN, read_address(&mut child)).await;
        let opened =
            opened.unwrap_or_else(|_| bail!("kubectl printed nothing within {OPENS_WITHIN:?}"));
        let (address, output) =
            opened.with_context(|| format!("`kubectl port-forward pod/{pod} :{port}` failed"))?;
        Ok(Self { address, _child: child, _output: output })
    }

    /// Returns the local address of the port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns a connection, which is opened on first use and must not outlive the port forward.
    pub fn connection(&self) -> Connection {
        Connection::to(self.address)
    }
}

/// Reads the local address from the first line of output, "Forwarding from 127.0.0.1:40123 ->
/// 9090", and returns it with the rest of the output.
async fn read_address(child: &mut Child) -> anyhow::Result<(SocketAddr, BufReader<ChildStdout>)> {
    let mut output =
        BufReader::new(child.stdout.take().context("kubectl's standard output is not piped")?);
    let mut line = String::new();
    output.read_line(&mut line).await?;
    if line.is_empty() {
        let mut stderr = String::new();
        child
            .stderr
            .take()
            .context("kubectl's standard error is not piped")?
            .read_to_string(&mut stderr)
            .await?;
        bail!("{}", stderr.trim());
    }
    let address = line.split_whitespace().nth(2).and_then(|address| address.parse().ok());
    let address =
        address.with_context(|| format!("kubectl printed {line:?} instead of the address"))?;
    Ok((address, output))
}
