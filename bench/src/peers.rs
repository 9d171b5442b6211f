//! Starts the peers, which are the usual alternatives to Tenon. `bench/setup` installs their
//! binaries. Their configurations in `bench/peers` contain only what a plain proxy and a plain
//! server need.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use bytes::Bytes;

use crate::contest::Contender;
use crate::hello::HOST;
use crate::load::Target;
use crate::process::{Placement, Process};

/// The file name of the hello Worker.
const HELLO: &str = "hello.js";

/// Starts the peers.
pub struct Peers {
    /// The directory in which `bench/setup` put links to the binaries.
    pub bin: PathBuf,
    /// The directory `bench/peers`.
    pub sources: PathBuf,
    /// A directory for the peers' output.
    pub scratch: PathBuf,
    pub placement: Placement,
}

impl Peers {
    /// Returns the source of the hello Worker, which Tenon and the peers serve by default.
    ///
    /// # Errors
    /// Fails if the source cannot be read.
    pub fn hello(&self) -> anyhow::Result<Bytes> {
        self.source(HELLO)
    }

    /// Returns the source of a Worker.
    ///
    /// # Arguments
    /// * `name` - the file name of the source in `bench/peers`.
    ///
    /// # Errors
    /// Fails if the source cannot be read.
    pub fn source(&self, name: &str) -> anyhow::Result<Bytes> {
        let source = self.sources.join(name);
        let read =
            fs::read(&source).with_context(|| format!("cannot read {}", source.display()))?;
        Ok(read.into())
    }

    /// Starts deno behind an Envoy with one worker thread.
    pub fn envoy_and_deno(&self) -> anyhow::Result<Contender> {
        let dir = self.dir("envoy-deno")?;
        let (deno, upstream) = self.deno_process(&dir, HELLO)?;
        let listen = free_port()?;
        let config = self.configure("envoy.yaml", &dir, listen, &upstream.to_string())?;
        let mut envoy = self.command("envoy");
        envoy
            .args([
                "--concurrency",
                "1",
                "--disable-hot-restart",
                "--log-level",
                "warn",
                "--config-path",
            ])
            .arg(config);
        let envoy = Process::start("envoy", envoy, &dir)?;
        Ok(contender("Envoy + deno", listen, [envoy, deno]))
    }

    /// Starts deno behind an nginx with one worker process.
    pub fn nginx_and_deno(&self) -> anyhow::Result<Contender> {
        self.nginx_and_deno_serving("nginx-deno", HELLO)
    }

    /// Starts the same processes as [`nginx_and_deno`](Self::nginx_and_deno), with another Worker.
    ///
    /// # Arguments
    /// * `dir` - the name of a new directory for the output.
    /// * `source` - the file name of the Worker's source in `bench/peers`.
    pub fn nginx_and_deno_serving(&self, dir: &str, source: &str) -> anyhow::Result<Contender> {
        let dir = self.dir(dir)?;
        let (deno, upstream) = self.deno_process(&dir, source)?;
        let listen = free_port()?;
        let nginx = self.nginx("nginx.conf", &dir, listen, &upstream.to_string())?;
        Ok(contender("nginx + deno", listen, [nginx, deno]))
    }

    /// Starts an nginx with one worker process that serves the files of a folder.
    pub fn nginx_serving(&self, root: &Path) -> anyhow::Result<Contender> {
        let dir = self.dir("nginx-static")?;
        let listen = free_port()?;
        let root = root.display().to_string();
        let nginx = self.nginx("nginx-static.conf", &dir, listen, &root)?;
        Ok(contender("nginx", listen, [nginx]))
    }

    fn nginx(
        &self,
        config: &str,
        dir: &Path,
        listen: u16,
        destination: &str,
    ) -> anyhow::Result<Process> {
        let config = self.configure(config, dir, listen, destination)?;
        let mut nginx = self.command("nginx");
        nginx.args(["-e", "stderr", "-c"]).arg(config);
        Process::start("nginx", nginx, dir)
    }

    pub fn workerd(&self) -> anyhow::Result<Contender> {
        let dir = self.dir("workerd")?;
        let listen = free_port()?;
        let mut workerd = self.command("workerd");
        workerd
            .arg("serve")
            .arg(self.sources.join("workerd.capnp"))
            .arg(format!("--socket-addr=http=127.0.0.1:{listen}"));
        Ok(contender("workerd", listen, [Process::start("workerd", workerd, &dir)?]))
    }

    pub fn deno(&self) -> anyhow::Result<Contender> {
        self.deno_serving("deno", HELLO)
    }

    /// Starts deno with another Worker.
    ///
    /// # Arguments
    /// * `dir` - the name of a new directory for the output.
    /// * `source` - the file name of the Worker's source in `bench/peers`.
    pub fn deno_serving(&self, dir: &str, source: &str) -> anyhow::Result<Contender> {
        let (deno, listen) = self.deno_process(&self.dir(dir)?, source)?;
        Ok(contender("deno", listen, [deno]))
    }

    fn deno_process(&self, dir: &Path, source: &str) -> anyhow::Result<(Process, u16)> {
        let port = free_port()?;
        let mut deno = self.command("deno");
        deno.env("DENO_DIR", dir.join("deno-dir"))
            .env("DENO_NO_UPDATE_CHECK", "1")
            .args([
                "serve",
                "--quiet",
                "--no-config",
                "--host",
                "127.0.0.1",
                "--port",
                &port.to_string(),
            ])
            .arg(self.sources.join(source));
        Ok((Process::start("deno", deno, dir)?, port))
    }

    /// Returns a command for a peer's program, on the contenders' CPU.
    pub fn command(&self, program: &str) -> Command {
        self.placement.contender(&self.bin.join(program))
    }

    fn dir(&self, name: &str) -> anyhow::Result<PathBuf> {
        let dir = self.scratch.join(name);
        fs::create_dir(&dir)?;
        Ok(dir)
    }

    /// Fills in the template `NAME.in`, writes the result to `dir`, and returns its path.
    fn configure(
        &self,
        name: &str,
        dir: &Path,
        listen: u16,
        destination: &str,
    ) -> anyhow::Result<PathBuf> {
        let template = self.sources.join(name).with_added_extension("in");
        let config = fs::read_to_string(&template)
            .with_context(|| format!("cannot read {}", template.display()))?
            .replace("@LISTEN@", &listen.to_string())
            .replace("@UPSTREAM@", destination)
            .replace("@STATE@", &dir.display().to_string());
        let path = dir.join(name);
        fs::write(&path, config)?;
        Ok(path)
    }
}

fn contender(
    name: &'static str,
    port: u16,
    processes: impl IntoIterator<Item = Process>,
) -> Contender {
    Contender {
        name: name.to_owned(),
        target: Target::loopback(port, HOST),
        processes: processes.into_iter().collect(),
    }
}

/// Returns a port that is free now.
pub fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
