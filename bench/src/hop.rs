//! Measures the hop between router and node, beside nginx with deno: with and without mutual TLS on
//! the hop, with long heads, with large bodies, and with few and many connections.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;

use crate::authority::Authority;
use crate::contest::{self, Contender, Record as Measured, Schedule};
use crate::load::{Load, RequestSpec};
use crate::objective::Objective;
use crate::peers::Peers;
use crate::table::Table;
use crate::tenon::{NODE, ROUTER, Testbed};
use crate::unit::{human, micros};

/// File name of the Worker's source.
const SOURCE: &str = "web.js";
/// Name of the Worker.
const NAME: &str = "hello";

/// Maximum CPU time of a request with mutual TLS, as a multiple of the CPU time without TLS.
const MAX_TLS_RATIO: f64 = 1.15;
/// Maximum CPU time of a request, as a multiple of that of nginx with deno.
const MAX_PEER_RATIO: f64 = 0.8;

/// The duration of the load while system calls are counted.
const TRACED: Duration = Duration::from_secs(1);

struct Case {
    what: &'static str,
    request: RequestSpec,
    connections: u32,
    bound: Bound,
}

#[derive(PartialEq)]
enum Bound {
    /// The CPU time of a request is bounded.
    Cpu,
    /// The median latency is bounded, because one connection cannot saturate a CPU.
    P50,
}

const HELLO: RequestSpec = RequestSpec::path("/");

const CASES: [Case; 6] = [
    Case { what: "hello, 1 connection", request: HELLO, connections: 1, bound: Bound::P50 },
    Case { what: "hello, 10 connections", request: HELLO, connections: 10, bound: Bound::Cpu },
    Case { what: "hello, 64 connections", request: HELLO, connections: 64, bound: Bound::Cpu },
    Case { what: "hello, 256 connections", request: HELLO, connections: 256, bound: Bound::Cpu },
    Case {
        what: "1 KiB of headers",
        request: RequestSpec { headers: 30, ..HELLO },
        connections: 64,
        bound: Bound::Cpu,
    },
    Case {
        what: "64 KiB of body",
        request: RequestSpec { json: 64 << 10, ..RequestSpec::path("/length") },
        connections: 64,
        bound: Bound::Cpu,
    },
];

/// The measurements of all cases.
#[derive(Debug)]
pub struct Record(Vec<Row>);

#[derive(Debug)]
struct Row {
    plain: Measured,
    tls: Measured,
    peer: Measured,
    /// The number of system calls per request of Tenon without TLS and of the peer, or `None` if
    /// the processes cannot be traced.
    syscalls: Option<[f64; 2]>,
}

/// Measures each case on all contenders.
///
/// # Arguments
/// * `programs` - the directory of Tenon's programs.
///
/// # Errors
/// Fails if a contender does not start or ends early, or if a request fails.
pub fn run(
    peers: &Peers,
    programs: &Path,
    load: &Load,
    schedule: Schedule,
) -> anyhow::Result<Record> {
    let program = |name| peers.placement.contender(&programs.join(name));
    let scratch = |name: &str| peers.scratch.join(name);
    let plain = Testbed::open(1)?;
    plain.deploy(NAME, peers.source(SOURCE)?);
    let tenon = plain.start(&scratch("hop"), program(NODE), program(ROUTER))?;
    let authority = Authority::new(&scratch("certificates"))?;
    let secure = Testbed::open_with(1, Some(&authority))?;
    secure.deploy(NAME, peers.source(SOURCE)?);
    let with_tls = secure.start(&scratch("hop-tls"), program(NODE), program(ROUTER))?;
    let mut contenders = [
        Contender::from(tenon),
        Contender { name: "Tenon with mTLS".to_owned(), ..Contender::from(with_tls) },
        peers.nginx_and_deno_serving("hop-peer", SOURCE)?,
    ];
    let mut rows = Vec::new();
    for &Case { what, request, connections, .. } in &CASES {
        eprintln!("hop: {what}");
        let load = Load { request, connections, ..load.clone() };
        let records = contest::run(&mut contenders, &load, schedule).context(what)?;
        let [plain, tls, peer] =
            <[_; 3]>::try_from(records).ok().context("a contender has no record")?;
        let [tenon, _, other] = &contenders;
        let count =
            |contender: &Contender| contender.syscalls(&load, TRACED, &peers.scratch).context(what);
        let syscalls = count(tenon).and_then(|own| Ok([own, count(other)?]));
        let syscalls =
            syscalls.inspect_err(|error| eprintln!("cannot count system calls: {error:#}")).ok();
        rows.push(Row { plain, tls, peer, syscalls });
    }
    Ok(Record(rows))
}

/// Returns the objectives of this part.
pub fn objectives(record: Option<&Record>) -> impl Iterator<Item = Objective> {
    CASES.iter().enumerate().flat_map(move |(at, case)| {
        let row = record.map(|record| &record.0[at]);
        let time = |of: fn(&Row) -> Duration| row.map(of);
        if case.bound == Bound::P50 {
            let what = format!("{}: p50, compared with nginx + deno", case.what);
            return vec![Objective::time(
                what,
                time(|row| row.plain.p50()),
                time(|row| row.peer.p50()),
            )];
        }
        let (plain, peer) = (time(|row| row.plain.cpu()), time(|row| row.peer.cpu()));
        let bound = |by: f64| move |cpu: Duration| cpu.mul_f64(by);
        vec![
            Objective::time(
                format!("{}: CPU time, compared with {MAX_PEER_RATIO} × nginx + deno", case.what),
                plain,
                peer.map(bound(MAX_PEER_RATIO)),
            ),
            Objective::time(
                format!(
                    "{}: CPU time with mTLS, compared with {MAX_TLS_RATIO} × without",
                    case.what
                ),
                time(|row| row.tls.cpu()),
                plain.map(bound(MAX_TLS_RATIO)),
            ),
        ]
    })
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "The hop: CPU µs and system calls per request, and p50\n")?;
        let mut table = Table::new([
            "",
            "Tenon",
            "p50",
            "syscalls",
            "with mTLS",
            "",
            "nginx + deno",
            "p50",
            "syscalls",
            "",
        ]);
        for (case, Row { plain, tls, peer, syscalls }) in CASES.iter().zip(&self.0) {
            let ratio = |of: &Measured, to: &Measured| {
                format!("× {:.2}", of.cpu().as_secs_f64() / to.cpu().as_secs_f64())
            };
            let calls = |at: usize| {
                syscalls.map_or_else(|| "–".to_owned(), |counts| format!("{:.2}", counts[at]))
            };
            table.row([
                case.what.to_owned(),
                micros(plain.cpu()),
                human(plain.p50()),
                calls(0),
                micros(tls.cpu()),
                ratio(tls, plain),
                micros(peer.cpu()),
                human(peer.p50()),
                calls(1),
                ratio(plain, peer),
            ]);
        }
        writeln!(f, "{table}")
    }
}
