//! Generates the load with wrk, with one thread and a number of kept-alive connections. Each
//! connection has one request in flight at all times.
//!
//! This module also sends single requests, which check that a server is up and responds correctly.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use crate::process::Placement;

/// Timeout of a single request, longer than any response takes on one machine.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit for a server to respond. Starting the server and loading its Workers takes much less
/// time.
const UP_TIMEOUT: Duration = Duration::from_secs(30);

/// Pause between two checks of a server that is starting.
const PAUSE: Duration = Duration::from_millis(1);

/// The destination of requests.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub addr: SocketAddr,
    pub host: &'static str,
}

impl Target {
    pub fn loopback(port: u16, host: &'static str) -> Self {
        Self { addr: (Ipv4Addr::LOCALHOST, port).into(), host }
    }

    /// Waits until the server responds with status 200 and `expected` in the body.
    ///
    /// # Errors
    /// Fails as [`await_answer`] does.
    pub fn await_answer(
        &self,
        expected: &str,
        ensure_running: impl FnMut() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        await_answer(|| get(self.addr, self.host), expected, ensure_running)
    }
}

/// Sends requests until a response has the status 200 and `expected` in the body.
///
/// # Errors
/// Fails if no response has the status 200 within `UP_TIMEOUT`, if one with this status has another
/// body, or if `ensure_running` fails.
pub fn await_answer(
    send: impl Fn() -> io::Result<HttpResponse>,
    expected: &str,
    mut ensure_running: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let started = Instant::now();
    loop {
        ensure_running()?;
        let answer = send();
        match &answer {
            Ok(answer) if answer.status == 200 => {
                ensure!(
                    answer.body.contains(expected),
                    "the body of the response is {:?}; expected {expected:?}",
                    answer.body
                );
                return Ok(());
            }
            _ if started.elapsed() > UP_TIMEOUT => {
                bail!(
                    "no response has the status 200 within {UP_TIMEOUT:?}; the last result is \
                     {answer:?}"
                )
            }
            _ => std::thread::sleep(PAUSE),
        }
    }
}

/// The response to a single request.
#[derive(Debug)]
pub struct HttpResponse {
    pub status: u16,
    /// The body as received, including chunk sizes if it was chunked.
    pub body: String,
}

/// Sends one request for `/`, on a connection of its own.
///
/// # Errors
/// Fails if no server listens or responds within `TIMEOUT`, or if the response is not HTTP.
pub fn get(addr: SocketAddr, host: &str) -> io::Result<HttpResponse> {
    let stream = TcpStream::connect_timeout(&addr, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_nodelay(true)?;
    exchange(stream, host)
}

/// Sends one request for `/` to a Unix domain socket.
///
/// # Errors
/// Fails if no server listens or responds within `TIMEOUT`, or if the response is not HTTP.
pub fn get_unix(socket: &Path, host: &str) -> io::Result<HttpResponse> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    exchange(stream, host)
}

fn exchange(mut stream: impl io::Read + io::Write, host: &str) -> io::Result<HttpResponse> {
    stream.write_all(
        format!("GET / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").as_bytes(),
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    parse_answer(&answer).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, answer.clone()))
}

fn parse_answer(answer: &str) -> Option<HttpResponse> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    Some(HttpResponse { status, body: body.to_owned() })
}

/// The request that is sent repeatedly.
#[derive(Clone, Copy, Debug)]
pub struct RequestSpec {
    pub path: &'static str,
    /// Number of headers to send in addition to the usual ones.
    pub headers: u32,
    /// Approximate length of a JSON body to send, in bytes; 0 for none.
    pub json: usize,
}

impl RequestSpec {
    pub const fn path(path: &'static str) -> Self {
        Self { path, headers: 0, json: 0 }
    }
}

/// The settings of the load generator.
#[derive(Clone, Debug)]
pub struct Load {
    pub wrk: PathBuf,
    /// The path of `bench/peers/wrk.lua`, which makes wrk send these requests and print the line
    /// from which [`Figures`] are parsed.
    pub script: PathBuf,
    pub request: RequestSpec,
    pub connections: u32,
    pub placement: Placement,
}

/// The figures that wrk measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    pub requests: u64,
    pub duration: Duration,
    pub p50: Duration,
    pub p99: Duration,
}

impl Load {
    /// Puts the load on `target` for `duration`.
    ///
    /// # Errors
    /// Fails if wrk cannot be run, or if any request failed, because figures with failures are not
    /// comparable.
    pub fn run(&self, target: Target, duration: Duration) -> anyhow::Result<Figures> {
        let Target { addr, host } = target;
        let mut command = self.placement.load(&self.wrk);
        command
            .args(["--threads", "1", "--connections", &self.connections.to_string()])
            .args(["--duration", &format!("{}s", duration.as_secs())])
            .args(["--timeout", "10s", "--header", &format!("Host: {host}"), "--script"])
            .arg(&self.script)
            .arg(format!("http://{addr}/"))
            .args([
                "--",
                self.request.path,
                &self.request.headers.to_string(),
                &self.request.json.to_string(),
            ]);
        let output = command.output().context("cannot run wrk; run bench/setup first")?;
        let printed = String::from_utf8_lossy(&output.stdout);
        parse_figures(&printed).with_context(|| {
            format!(
                "the output of wrk for {addr} is {printed}{}",
                String::from_utf8_lossy(&output.stderr)
            )
        })
    }
}

fn parse_figures(printed: &str) -> anyhow::Result<Figures> {
    let line = printed
        .lines()
        .find_map(|line| line.strip_prefix("tenon-bench "))
        .context("wrk printed no figures")?;
    let field = |name: &str| -> anyhow::Result<u64> {
        let value = line.split(' ').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        Ok(value.with_context(|| format!("wrk printed no {name}"))?.parse()?)
    };
    let micros = |name: &str| Ok::<_, anyhow::Error>(Duration::from_micros(field(name)?));
    ensure!(
        field("errors")? == 0,
        "{} of {} requests failed",
        field("errors")?,
        field("requests")?
    );
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
    fn the_line_of_the_script_is_found_in_the_output_of_wrk() {
        let printed = "Running 1s test\n  1 threads\ntenon-bench requests=10 errors=0 duration_us=2000000 \
                       p50_us=100 p99_us=900 max_us=1000\n";
        let figures = parse_figures(printed).unwrap();
        assert_eq!((figures.requests, figures.duration), (10, Duration::from_secs(2)));
        assert_eq!(
            (figures.p50, figures.p99),
            (Duration::from_micros(100), Duration::from_micros(900))
        );
    }

    #[test]
    fn a_failed_request_invalidates_the_figures() {
        let printed = "tenon-bench requests=10 errors=1 duration_us=1 p50_us=1 p99_us=1 max_us=1";
        assert!(parse_figures(printed).unwrap_err().to_string().contains("1 of 10"));
    }

    #[test]
    fn a_response_is_a_status_and_a_body() {
        let answer = parse_answer("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi").unwrap();
        assert_eq!((answer.status, answer.body.as_str()), (200, "hi"));
        assert!(parse_answer("SSH-2.0").is_none());
    }
}
