//! The process that makes the calls, any of which may end it.
//!
//! Before each call, the process writes a line about the call to its standard output, and after the
//! call a line about the outcome.

use std::io::Write as _;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tenon_engine::{Body, CallContext, Engine, FetchRequest, Isolate, ResponseBody, Watchdog};
use tenon_proto::egress::Egress;
use tenon_proto::failure::Failure;
use tenon_proto::id::{ShardId, WorkerId};
use tenon_proto::revision::{Limits, Revision};
use tenon_web::Web;
use tokio::task::LocalSet;

use crate::FUNCTIONS;

/// The CPU time limit of a call.
pub(crate) const CPU: Duration = Duration::from_millis(100);

/// The maximum number of calls per isolate: state that one call leaves behind changes the effect of
/// later calls.
const CALLS: u32 = 32;

/// Makes the calls from number `first` on, forever.
pub(crate) fn run(seed: u32, first: u32) -> ! {
    tenon_engine::init();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let engine = Rc::new(Engine::new(&Watchdog::spawn(), ShardId(0), Rc::new(Web::default())));
    LocalSet::new().block_on(&runtime, async {
        let mut next = first;
        loop {
            next = run_in_new_isolate(&engine, seed, next).await;
        }
    })
}

/// Makes the calls of one isolate, and returns the number of the next call.
async fn run_in_new_isolate(engine: &Rc<Engine>, seed: u32, first: u32) -> u32 {
    let revision = revision();
    let isolate = match Isolate::start(engine, revision.digest(), Rc::new(revision), None).await {
        Ok(isolate) => isolate,
        Err(failure) => {
            print_line(&format!("start failed: {failure}"));
            return first;
        }
    };
    let count = get(&isolate, "/count").await.unwrap_or_default();
    assert!(
        count.parse().is_ok_and(|count: usize| count >= FUNCTIONS),
        "the walk found only {count} functions"
    );
    for call in first..first + CALLS {
        let Ok(text) = get(&isolate, &format!("/plan?seed={seed}&call={call}")).await else {
            return call;
        };
        print_line(&format!("call {call} {}", text.replace('\n', " ")));
        let begun = Instant::now();
        let outcome = get(&isolate, &format!("/call?seed={seed}&call={call}")).await;
        let outcome = outcome.unwrap_or_else(|failure| failure.code.as_str().to_owned());
        let is_over = isolate.condemned().is_some();
        if is_over {
            isolate.idle().await;
        }
        print_line(&format!("done {call} {} {outcome}", begun.elapsed().as_millis()));
        if is_over {
            return call + 1;
        }
    }
    first + CALLS
}

async fn get(isolate: &Rc<Isolate>, path: &str) -> Result<String, Failure> {
    let request = FetchRequest {
        request_id: path.to_owned(),
        method: "GET".to_owned(),
        url: format!("https://worker.test{path}"),
        headers: Vec::new(),
        body: Body::Full(Bytes::new()),
        entry: None,
        call_context: CallContext::default(),
    };
    match isolate.fetch(request).await?.body {
        ResponseBody::Full(text) => Ok(String::from_utf8_lossy(&text).into_owned()),
        ResponseBody::Stream(_) => Ok("a stream".to_owned()),
    }
}

fn revision() -> Revision {
    let module =
        |name: &str, source: &'static str| (name.to_owned(), Bytes::from_static(source.as_bytes()));
    let modules = [
        module("caller.js", include_str!("caller.js")),
        module("values.js", include_str!("values.js")),
    ];
    Revision {
        name: "first".to_owned(),
        entrypoint: "caller.js".to_owned(),
        limits: Limits {
            cpu_ms: CPU.as_millis() as u32,
            wall_ms: 2_000,
            startup_ms: 20_000,
            memory_mib: 128,
            ..Limits::default()
        },
        egress: Egress::Only(Vec::new()),
        ..Revision::with_modules(WorkerId::new("test", "builtins"), modules)
    }
}

/// Pretends that one call leads to a finding, for the parent to detect.
pub(crate) fn stage(finding: &str) -> ! {
    print_line(&format!("call 7 {finding}"));
    let mut kept = Vec::new();
    loop {
        match finding {
            "abort" => std::process::abort(),
            "hold" if cpu_time() > 3 * CPU + Duration::from_secs(1) => break,
            "grow" => kept.push(vec![1u8; 16 << 20]),
            _ => {}
        }
        std::hint::black_box(&kept);
    }
    print_line("done 7 0 returned");
    std::thread::sleep(Duration::from_secs(60));
    std::process::exit(0)
}

/// Returns the CPU time of this thread so far.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(stat.split_whitespace().next().unwrap().parse().unwrap())
}

/// Writes a line and flushes it. Exits if the parent no longer reads, because the parent has then
/// ended.
fn print_line(line: &str) {
    let mut out = std::io::stdout().lock();
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}
