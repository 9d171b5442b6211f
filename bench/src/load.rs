//! The load: wrk, one thread, a number of connections that are kept, each asking again when it has its answer.
//!
//! And the single request that tells that a server is there and says what it is to say.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use crate::process::Placement;

/// Longer than any answer on this machine takes; a server that needs more is not well.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Starting a server and loading its Workers takes well under this.
const UP_WITHIN: Duration = Duration::from_secs(30);

/// Between two looks at a server that comes up.
const PAUSE: Duration = Duration::from_millis(1);

/// Where requests go.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub addr: SocketAddr,
    pub host: &'static str,
}

impl Target {
    pub fn loopback(port: u16, host: &'static str) -> Self {
        Self { addr: (Ipv4Addr::LOCALHOST, port).into(), host }
    }

    /// Waits until the server answers 200 and `expected`.
    ///
    /// # Errors
    /// When it does not, or `alive` says that it never will.
    pub fn await_answer(&self, expected: &str, alive: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<()> {
        await_answer(|| get(self.addr, self.host), expected, alive)
    }
}

/// Asks until the answer is 200 and `expected`.
///
/// # Errors
/// When it never is, or `alive` says that it never will be.
pub fn await_answer(
    ask: impl Fn() -> io::Result<Answer>,
    expected: &str,
    mut alive: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let started = Instant::now();
    loop {
        alive()?;
        let answer = ask();
        match &answer {
            Ok(answer) if answer.status == 200 => {
                ensure!(answer.body.contains(expected), "answered {:?} and not {expected:?}", answer.body);
                return Ok(());
            }
            _ if started.elapsed() > UP_WITHIN => bail!("no 200 within {UP_WITHIN:?}, but {answer:?}"),
            _ => std::thread::sleep(PAUSE),
        }
    }
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// As it came, with chunk sizes where it was chunked.
    pub body: String,
}

/// Asks for `/` once, on a connection of its own.
///
/// # Errors
/// When nobody listens or what comes back is not HTTP.
pub fn get(addr: SocketAddr, host: &str) -> io::Result<Answer> {
    let stream = TcpStream::connect_timeout(&addr, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_nodelay(true)?;
    exchange(stream, host)
}

/// The same on a socket in the file system.
///
/// # Errors
/// When nobody listens or what comes back is not HTTP.
pub fn get_unix(socket: &Path, host: &str) -> io::Result<Answer> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    exchange(stream, host)
}

fn exchange(mut stream: impl io::Read + io::Write, host: &str) -> io::Result<Answer> {
    stream.write_all(format!("GET / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    parse_answer(&answer).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, answer.clone()))
}

fn parse_answer(answer: &str) -> Option<Answer> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    Some(Answer { status, body: body.to_owned() })
}

/// What is asked for, again and again.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    pub path: &'static str,
    /// How many headers to send beside the usual ones.
    pub headers: u32,
    /// Bytes of JSON to send.
    pub json: usize,
}

impl Ask {
    pub const fn path(path: &'static str) -> Self {
        Self { path, headers: 0, json: 0 }
    }
}

/// How load is made.
#[derive(Clone, Debug)]
pub struct Load {
    pub wrk: PathBuf,
    /// `bench/peers/wrk.lua`: makes wrk ask for that, and print what [`Figures`] reads.
    pub script: PathBuf,
    pub ask: Ask,
    pub connections: u32,
    pub placement: Placement,
}

/// What wrk saw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    pub requests: u64,
    pub duration: Duration,
    pub p50: Duration,
    pub p99: Duration,
}

impl Load {
    /// Loads `target` for a time.
    ///
    /// # Errors
    /// When wrk cannot be run, or a single request failed: figures of failures would compare nothing.
    pub fn run(&self, target: Target, duration: Duration) -> anyhow::Result<Figures> {
        let Target { addr, host } = target;
        let mut command = self.placement.load(&self.wrk);
        command
            .args(["--threads", "1", "--connections", &self.connections.to_string()])
            .args(["--duration", &format!("{}s", duration.as_secs())])
            .args(["--timeout", "10s", "--header", &format!("Host: {host}"), "--script"])
            .arg(&self.script)
            .arg(format!("http://{addr}/"))
            .args(["--", self.ask.path, &self.ask.headers.to_string(), &self.ask.json.to_string()]);
        let output = command.output().context("cannot run wrk; has bench/setup been run?")?;
        let printed = String::from_utf8_lossy(&output.stdout);
        parse_figures(&printed)
            .with_context(|| format!("wrk on {addr}: {printed}{}", String::from_utf8_lossy(&output.stderr)))
    }
}

fn parse_figures(printed: &str) -> anyhow::Result<Figures> {
    let line = printed.lines().find_map(|line| line.strip_prefix("tenon-bench ")).context("printed no figures")?;
    let field = |name: &str| -> anyhow::Result<u64> {
        let value = line.split(' ').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        Ok(value.with_context(|| format!("printed no {name}"))?.parse()?)
    };
    let micros = |name: &str| Ok::<_, anyhow::Error>(Duration::from_micros(field(name)?));
    ensure!(field("errors")? == 0, "{} of {} requests failed", field("errors")?, field("requests")?);
    Ok(Figures {
        requests: field("requests")?,
        duration: micros("duration_us")?,
        p50: micros("p50_us")?,
        p99: micros("p99_us")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scripts_line_is_read_among_what_wrk_prints() {
        let printed = "Running 1s test\n  1 threads\ntenon-bench requests=10 errors=0 duration_us=2000000 \
                       p50_us=100 p99_us=900 max_us=1000\n";
        let figures = parse_figures(printed).unwrap();
        assert_eq!((figures.requests, figures.duration), (10, Duration::from_secs(2)));
        assert_eq!((figures.p50, figures.p99), (Duration::from_micros(100), Duration::from_micros(900)));
    }

    #[test]
    fn one_failed_request_spoils_the_figures() {
        let printed = "tenon-bench requests=10 errors=1 duration_us=1 p50_us=1 p99_us=1 max_us=1";
        assert!(parse_figures(printed).unwrap_err().to_string().contains("1 of 10"));
    }

    #[test]
    fn an_answer_is_a_status_and_a_body() {
        let answer = parse_answer("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi").unwrap();
        assert_eq!((answer.status, answer.body.as_str()), (200, "hi"));
        assert!(parse_answer("SSH-2.0").is_none());
    }
}
