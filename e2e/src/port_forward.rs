//! A port of a Pod, at hand here: what works with any cluster that a kubeconfig leads to, whatever its NetworkPolicies say.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::{Cluster, Connection};

const OPENS_WITHIN: Duration = Duration::from_secs(20);

/// `kubectl port-forward`. Dropped, it ends.
#[derive(Debug)]
pub struct PortForward {
    address: SocketAddr,
    _child: Child,
    /// It tells of every connection, and would end if nobody could hear.
    _output: BufReader<ChildStdout>,
}

impl PortForward {
    /// # Errors
    /// When there is no such Pod or nobody leads to it, with kubectl's complaint.
    pub async fn open(cluster: &Cluster, namespace: &str, pod: &str, port: u16) -> anyhow::Result<Self> {
        let mut command = Command::new("kubectl");
        command.arg("--kubeconfig").arg(cluster.kubeconfig()).args(["--namespace", namespace]);
        command.args(["port-forward", "--address", "127.0.0.1", &format!("pod/{pod}"), &format!(":{port}")]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().context("kubectl is not there; put it on PATH")?;
        let opened = timeout(OPENS_WITHIN, announced(&mut child)).await;
        let opened = opened.unwrap_or_else(|_| bail!("it says nothing for {OPENS_WITHIN:?}"));
        let (address, output) = opened.with_context(|| format!("kubectl port-forward pod/{pod} :{port}"))?;
        Ok(Self { address, _child: child, _output: output })
    }

    /// Where the port is, here.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A connection that is opened on first use. It must not outlive this.
    pub fn connection(&self) -> Connection {
        Connection::to(self.address)
    }
}

/// Where it listens, by its first line: "Forwarding from 127.0.0.1:40123 -> 9090". And what comes after that line.
async fn announced(child: &mut Child) -> anyhow::Result<(SocketAddr, BufReader<ChildStdout>)> {
    let mut output = BufReader::new(child.stdout.take().context("its output is piped")?);
    let mut line = String::new();
    output.read_line(&mut line).await?;
    if line.is_empty() {
        let mut complaint = String::new();
        child.stderr.take().context("its errors are piped")?.read_to_string(&mut complaint).await?;
        bail!("{}", complaint.trim());
    }
    let address = line.split_whitespace().nth(2).and_then(|address| address.parse().ok());
    let address = address.with_context(|| format!("it says {line:?} first"))?;
    Ok((address, output))
}
