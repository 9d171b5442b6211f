//! Measures the CPU time of a request on the fast path of HTTP/1.1, and with hyper.
//!
//! The two servers are measured alternately, on the same thread of one router. The requests are the
//! same, except that an empty line precedes those for hyper: HTTP allows this line, and the fast
//! path leaves such a request to hyper. There is no Worker, so a request costs little more than
//! reading it and writing its response. The fast path must take less CPU time than hyper: a ratio
//! below 1.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use prometheus::Registry;
use tenon_lifecycle::drain;
use tenon_lifecycle::readiness::Readiness;
use tenon_router::{Config, Router};

/// The number of connections, each of which has one request at a time.
const CONNECTIONS: usize = 32;
/// The number of requests on each connection in a round.
const REQUESTS: usize = 1_000;
const ROUNDS: usize = 12;

/// The headers of a browser.
const BROWSER: &str = "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
    Accept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip, deflate, br, zstd\r\n\
    Connection: keep-alive\r\nCookie: session=0123456789abcdef; theme=dark\r\n\
    Upgrade-Insecure-Requests: 1\r\nSec-Fetch-Dest: document\r\nSec-Fetch-Mode: navigate\r\n";

fn main() -> anyhow::Result<()> {
    let (signal, drain) = drain::channel();
    let (registry, readiness) = (Registry::new(), Readiness::new());
    let router = Router::spawn(config(), drain, &registry, &readiness)?;
    println!("{:>8}  {:>10}  {:>10}  {:>6}", "headers", "fast path", "hyper", "ratio");
    for (name, headers) in [("few", ""), ("many", BROWSER)] {
        let request = format!("GET / HTTP/1.1\r\nHost: nowhere\r\n{headers}\r\n");
        let fast = Load::start(router.addr(), request.clone())?;
        let hyper = Load::start(router.addr(), format!("\r\n{request}"))?;
        let (mut fast_times, mut hyper_times) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            fast_times.push(fast.measure()?);
            hyper_times.push(hyper.measure()?);
        }
        let [fast, hyper] = [fast_times, hyper_times].map(median);
        println!("{name:>8}  {fast:>7.2} µs  {hyper:>7.2} µs  {:>6.2}", fast / hyper);
    }
    drop(signal);
    Ok(())
}

/// Returns the configuration of a router without a catalog.
fn config() -> Config {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let catalog = "http://127.0.0.1:9".parse().expect("the URL is invalid");
    Config {
        internal_listen: Some(any),
        client_memory: 256 << 20,
        client_connections: 1_000,
        ..Config::new("router/bench".to_owned(), any, catalog)
    }
}

/// Connections that send the same request again and again.
struct Load {
    request: String,
    connections: Vec<TcpStream>,
    /// The length of each response, in bytes.
    response: usize,
}

impl Load {
    fn start(addr: SocketAddr, request: String) -> anyhow::Result<Self> {
        let connect = |_| {
            let stream = TcpStream::connect(addr)?;
            stream.set_nodelay(true).map(|()| stream)
        };
        let connections: Vec<_> = (0..CONNECTIONS).map(connect).collect::<io::Result<_>>()?;
        let mut first = &connections[0];
        first.write_all(request.as_bytes())?;
        let response = read_response(first)?;
        let load = Self { request, connections, response };
        load.measure()?;
        Ok(load)
    }

    /// Returns the router's CPU time of a request, in microseconds.
    fn measure(&self) -> anyhow::Result<f64> {
        let before = router_cpu()?;
        let mut response = vec![0; self.response];
        for _ in 0..REQUESTS {
            for mut stream in &self.connections {
                stream.write_all(self.request.as_bytes())?;
            }
            for mut stream in &self.connections {
                stream.read_exact(&mut response)?;
                ensure!(
                    response.starts_with(b"HTTP/1.1 404 "),
                    "a response does not have the status 404"
                );
            }
        }
        let took = router_cpu()? - before;
        Ok(took.as_secs_f64() * 1e6 / (REQUESTS * CONNECTIONS) as f64)
    }
}

/// Reads a response, and returns its length, which is the same for all responses.
fn read_response(mut stream: &TcpStream) -> anyhow::Result<usize> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.extend(byte);
    }
    let text = String::from_utf8(head)?;
    let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length = length.context("the response has no content-length")?.parse()?;
    stream.read_exact(&mut vec![0; length])?;
    Ok(text.len() + length)
}

/// Returns the CPU time of the router's thread.
fn router_cpu() -> anyhow::Result<Duration> {
    for task in fs::read_dir("/proc/self/task")? {
        let task = task?.path();
        if fs::read_to_string(task.join("comm"))?.trim_end() == "router-0" {
            let schedule = fs::read_to_string(task.join("schedstat"))?;
            let nanos = schedule.split(' ').next().context("schedstat is empty")?;
            return Ok(Duration::from_nanos(nanos.parse()?));
        }
    }
    anyhow::bail!("the router has no thread")
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
