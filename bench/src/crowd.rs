//! A crowd of greedy clients, in processes of its own. They run `tenon-bench crowd`, which only
//! [`front`](crate::front) starts.
//!
//! ```text
//!  member: connect ─► occupy ─► disconnected by the server ─► a second later, again
//! ```
//!
//! Each member holds a connection for as long as the server allows, and reconnects afterward. The
//! number of file descriptors of a process is limited, so a large crowd consists of several
//! processes. They run at the lowest priority, so that other processes on the same CPU are slowed
//! by the server's work, and not by the crowd's.

use std::cell::Cell;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use clap::ValueEnum;
use futures::future::join_all;
use futures::stream;
use http_body_util::StreamBody;
use hyper::Request;
use hyper::body::Frame;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::process::{Placement, Process};

/// Mean time between the end of a member's connection and its next attempt to connect.
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);

/// Maximum wait until the members of a crowd are connected.
const CONNECTED_WITHIN: Duration = Duration::from_secs(30);

/// First source port of the members. Members bind their ports themselves, because the kernel's own
/// search uses only half of an address's ports.
const FIRST_PORT: u16 = 1024;

/// Pause between two bytes of a trickling body, and between two reads of a slow reader.
const TRICKLE: Duration = Duration::from_secs(1);

/// Length of a request head that does not end, in bytes.
const HEAD_BYTES: usize = 60_000;

/// Length in bytes of a body that travels in the same message as the head of its request.
const SHORT_BODY_BYTES: usize = 1_000;
/// Length in bytes of a body that is streamed to its Worker.
const LONG_BODY_BYTES: usize = 100_000;

/// Number of requests that a member sends on one HTTP/2 connection.
const REQUESTS_WITHOUT_BODY: usize = 256;

/// Size of the receive buffer of a slow reader, in bytes. The rest of the response waits at the
/// server.
const RECEIVE_BUFFER: u32 = 4 * 1024;

/// The behavior of members on their connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Members send nothing.
    Idle,
    /// Members send 60 KB of a head, and never end the head.
    Heads,
    /// Members send one byte of a body each second. Every other body is long enough to be streamed
    /// to its Worker.
    Trickles,
    /// Members send 256 requests over HTTP/2 that announce a body, and never send a body.
    Promises,
    /// Members request a large response. Half of them read nothing, and the others read 1 KiB each
    /// second.
    Unread,
}

#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[arg(value_enum)]
    kind: Kind,

    /// Address of the server.
    #[arg(long)]
    target: SocketAddr,

    /// Host of a Worker that responds immediately.
    #[arg(long)]
    brief: String,

    /// Host of a Worker that reads the whole request, and responds with some MiB.
    #[arg(long)]
    large: String,

    /// Source addresses, which the members use in turn.
    #[arg(long, value_delimiter = ',')]
    from: Vec<Ipv4Addr>,

    /// Number of the first member, from which each member derives an address and port of its own.
    #[arg(long)]
    first: usize,

    /// Number of members in this process.
    #[arg(long)]
    size: usize,
}

/// The target of a crowd, the hosts that it requests, and the source addresses of its members.
#[derive(Clone, Debug)]
pub struct Visit<'a> {
    pub target: SocketAddr,
    pub brief: &'a str,
    pub large: &'a str,
    pub from: &'a [Ipv4Addr],
}

/// The processes of a crowd. They are stopped when this value is dropped.
pub struct Crowd(Vec<Process>);

impl Crowd {
    /// Starts a crowd of about `size` members, in at least two processes of equal size.
    ///
    /// # Errors
    /// Fails if a process cannot be started.
    pub fn gather(
        placement: Placement,
        dir: &Path,
        kind: Kind,
        size: usize,
        visit: &Visit<'_>,
    ) -> anyhow::Result<Self> {
        /// Approximate maximum number of members per process. It is less than the number of file
        /// descriptors that a process may have on nearly every system.
        const MAX_MEMBERS: usize = 10_000;
        std::fs::create_dir(dir)?;
        let from: Vec<_> = visit.from.iter().map(Ipv4Addr::to_string).collect();
        let processes = size.div_ceil(MAX_MEMBERS).max(2);
        let start = |i: usize| {
            let mut command = placement.load(Path::new("nice"));
            command.args(["-n", "19"]).arg(std::env::current_exe()?).arg("crowd");
            command.arg(kind.to_possible_value().context("the kind has no name")?.get_name());
            command.args([
                "--target",
                &visit.target.to_string(),
                "--brief",
                visit.brief,
                "--large",
                visit.large,
            ]);
            let each = size / processes;
            command.args([
                "--from",
                &from.join(","),
                "--first",
                &(i * each).to_string(),
                "--size",
                &each.to_string(),
            ]);
            let dir = dir.join(i.to_string());
            std::fs::create_dir(&dir)?;
            Process::start("crowd", command, &dir)
        };
        Ok(Self((0..processes).map(start).collect::<anyhow::Result<_>>()?))
    }

    /// Returns the CPU time that the crowd has used so far.
    ///
    /// # Errors
    /// Fails if a process of the crowd has exited.
    pub fn cpu(&self) -> anyhow::Result<Duration> {
        self.0.iter().map(Process::cpu).sum()
    }

    /// Waits until the number of connected members no longer grows, for at most `CONNECTED_WITHIN`.
    pub fn await_connected(&self) {
        let (began, mut before) = (Instant::now(), 0);
        while began.elapsed() < CONNECTED_WITHIN {
            std::thread::sleep(RECONNECT_PAUSE);
            let held = self.connections().held;
            if held > 0 && held <= before {
                return;
            }
            before = held;
        }
    }

    /// Returns the number of members that hold a connection now, and the number of connections that
    /// members have lost.
    pub fn connections(&self) -> Connections {
        let counts = self
            .0
            .iter()
            .filter_map(|process| Connections::parse(process.printed().ok()?.lines().last()?));
        counts.fold(Connections::default(), |sum, member| Connections {
            held: sum.held + member.held,
            lost: sum.lost + member.lost,
        })
    }
}

/// Numbers of connections that a crowd holds now, and that it has lost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    pub held: u64,
    pub lost: u64,
}

impl Connections {
    fn parse(line: &str) -> Option<Self> {
        let (held, lost) = line.strip_prefix("held ")?.split_once(" lost ")?;
        Some(Self { held: held.parse().ok()?, lost: lost.parse().ok()? })
    }
}

/// Runs the members of one process until it is killed.
///
/// # Errors
/// Fails if no event loop can be created.
pub fn run(args: &Args) -> anyhow::Result<()> {
    // The limit is raised as far as possible. If that fails, the crowd is smaller.
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let members = Members { args, held: Cell::new(0), lost: Cell::new(0) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let all = join_all((args.first..args.first + args.size).map(|i| members.member(i)));
        tokio::select! {
            _ = all => {}
            () = members.print_connections() => {}
        }
    });
    Ok(())
}

struct Members<'a> {
    args: &'a Args,
    held: Cell<u64>,
    lost: Cell<u64>,
}

impl Members<'_> {
    async fn print_connections(&self) {
        loop {
            tokio::time::sleep(RECONNECT_PAUSE / 2).await;
            println!("held {} lost {}", self.held.get(), self.lost.get());
        }
    }

    async fn member(&self, i: usize) {
        loop {
            if let Ok(stream) = self.connect(i).await {
                self.held.set(self.held.get() + 1);
                // It does not matter how the connection ended.
                let _ = self.occupy(i, stream).await;
                self.held.set(self.held.get() - 1);
                self.lost.set(self.lost.get() + 1);
            }
            // The jitter keeps members from reconnecting at the same time.
            tokio::time::sleep(RECONNECT_PAUSE.mul_f64(fastrand::f64() + 0.5)).await;
        }
    }

    async fn connect(&self, i: usize) -> io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        if self.args.kind == Kind::Unread {
            socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
        }
        // With this option, a member can reconnect from its port before the kernel has released the
        // old connection.
        socket.set_reuseaddr(true)?;
        let addresses = self.args.from.len();
        let port = FIRST_PORT + u16::try_from(i / addresses).map_err(io::Error::other)?;
        socket.bind((IpAddr::V4(self.args.from[i % addresses]), port).into())?;
        socket.connect(self.args.target).await
    }

    /// Occupies a connection until it ends.
    async fn occupy(&self, i: usize, mut stream: TcpStream) -> anyhow::Result<()> {
        let Args { brief, large, .. } = self.args;
        match self.args.kind {
            Kind::Idle => {}
            Kind::Heads => {
                let head =
                    format!("GET / HTTP/1.1\r\nhost: {brief}\r\nx: {}", "y".repeat(HEAD_BYTES));
                stream.write_all(head.as_bytes()).await?;
            }
            Kind::Trickles => {
                let (host, length) = if i.is_multiple_of(2) {
                    (brief, SHORT_BODY_BYTES)
                } else {
                    (large, LONG_BODY_BYTES)
                };
                return trickle(stream, host, length).await;
            }
            Kind::Promises => return promise(stream, brief).await,
            Kind::Unread => {
                stream
                    .write_all(format!("GET / HTTP/1.1\r\nhost: {large}\r\n\r\n").as_bytes())
                    .await?;
                return read_slowly(stream, if i.is_multiple_of(2) { 0 } else { 1024 }).await;
            }
        }
        await_end(&mut stream).await
    }
}

async fn await_end(stream: &mut TcpStream) -> anyhow::Result<()> {
    let mut space = [0; 256];
    while stream.read(&mut space).await? > 0 {}
    Ok(())
}

async fn trickle(mut stream: TcpStream, host: &str, length: usize) -> anyhow::Result<()> {
    let head = format!("POST / HTTP/1.1\r\nhost: {host}\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    let (mut read, mut write) = stream.split();
    let trickles = async {
        for _ in 0..length {
            tokio::time::sleep(TRICKLE).await;
            write.write_all(b"x").await?;
        }
        anyhow::Ok(())
    };
    let mut space = [0; 256];
    tokio::select! {
        trickled = trickles => trickled,
        // The connection is no longer used after a response, or after it has ended.
        ended = read.read(&mut space) => Ok(ended.map(drop)?),
    }
}

async fn promise(stream: TcpStream, host: &str) -> anyhow::Result<()> {
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
    let send = async || {
        let nothing = StreamBody::new(stream::pending::<Result<Frame<Bytes>, Infallible>>());
        let request = Request::post(format!("http://{host}/"))
            .header("content-length", SHORT_BODY_BYTES)
            .body(nothing)?;
        anyhow::Ok(sender.clone().send_request(request).await?)
    };
    let requests = join_all((0..REQUESTS_WITHOUT_BODY).map(|_| async {
        // A request that is answered is sent again.
        while send().await.is_ok() {
            tokio::time::sleep(RECONNECT_PAUSE).await;
        }
    }));
    tokio::select! {
        ended = connection => Ok(ended?),
        _ = requests => Ok(()),
    }
}

/// Reads slowly until the connection ends.
///
/// # Arguments
/// * `piece` - the number of bytes to read per second; with 0, nothing is read.
async fn read_slowly(mut stream: TcpStream, piece: usize) -> anyhow::Result<()> {
    let mut space = vec![0; piece];
    loop {
        tokio::time::sleep(TRICKLE).await;
        if let Some(error) = stream.take_error()? {
            return Err(error.into());
        }
        if piece > 0 && stream.read(&mut space).await? == 0 {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_connections_can_be_parsed() {
        assert_eq!(Connections::parse("held 12 lost 3"), Some(Connections { held: 12, lost: 3 }));
        assert_eq!(Connections::parse("thread panicked"), None);
    }
}
