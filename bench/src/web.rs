//! Measures what the Web API costs a node that does the typical work of Workers, beside deno under
//! the same load.
//!
//! Only the CPU time of Tenon's node is compared. The node speaks gRPC where deno speaks plain
//! HTTP/1.1.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use tenon_proto::revision::Limits;

use crate::contest::{self, Contender, Record as Contest, Schedule};
use crate::load::{Load, RequestSpec};
use crate::objective::Objective;
use crate::peers::Peers;
use crate::table::Table;
use crate::tenon::{NODE, ROUTER, Testbed};
use crate::unit::micros;

/// File name of the Worker's source.
const SOURCE: &str = "web.js";
/// Name of the Worker.
const NAME: &str = "hello";

/// Number of concurrent requests in the long cases.
const FEW: u32 = 4;

struct Case {
    what: &'static str,
    request: RequestSpec,
    /// Whether a request takes a millisecond or more, so that more connections would only queue.
    is_long: bool,
    /// Maximum CPU time of the node, as a multiple of that of deno.
    max_ratio: f64,
}

const fn short(what: &'static str, request: RequestSpec) -> Case {
    Case { what, request, is_long: false, max_ratio: 0.8 }
}

const fn long(what: &'static str, path: &'static str, max_ratio: f64) -> Case {
    Case { what, request: RequestSpec::path(path), is_long: true, max_ratio }
}

/// Maximum ratio for requests that only compute, which have to be at least 97 % as fast as in deno.
const AS_FAST: f64 = 1.0 / 0.97;

const CASES: [Case; 9] = [
    short("Response.json of 1 KB", RequestSpec::path("/json")),
    // With the `host` header, a request has 100 headers. That is the maximum of HTTP/1.1 servers
    // that use hyper, as both contenders do.
    short("echo of 100 headers", RequestSpec { headers: 99, ..RequestSpec::path("/headers") }),
    short("echo of 16 KB of JSON", RequestSpec { json: 16 << 10, ..RequestSpec::path("/echo") }),
    long("digest of 1 MiB, 8 times", "/digest", 1.0),
    long("gzip of 1 MiB, 8 times", "/gzip", 0.9),
    long("pipe of 10,000 chunks", "/pipe", 0.5),
    long("a ray tracer", "/rays", AS_FAST),
    long("an interpreter", "/interpreter", AS_FAST),
    long("shortest paths", "/shortest-paths", AS_FAST),
];

/// The measurements of all cases.
#[derive(Debug)]
pub struct Record(Vec<Row>);

#[derive(Debug)]
struct Row {
    tenon: Contest,
    deno: Contest,
}

/// Measures each case on both contenders.
///
/// # Arguments
/// * `programs` - the directory of Tenon's programs.
///
/// # Errors
/// Fails if a contender does not start or exits, or if a request fails.
pub fn run(
    peers: &Peers,
    programs: &Path,
    load: &Load,
    schedule: Schedule,
) -> anyhow::Result<Record> {
    let testbed = Testbed::open(1)?;
    testbed.deploy_with_limits(
        NAME,
        peers.source(SOURCE)?,
        Limits { cpu_ms: 1_000, ..Limits::default() },
    );
    let program = |name| peers.placement.contender(&programs.join(name));
    let tenon = testbed.start(&peers.scratch.join("web-tenon"), program(NODE), program(ROUTER))?;
    let mut contenders = [Contender::from(tenon), peers.deno_serving("web-deno", SOURCE)?];
    let mut rows = Vec::new();
    for Case { what, request, is_long, .. } in CASES {
        eprintln!("web: {what}");
        let connections = if is_long { FEW } else { load.connections };
        let load = Load { request, connections, ..load.clone() };
        let records = contest::run(&mut contenders, &load, schedule).context(what)?;
        let [tenon, deno] =
            <[_; 2]>::try_from(records).ok().context("a contender has no record")?;
        rows.push(Row { tenon, deno });
    }
    Ok(Record(rows))
}

impl Row {
    fn cpu(&self) -> [Duration; 2] {
        [self.tenon.cpu_of("node"), self.deno.cpu()]
    }
}

/// Returns the objectives of this part.
pub fn objectives(record: Option<&Record>) -> impl Iterator<Item = Objective> {
    CASES.iter().enumerate().map(move |(i, case)| {
        let measured = record.map(|record| record.0[i].cpu());
        let what = format!("{}: CPU time of the node, {:.2} × deno's", case.what, case.max_ratio);
        Objective::time(
            what,
            measured.map(|[node, _]| node),
            measured.map(|[_, deno]| deno.mul_f64(case.max_ratio)),
        )
    })
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Typical work of Workers, compared with deno\n")?;
        let mut table = Table::new([
            "",
            "node CPU µs",
            "deno CPU µs",
            "",
            "Tenon requests/s",
            "deno requests/s",
        ]);
        for (case, row) in CASES.iter().zip(&self.0) {
            let [node, deno] = row.cpu();
            table.row([
                case.what.to_owned(),
                micros(node),
                micros(deno),
                format!("× {:.2}", node.as_secs_f64() / deno.as_secs_f64()),
                format!("{:.0}", row.tenon.requests_per_second()),
                format!("{:.0}", row.deno.requests_per_second()),
            ]);
        }
        writeln!(f, "{table}")
    }
}
