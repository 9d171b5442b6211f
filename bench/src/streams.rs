//! Sends streams through a request, a Worker and its response, and measures the memory of the node
//! during that time.
//!
//! ```text
//!  writer ──► router ──► node: Worker ──► router ──► reader
//!             └──── HTTP/1.1, gRPC with flow control ────┘
//! ```
//!
//! Only flow control holds a writer back. The promise is that the memory of the node depends
//! neither on the length of a stream nor on which side is slow. The kernel measures the peak of the
//! node's memory, which is reset before each case.

use std::cell::Cell;
use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::try_join_all;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use tenon_proto::revision::Limits;
use tokio::net::TcpStream;
use tokio::task::{LocalSet, spawn_local};

use crate::objective::Objective;
use crate::peers::Peers;
use crate::table::Table;
use crate::tenon::{NODE, ROUTER, Testbed};
use crate::unit::{human, mib};

/// Maximum memory of the node above its idle memory, in bytes.
const ABOVE_IDLE: u64 = 32 << 20;

/// Size of one write, in bytes.
const PIECE: usize = 64 << 10;

/// The source of a Worker that passes the request's body to the response. No JavaScript reads the
/// body.
pub(crate) const PASSES: &str =
    "export default { fetch: (request) => new Response(request.body) };";

/// The source of a Worker that passes each piece of the body through JavaScript.
const TRANSFORMS: &str = "export default { fetch: (request) => new Response(request.body?.pipeThrough(new TransformStream())) };";

/// The size and the number of streams.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Length of a stream that flows as fast as it can, in bytes.
    pub bytes: u64,
    /// Number of concurrent streams in the cases with many streams.
    pub at_once: usize,
}

/// The measurements of all cases.
#[derive(Debug)]
pub struct Record(Vec<Row>);

#[derive(Debug)]
struct Row {
    what: &'static str,
    bytes: u64,
    took: Duration,
    cpu: Duration,
    /// Peak of the node's memory above its idle memory, in bytes.
    above_idle: u64,
    /// Whether the objective, [`ABOVE_IDLE`], applies to this case.
    is_promised: bool,
}

/// The length and the speed of one stream.
#[derive(Clone, Copy)]
pub(crate) struct Flow {
    pub(crate) bytes: u64,
    /// The writer's pause before each piece.
    pub(crate) writer_waits: Duration,
    /// The reader's pause after each piece, or a proportional part of it after fewer bytes.
    pub(crate) reader_waits: Duration,
}

/// Measures each case.
///
/// # Arguments
/// * `programs` - the directory of Tenon's programs.
///
/// # Errors
/// Fails if a program does not start, or if a stream does not come back complete.
pub fn run(peers: &Peers, programs: &Path, scale: Scale) -> anyhow::Result<Record> {
    let testbed = Testbed::open(1)?;
    let limits = Limits {
        cpu_ms: 60_000,
        wall_ms: 600_000,
        request_body_mib: 4096,
        concurrency: 2_000,
        ..Limits::default()
    };
    let passes = testbed.deploy_with_limits("passes", PASSES, limits);
    let transforms = testbed.deploy_with_limits("transforms", TRANSFORMS, limits);
    let placement = peers.placement;
    let (mut node, router) =
        (placement.contender(&programs.join(NODE)), placement.load(&programs.join(ROUTER)));
    // One tenant may not use all permits, so the node has twice as many as there are concurrent
    // streams.
    node.args(["--max-inflight", &(2 * scale.at_once).to_string()]);
    let mut tenon = testbed.start(&peers.scratch.join("streams"), node, router)?;
    for host in [&passes, &transforms] {
        tenon.await_up(host)?;
    }

    let fast =
        Flow { bytes: scale.bytes, writer_waits: Duration::ZERO, reader_waits: Duration::ZERO };
    let pause = Duration::from_millis(4);
    let slow = Flow { bytes: 32 << 20, ..fast };
    let slow_reader = Flow { reader_waits: pause, ..slow };
    let slow_writer = Flow { writer_waits: pause, ..slow };
    let one_of_many = Flow { bytes: 1 << 20, ..fast };
    let cases = [
        ("passed on", &passes, fast, 1, true),
        ("through a TransformStream", &transforms, fast, 1, true),
        ("passed on to a slow reader", &passes, slow_reader, 1, true),
        ("passed on from a slow writer", &passes, slow_writer, 1, true),
        ("through a TransformStream to a slow reader", &transforms, slow_reader, 1, true),
        ("many at once, passed on", &passes, one_of_many, scale.at_once, false),
        ("many at once, through a TransformStream", &transforms, one_of_many, scale.at_once, false),
    ];
    let mut rows = Vec::new();
    for (what, host, flow, at_once, is_promised) in cases {
        eprintln!("streams: {what}");
        tenon.node.reset_peak()?;
        // Idle memory is counted in the same way as the peak, with shared pages in each process.
        let idle = tenon.node.peak()?;
        let (cpu, began) = (tenon.node.cpu()?, Instant::now());
        let addr = tenon.addr;
        placement.loading(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let all = try_join_all((0..at_once).map(|_| echo(addr, host, flow)));
            LocalSet::new().block_on(&runtime, all).map(drop)
        })?;
        tenon.ensure_running()?;
        rows.push(Row {
            what,
            bytes: flow.bytes * at_once as u64,
            took: began.elapsed(),
            cpu: tenon.node.cpu()?.saturating_sub(cpu),
            above_idle: tenon.node.peak()?.saturating_sub(idle),
            is_promised,
        });
    }
    Ok(Record(rows))
}

/// Sends a stream, and reads the response, which must be as long as the stream.
pub(crate) async fn echo(addr: SocketAddr, host: &str, flow: Flow) -> anyhow::Result<()> {
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(TcpStream::connect(addr).await?))
            .await?;
    spawn_local(connection);
    let sent = Rc::new(Cell::new(0));
    let counter = Rc::clone(&sent);
    let piece = Bytes::from(vec![b'x'; PIECE]);
    let pieces = futures::stream::iter(0..flow.bytes / PIECE as u64).then(move |_| {
        let (piece, counter) = (piece.clone(), Rc::clone(&counter));
        async move {
            pause(flow.writer_waits).await;
            counter.set(counter.get() + PIECE as u64);
            Ok::<_, std::io::Error>(Frame::data(piece))
        }
    });
    let request = Request::builder().method(Method::POST).uri("/").header("host", host);
    let response = sender.send_request(request.body(StreamBody::new(Box::pin(pieces)))?).await?;
    ensure!(response.status() == 200, "{host} answered {}", response.status());
    let mut body = response.into_body();
    let mut read = 0;
    while let Some(frame) = body.frame().await {
        let data = frame.context("the response is incomplete")?.into_data().unwrap_or_default();
        // A slow reader reads as many bytes per second as a slow writer writes.
        pause(flow.reader_waits.mul_f64(data.len() as f64 / PIECE as f64)).await;
        read += data.len() as u64;
    }
    ensure!(read == flow.bytes, "read {read} of {} bytes; {} were sent", flow.bytes, sent.get());
    Ok(())
}

async fn pause(duration: Duration) {
    if !duration.is_zero() {
        tokio::time::sleep(duration).await;
    }
}

/// Returns the objective of this part.
pub fn objective(record: Option<&Record>) -> Objective {
    let promised = |record: &Record| {
        record.0.iter().filter(|row| row.is_promised).map(|row| row.above_idle).max()
    };
    Objective::bytes(
        "memory of a node above idle while a stream flows",
        record.and_then(promised),
        Some(ABOVE_IDLE),
    )
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Streams through a request, a Worker and its response, on one shard\n")?;
        let mut table = Table::new([
            "stream",
            "bytes",
            "took",
            "per second",
            "node CPU per MiB",
            "memory above idle",
        ]);
        for Row { what, bytes, took, cpu, above_idle, .. } in &self.0 {
            table.row([
                (*what).to_owned(),
                mib(*bytes),
                human(*took),
                mib((*bytes as f64 / took.as_secs_f64()) as u64),
                human(cpu.div_f64(*bytes as f64 / f64::from(1 << 20))),
                mib(*above_idle),
            ]);
        }
        writeln!(f, "{table}")
    }
}
