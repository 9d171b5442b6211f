//! Starts workerd in three ways: a process for each Worker, a process with many configured Workers,
//! and a loader that loads Workers at run time.

use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::hello::{ANSWER, HOST};
use crate::load::{await_answer, get, get_unix};
use crate::peers::{Peers, free_port};
use crate::process::Process;

/// Starts a process for the hello Worker, and stops the process after its first response. Returns
/// the time until that response.
///
/// # Errors
/// Fails if the process does not start, or if the response is wrong.
pub fn start_to_answer(peers: &Peers) -> anyhow::Result<Duration> {
    let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
    let began = Instant::now();
    let mut process = serve(peers, "workerd-start", &peers.sources.join("workerd.capnp"), addr)?;
    await_answer(|| get(addr, HOST), ANSWER, || process.ensure_running())?;
    Ok(began.elapsed())
}

/// A process with a Worker that loads others.
pub struct Loader {
    pub addr: SocketAddr,
    process: Process,
}

impl Loader {
    /// Starts the process.
    ///
    /// # Errors
    /// Fails if the process cannot be started.
    pub fn start(peers: &Peers) -> anyhow::Result<Self> {
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        let process = serve(peers, "workerd-loader", &peers.sources.join("loader.capnp"), addr)?;
        Ok(Self { addr, process })
    }

    /// Waits until the loader has loaded the Worker of `host`.
    ///
    /// # Errors
    /// Fails if the process exits, or if the Worker answers wrongly or does not answer before the
    /// timeout.
    pub fn await_up(&mut self, host: &str) -> anyhow::Result<()> {
        await_answer(|| get(self.addr, host), ANSWER, || self.process.ensure_running())
    }
}

fn serve(
    peers: &Peers,
    name: &'static str,
    config: &Path,
    addr: SocketAddr,
) -> anyhow::Result<Process> {
    let mut command = peers.command("workerd");
    command.args(["serve", "--experimental"]).arg(config).arg(format!("--socket-addr=http={addr}"));
    Process::start(name, command, &peers.scratch)
}

/// A process with many hello Workers.
pub struct ManyWorkers {
    pub process: Process,
    /// The socket of each Worker. Routing the requests of one socket would take an additional
    /// Worker.
    pub sockets: Vec<PathBuf>,
}

impl ManyWorkers {
    /// Starts the process, and waits until the last Worker answers.
    ///
    /// # Errors
    /// Fails if the process does not start, or if the last Worker does not answer before the
    /// timeout.
    pub fn start(peers: &Peers, workers: usize) -> anyhow::Result<Self> {
        let dir = peers.scratch.join(format!("workerd-{workers}"));
        fs::create_dir(&dir)?;
        fs::copy(peers.sources.join("hello.js"), dir.join("hello.js"))?;
        let sockets: Vec<_> = (0..workers).map(|i| dir.join(format!("{i}.sock"))).collect();
        let config = dir.join("workers.capnp");
        fs::write(&config, configuration(&sockets))?;
        let mut command = peers.command("workerd");
        command.arg("serve").arg(&config);
        let mut process = Process::start("workerd", command, &dir)?;
        if let Some(last) = sockets.last() {
            await_answer(|| get_unix(last, HOST), ANSWER, || process.ensure_running())?;
        }
        Ok(Self { process, sockets })
    }
}

fn configuration(sockets: &[PathBuf]) -> String {
    let list = |item: &dyn Fn(usize, &PathBuf) -> String| {
        let items = sockets.iter().enumerate().map(|(i, socket)| item(i, socket));
        items.fold(String::new(), |mut list, item| {
            // Writing into a `String` does not fail.
            let _ = writeln!(list, "    {item},");
            list
        })
    };
    let services = list(&|i, _| format!("(name = \"w{i}\", worker = .hello)"));
    let sockets = list(&|i, socket| {
        let address = format!("unix:{}", socket.display());
        format!("(name = \"w{i}\", address = {address:?}, service = \"w{i}\", http = ())")
    });
    format!(
        r#"using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [
{services}  ],
  sockets = [
{sockets}  ],
);

const hello :Workerd.Worker = (
  modules = [(name = "hello.js", esModule = embed "hello.js")],
  compatibilityDate = "2026-11-01",
);
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_worker_has_a_socket_to_itself() {
        let configuration = configuration(&["/a/0.sock".into(), "/a/1.sock".into()]);
        assert!(configuration.contains(r#"(name = "w1", worker = .hello)"#), "{configuration}");
        assert!(
            configuration.contains(r#"address = "unix:/a/1.sock", service = "w1""#),
            "{configuration}"
        );
    }
}
