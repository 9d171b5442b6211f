//! Measures the cost that a WebAssembly module adds to a start, on one shard and without a network.
//!
//! ```text
//!  first     the module is inspected, and V8 validates it
//!  again     another isolate of the shard has already loaded the module
//!  called    the start also calls functions, which are compiled in the first start and then reused
//! ```
//!
//! The generated modules have functions like those that compilers emit, with locals, loads, stores,
//! loops and calls. An argument that ends in `.wasm` names a file to measure instead; its functions
//! are not called.

use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tenon_engine::{Engine, Isolate, Watchdog};
use tenon_proto::id::{RevisionDigest, ShardId, WorkerId};
use tenon_proto::revision::Revision;
use tenon_web::Web;
use tokio::task::LocalSet;

/// Number of further starts after the first.
const TIMES: usize = 40;

/// Number of exported functions, which the start of `CALL` calls.
const CALLED: usize = 200;

const IMPORT: &str =
    "import module from './module.wasm'; export const size = WebAssembly.Module.exports(module).length;
    export default { fetch() {} }";

const CALL: &str =
    "import module from './module.wasm'; const { exports } = new WebAssembly.Instance(module);
    for (const name in exports) exports[name](3); export default { fetch() {} }";

fn main() {
    // V8 must be initialized before any thread exists.
    tenon_engine::init();
    let watchdog = Watchdog::spawn();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("cannot create a runtime");
    let files: Vec<_> =
        std::env::args().skip(1).filter(|argument| argument.ends_with(".wasm")).collect();
    println!("{:<44} {:>10} {:>10} {:>10}", "", "bytes", "first", "again p50");
    LocalSet::new().block_on(&runtime, async {
        let bench = Bench(watchdog);
        bench.starts("a Worker without a module", None, "export default { fetch() {} }").await;
        for file in &files {
            let module = Bytes::from(std::fs::read(file).expect("cannot read the file"));
            bench.starts(file.rsplit('/').next().unwrap_or(file), Some(module), IMPORT).await;
        }
        for mib in if files.is_empty() { &[1, 4, 15][..] } else { &[] } {
            let module = Bytes::from(generate(mib << 20));
            bench.starts(&format!("{mib} MiB"), Some(module.clone()), IMPORT).await;
            bench
                .starts(&format!("{mib} MiB, {CALLED} functions called"), Some(module), CALL)
                .await;
        }
    });
}

struct Bench(Watchdog);

impl Bench {
    async fn starts(&self, label: &str, module: Option<Bytes>, source: &str) {
        // A new engine has not loaded the module yet.
        let engine = Rc::new(Engine::new(&self.0, ShardId(0), Rc::new(Web::default())));
        let size = module.as_ref().map_or(0, Bytes::len);
        let revision = Rc::new(revision(module, source));
        let digest = revision.digest();
        let first = start(&engine, &revision, digest).await;
        let mut again = Vec::with_capacity(TIMES);
        for _ in 0..TIMES {
            again.push(start(&engine, &revision, digest).await);
        }
        again.sort_unstable();
        let millis = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1e3);
        println!("{label:<44} {size:>10} {:>10} {:>10}", millis(first), millis(again[TIMES / 2]));
    }
}

async fn start(engine: &Rc<Engine>, revision: &Rc<Revision>, digest: RevisionDigest) -> Duration {
    engine.make_spare();
    let began = Instant::now();
    let isolate = Isolate::start(engine, digest, Rc::clone(revision), None)
        .await
        .expect("the Worker does not start");
    let taken = began.elapsed();
    isolate.idle().await;
    taken
}

fn revision(module: Option<Bytes>, source: &str) -> Revision {
    let mut revision = Revision::from_source(WorkerId::new("bench", "wasm"), source.to_owned());
    revision.modules.extend(module.map(|module| ("module.wasm".to_owned(), module)));
    revision.limits.startup_ms = 60_000;
    revision
}

/// Returns a module of about `size` bytes.
fn generate(size: usize) -> Vec<u8> {
    // if (n == 0) return 1; do { a[i] = a[i + 4] * n + i; i += 8 } while (i < n); sum += i
    // A function does this eight times, and returns f0(0) + sum.
    const STEP: &[u8] = &[
        0x20, 0, 0x45, 0x04, 0x40, 0x41, 1, 0x0f, 0x0b, 0x03, 0x40, 0x20, 1, 0x20, 1, 0x28, 2, 4,
        0x20, 0, 0x6c, 0x20, 1, 0x6a, 0x36, 2, 0, 0x20, 1, 0x41, 8, 0x6a, 0x22, 1, 0x20, 0, 0x48,
        0x0d, 0, 0x0b, 0x20, 1, 0x20, 2, 0x6a, 0x21, 2,
    ];
    let body =
        [&[1, 4, 0x7f][..], &STEP.repeat(8), &[0x41, 0, 0x10, 0, 0x20, 2, 0x6a, 0x0b]].concat();
    let body = [number(body.len()), body].concat();
    let functions = size / body.len();
    let exports: Vec<u8> = (1..=CALLED)
        .flat_map(|place| {
            let name = format!("f{place}");
            [&[name.len() as u8], name.as_bytes(), &[0], &number(place)[..]].concat()
        })
        .collect();
    let section = |id: u8, count: usize, content: Vec<u8>| {
        let content = [number(count), content].concat();
        [vec![id], number(content.len()), content].concat()
    };
    [
        b"\0asm\x01\0\0\0".to_vec(),
        section(1, 1, vec![0x60, 1, 0x7f, 1, 0x7f]),
        section(3, functions, vec![0; functions]),
        section(5, 1, vec![0, 1]),
        section(7, CALLED, exports),
        section(10, functions, body.repeat(functions)),
    ]
    .concat()
}

/// Encodes an unsigned number in LEB128.
fn number(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 128 {
        bytes.push((number % 128) as u8 | 128);
        number /= 128;
    }
    bytes.push(number as u8);
    bytes
}
