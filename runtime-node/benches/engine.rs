//! Measures the cost of an invocation and of a start in the engine, on one shard and without a
//! network.
//!
//! ```text
//!  warm       enter the isolate, make the Request, run the handler, take the Response apart, leave
//!  cold start a Worker's source ──► a new isolate from the snapshot, or a spare ──► first response
//!  CPU        CPU time of all threads of this process, per operation of an otherwise idle loop
//! ```
//!
//! p50 and p99 come from a loop that reads the clock before and after each operation. The CPU time
//! of a warm invocation comes from a separate loop without clock readings; the reciprocal of this
//! time is the rate that one core sustains. The CPU time of a cold start comes from the timed loop
//! and includes the end of the previous isolate, which is not part of the latency.
//!
//! An argument selects the rows whose label contains it. `--json` prints each row as a JSON object
//! on a line of its own, for `tenon-bench`, which compares the rows with the required values.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tenon_engine::{Body, Bytecode, CallContext, Engine, FetchRequest, Isolate, Watchdog};
use tenon_proto::id::{RevisionDigest, ShardId, WorkerId};
use tenon_proto::revision::Revision;
use tenon_proto::runtime::Header;
use tenon_web::Web;
use tokio::task::LocalSet;

/// Number of requests before a measurement of warm invocations.
const WARM_UP: usize = 20_000;
/// Number of requests in each of the two loops of such a measurement.
const WARM: usize = 200_000;
/// Number of cold starts in a measurement.
const COLD: usize = 400;
/// Number of isolates that are invoked in turn, or whose memory is measured together.
const MANY: usize = 200;
/// Number of requests after which the memory of an isolate is measured again.
const LATER: usize = 10_000;
/// Time after which V8 has returned freed pages to the system.
const RELEASE_TIME: Duration = Duration::from_secs(10);
/// Number of requests after which the event loop runs other tasks, such as V8's.
const BATCH: usize = 64;

/// The Worker that the peers in the load scenarios also run.
const HELLO: &str = include_str!("../../bench/peers/hello.js");

/// A Worker with typical work, which the peers in the load scenarios also run.
const WEB: &str = include_str!("../../bench/peers/web.js");

/// The smallest useful Worker.
const EMPTY: &str = "const well = 'well'; export default { fetch: () => new Response(well) }";

fn main() {
    // V8 must be initialized before any thread exists.
    tenon_engine::init();
    let watchdog = Watchdog::spawn();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("cannot create a runtime");
    LocalSet::new().block_on(&runtime, async {
        // As in the test harness, an argument selects rows by label.
        let (options, labels): (Vec<_>, Vec<_>) =
            std::env::args().skip(1).partition(|given| given.starts_with('-'));
        let bench = Bench {
            engine: Rc::new(Engine::new(&watchdog, ShardId(0), Rc::new(Web::default()))),
            wanted: labels.into_iter().next().unwrap_or_default(),
            json: options.iter().any(|option| option == "--json"),
        };
        if !bench.json {
            println!("{:<34}  {:>9}  {:>9}  {:>12}", "", "p50", "p99", "CPU");
        }
        // Memory is measured first, before other rows leave resident memory behind.
        bench.memory().await;
        bench.warm("warm, hello", HELLO, 1, browser).await;
        bench.warm("warm, empty handler", EMPTY, 1, browser).await;
        bench.warm(&format!("warm, hello, {MANY} isolates in turn"), HELLO, MANY, browser).await;
        bench.warm("warm, Response.json of 1 KB", WEB, 1, || to("/json")).await;
        bench.warm("warm, echo of 100 headers", WEB, 1, many_headers).await;
        let json = Bytes::from(json(16 << 10));
        bench.warm("warm, echo of 16 KB of JSON", WEB, 1, || post("/echo", &json)).await;
        let (spare, bytecode, nothing) = (Ahead::Spare, Ahead::Bytecode, Ahead::Nothing);
        let early = Ahead::EarlyBytecode;
        bench.cold("cold start, 1 KB, spare ready", &padded(1 << 10), &[spare]).await;
        bench.cold("cold start, 1 KB", &padded(1 << 10), &[nothing]).await;
        bench.cold("cold start, 100 KB", &padded(100 << 10), &[nothing]).await;
        bench.cold("cold start, 100 KB, bytecode", &padded(100 << 10), &[bytecode]).await;
        bench.cold("cold start, 1 MiB", &padded(1 << 20), &[nothing]).await;
        bench.cold("cold start, 1 MiB, bytecode", &padded(1 << 20), &[bytecode]).await;
        bench
            .cold("cold start, 1 MiB, bytecode, spare", &padded(1 << 20), &[bytecode, spare])
            .await;
        let dash = format!("{}// —\n", padded(1 << 20));
        bench.cold("the same, a dash in a comment", &dash, &[bytecode, spare]).await;
        bench.cold("cold start, 100 KB in use", &in_use(100 << 10), &[bytecode, spare]).await;
        bench.cold("the same, bytecode of the start", &in_use(100 << 10), &[early, spare]).await;
    });
}

/// Work done ahead of a cold start.
#[derive(Clone, Copy, PartialEq)]
enum Ahead {
    Nothing,
    Spare,
    /// Bytecode that is made after a request.
    Bytecode,
    /// Bytecode that is made before the first request.
    EarlyBytecode,
}

struct Bench {
    engine: Rc<Engine>,
    /// Text that a row's label must contain.
    wanted: String,
    /// Whether rows are printed as JSON instead of a table.
    json: bool,
}

/// The result of one row.
enum Row {
    Times { p50: Duration, p99: Duration, cpu: Duration },
    Memory { bytes: usize },
}

impl Bench {
    fn skips(&self, label: &str) -> bool {
        !label.contains(&self.wanted)
    }

    /// Measures requests to one isolate, or to several in turn.
    async fn warm(
        &self,
        label: &str,
        source: &str,
        isolates: usize,
        request: impl Fn() -> FetchRequest,
    ) {
        if self.skips(label) {
            return;
        }
        let mut all = Vec::with_capacity(isolates);
        for _ in 0..isolates {
            all.push(self.start(source).await);
        }
        for i in 0..WARM_UP {
            let_tasks_run(i).await;
            fetch(&all[i % isolates], request()).await;
        }
        let mut taken = Vec::with_capacity(WARM);
        for i in 0..WARM {
            let_tasks_run(i).await;
            let request = request();
            let began = Instant::now();
            fetch(&all[i % isolates], request).await;
            taken.push(began.elapsed());
        }
        let cpu = cpu_time();
        for i in 0..WARM {
            let_tasks_run(i).await;
            fetch(&all[i % isolates], request()).await;
        }
        self.report(label, Row::times(taken, (cpu_time() - cpu) / WARM as u32));
    }

    async fn cold(&self, label: &str, source: &str, ahead: &[Ahead]) {
        if self.skips(label) {
            return;
        }
        // A node always has isolates. Without another isolate, V8 would drop the data that isolates
        // share whenever an isolate ends.
        let _neighbor = self.start(EMPTY).await;
        let worker = Worker::new(source);
        let used = self.load(&worker, None).await;
        let early = used.bytecode().filter(|_| ahead.contains(&Ahead::EarlyBytecode));
        fetch(&used, browser()).await;
        let bytecode = used.bytecode().filter(|_| ahead.contains(&Ahead::Bytecode));
        let bytecode = early.or(bytecode).map(Arc::new);
        let mut taken = Vec::with_capacity(COLD);
        let cpu = cpu_time();
        for _ in 0..COLD {
            if ahead.contains(&Ahead::Spare) {
                self.engine.make_spare();
            }
            let began = Instant::now();
            let isolate = self.load(&worker, bytecode.clone()).await;
            fetch(&isolate, browser()).await;
            taken.push(began.elapsed());
        }
        self.report(label, Row::times(taken, (cpu_time() - cpu) / COLD as u32));
    }

    async fn memory(&self) {
        let label = format!("memory of each of {MANY}");
        if self.skips(&label) {
            return;
        }
        let before = resident();
        let mut all = Vec::with_capacity(MANY);
        for _ in 0..MANY {
            let isolate = self.start(HELLO).await;
            fetch(&isolate, browser()).await;
            all.push(isolate);
        }
        self.report(&label, Row::Memory { bytes: resident().saturating_sub(before) / MANY });
        for isolate in &all {
            for i in 0..LATER {
                let_tasks_run(i).await;
                fetch(isolate, browser()).await;
            }
        }
        // V8 keeps freed pages for reuse, and returns them to the system a few seconds later.
        tokio::time::sleep(RELEASE_TIME).await;
        let label = format!("the same after {LATER} requests each");
        self.report(&label, Row::Memory { bytes: resident().saturating_sub(before) / MANY });
    }

    fn report(&self, label: &str, row: Row) {
        match (self.json, row) {
            (true, row) => println!("{}", row.json(label)),
            (false, Row::Times { p50, p99, cpu }) => {
                println!("{label:<34}  {:>9}  {:>9}  {:>9} each", show(p50), show(p99), show(cpu));
            }
            (false, Row::Memory { bytes }) => {
                println!("{label:<34}  {:>6.2} MiB", bytes as f64 / f64::from(1 << 20));
            }
        }
    }

    async fn start(&self, source: &str) -> Rc<Isolate> {
        self.load(&Worker::new(source), None).await
    }

    async fn load(&self, worker: &Worker, bytecode: Option<Arc<Bytecode>>) -> Rc<Isolate> {
        let revision = Rc::clone(&worker.revision);
        Isolate::start(&self.engine, worker.digest, revision, bytecode)
            .await
            .expect("the Worker does not start")
    }
}

/// A revision and its digest.
struct Worker {
    digest: RevisionDigest,
    revision: Rc<Revision>,
}

impl Worker {
    fn new(source: &str) -> Self {
        let revision =
            Rc::new(Revision::from_source(WorkerId::new("bench", "hello"), source.to_owned()));
        Self { digest: revision.digest(), revision }
    }
}

/// Sends a request to the isolate, and checks the response's status.
async fn fetch(isolate: &Rc<Isolate>, request: FetchRequest) {
    let response = isolate.fetch(request).await.expect("the Worker does not answer");
    assert_eq!(response.status, 200);
}

/// Returns a simple GET request.
fn browser() -> FetchRequest {
    to("/path")
}

fn to(path: &str) -> FetchRequest {
    FetchRequest {
        request_id: "0123456789abcdef".to_owned(),
        method: "GET".to_owned(),
        url: format!("http://hello.default.tenon.localhost:8080{path}"),
        headers: vec![
            header("host", Bytes::from_static(b"hello.default.tenon.localhost:8080")),
            header("accept", Bytes::from_static(b"*/*")),
        ],
        body: Body::Full(Bytes::new()),
        entry: None,
        call_context: CallContext::default(),
    }
}

/// Returns a request with 100 headers, which the Worker sends back.
fn many_headers() -> FetchRequest {
    let mut request = to("/headers");
    request.headers.extend(
        (0..98).map(|i| {
            header(&format!("x-echo-{i}"), Bytes::from_static(b"a header of some length"))
        }),
    );
    request
}

fn post(path: &str, body: &Bytes) -> FetchRequest {
    FetchRequest { method: "POST".to_owned(), body: Body::Full(body.clone()), ..to(path) }
}

fn header(name: &str, value: Bytes) -> Header {
    Header { name: name.to_owned(), value }
}

/// Returns a JSON array of records, with at most `len` bytes.
fn json(len: usize) -> String {
    let record = |id| {
        let customer = format!("Customer {id}");
        serde_json::json!({"id": id, "customer": customer, "total": 99.5, "paid": true})
    };
    let mut records = Vec::new();
    let mut size = 2;
    for id in 4711.. {
        let record = record(id);
        size += record.to_string().len() + 1;
        if size > len {
            break;
        }
        records.push(record);
    }
    serde_json::Value::from(records).to_string()
}

/// Returns the hello Worker padded to at least `len` bytes with code like that of a bundle:
/// functions of a few lines each, none of which is called.
fn padded(len: usize) -> String {
    bundle(HELLO, len).0
}

/// Returns a Worker like that of [`padded`], whose handler calls all functions.
fn in_use(len: usize) -> String {
    let handler = "export default { fetch() { all(); return new Response('well') } }\n";
    let (source, functions) = bundle(handler, len);
    let calls = (0..functions).map(|n| format!("reduce{n}([{{ key: 1 }}]);"));
    format!("{source}function all() {{ {} }}", calls.collect::<String>())
}

/// Appends functions to a Worker, and returns its source and the number of these functions.
fn bundle(worker: &str, len: usize) -> (String, usize) {
    let mut source = worker.to_owned();
    let mut n = 0;
    while source.len() < len {
        source.push_str(&format!(
            "function reduce{n}(items, options = {{}}) {{
  const {open} seen, total {close} = {{ seen: new Map(), total: {n} }};
  for (const [index, item] of items.entries()) {{
    if (item === undefined || seen.has(item.key)) continue;
    seen.set(item.key, index);
    options.onItem?.(item.value ?? `item ${{index}} of {n}`);
  }}
  return {{ total: total + seen.size, keys: [...seen.keys()].sort() }};
}}
",
            open = '{',
            close = '}',
        ));
        n += 1;
    }
    (source, n)
}

impl Row {
    fn times(mut taken: Vec<Duration>, cpu: Duration) -> Self {
        taken.sort_unstable();
        let at = |part: f64| taken[((taken.len() as f64 * part) as usize).min(taken.len() - 1)];
        Self::Times { p50: at(0.50), p99: at(0.99), cpu }
    }

    /// Formats the row as JSON, with durations in nanoseconds.
    fn json(&self, label: &str) -> serde_json::Value {
        match self {
            Self::Times { p50, p99, cpu } => {
                let [p50, p99, cpu] = [p50, p99, cpu].map(|time| time.as_nanos() as u64);
                serde_json::json!({"label": label, "p50": p50, "p99": p99, "cpu": cpu})
            }
            Self::Memory { bytes } => serde_json::json!({"label": label, "bytes": bytes}),
        }
    }
}

fn show(duration: Duration) -> String {
    let micros = duration.as_secs_f64() * 1e6;
    if micros < 1_000.0 { format!("{micros:.2} µs") } else { format!("{:.2} ms", micros / 1e3) }
}

/// Returns the CPU time of this process so far, including V8's compiler and collector threads.
fn cpu_time() -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").expect("cannot list this process's threads");
    let each = threads.map(|thread| {
        let schedstat =
            thread.expect("cannot list this process's threads").path().join("schedstat");
        // A thread may have ended since it was listed.
        let stat = std::fs::read_to_string(schedstat).unwrap_or_default();
        let nanoseconds = stat.split_whitespace().next().and_then(|first| first.parse().ok());
        Duration::from_nanos(nanoseconds.unwrap_or_default())
    });
    each.sum()
}

/// Lets other tasks run after each batch of requests, as the tasks of a node's connections do.
async fn let_tasks_run(request: usize) {
    if request.is_multiple_of(BATCH) {
        tokio::task::yield_now().await;
    }
}

/// Returns the resident memory of this process, in bytes.
fn resident() -> usize {
    let status =
        std::fs::read_to_string("/proc/self/status").expect("cannot read /proc/self/status");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .expect("/proc/self/status has no VmRSS");
    let kib: usize = line.trim().trim_end_matches(" kB").parse().expect("VmRSS is not in kB");
    kib << 10
}
