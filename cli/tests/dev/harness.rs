//! Runs `tenon dev` for one test, on a free port, and stops the process when the test ends.
#![allow(clippy::unwrap_used)] // A test harness has no caller to return an error to.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Condvar, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

pub const TENON: &str = env!("CARGO_BIN_EXE_tenon");

/// Time limit of every wait. It is much longer than any wait takes, even on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Returns the manifest of a Worker with one module.
pub fn worker(name: &str, source: &str) -> String {
    format!(
        "apiVersion: tenon.dev/v1alpha1\nkind: Worker\nmetadata:\n  name: {name}\nspec:\n  source:\n    modules:\n      worker.js: |\n        {source}\n"
    )
}

/// Polls until `holds` returns true.
///
/// # Panics
/// Panics if `holds` has not returned true within [`DEADLINE`].
pub fn await_condition(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < DEADLINE, "timed out waiting until {what}");
        thread::yield_now();
    }
}

pub struct Dev {
    child: Child,
    lines: &'static Lines,
    port: u16,
}

/// The lines that the process has printed so far to standard output and standard error.
#[derive(Default)]
struct Lines {
    all: Mutex<Vec<String>>,
    more: Condvar,
}

impl Dev {
    /// Starts `tenon dev` with two shards on `path`, and waits until the process reports that it is
    /// ready.
    pub fn start(path: &Path) -> Self {
        Self::start_with(&["--shards", "2"], path)
    }

    /// Starts `tenon dev` like [`start`](Self::start), with `flags` instead of two shards.
    pub fn start_with(flags: &[&str], path: &Path) -> Self {
        let mut child = Command::new(TENON)
            .args(["dev", "--listen", "127.0.0.1:0"])
            .args(flags)
            .arg(path)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The lines are leaked, because the reader threads may outlive the test.
        let lines: &'static Lines = Box::leak(Box::default());
        lines.collect(child.stdout.take().unwrap());
        lines.collect(child.stderr.take().unwrap());
        let mut dev = Self { child, lines, port: 0 };
        let first = dev.await_line("Tenon serves on");
        dev.port = first.trim_end_matches('/').rsplit(':').next().unwrap().parse().unwrap();
        dev.await_line("Ready");
        dev
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Waits for the first line that contains `text` and returns it.
    pub fn await_line(&self, text: &str) -> String {
        let all = self.lines.all.lock().unwrap();
        let found = |all: &[String]| all.iter().find(|line| line.contains(text)).cloned();
        let (all, _) =
            self.lines.more.wait_timeout_while(all, DEADLINE, |all| found(all).is_none()).unwrap();
        found(&all).unwrap_or_else(|| panic!("no line contains {text:?}:\n{}", all.join("\n")))
    }

    pub fn get(&self, host: &str, path: &str) -> (u16, String) {
        self.request("GET", host, path, "")
    }

    pub fn request(&self, method: &str, host: &str, path: &str, body: &str) -> (u16, String) {
        request(self.port, method, host, path, body)
    }

    /// Sends SIGINT, as Ctrl-C does, and waits for the process to exit.
    pub fn interrupt(mut self) -> ExitStatus {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        let (ended_tx, ended_rx) = mpsc::channel();
        thread::scope(|scope| {
            let child = &mut self.child;
            scope.spawn(move || ended_tx.send(child.wait().unwrap()));
            ended_rx.recv_timeout(DEADLINE).expect("the process did not end")
        })
    }
}

/// Sends a request to a port of this machine, and returns the status and the body of the response.
pub fn request(port: u16, method: &str, host: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response
        .split_once("\r\n\r\n")
        .unwrap_or_else(|| panic!("the head of the response is incomplete: {response:?}"));
    (head[9..12].parse().unwrap(), body.to_owned())
}

impl Drop for Dev {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Lines {
    fn collect(&'static self, stream: impl Read + Send + 'static) {
        thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                self.all.lock().unwrap().push(line);
                self.more.notify_all();
            }
        });
    }
}
