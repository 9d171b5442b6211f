//! Measures the CPU time that `HTMLRewriter` takes for a megabyte of HTML, on one shard and without
//! a network.
//!
//! ```text
//!  copied     a body passes through a JavaScript stream, without a rewriter
//!  …          a rewriter whose handlers run for no element, some elements or all elements
//! ```
//!
//! The CPU time is that of all threads of this process, including V8's compilers and collectors. An
//! argument selects the rows whose label contains it.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use tenon_engine::{Body, CallContext, Engine, FetchRequest, Isolate, Watchdog};
use tenon_proto::id::{ShardId, WorkerId};
use tenon_proto::revision::Revision;
use tenon_web::Web;
use tokio::task::LocalSet;

/// Number of documents before the measurement, and within it.
const WARM_UP: usize = 20;
const DOCUMENTS: usize = 100;

/// A part of a document, with four elements and one link.
const PART: &str = "<div class=\"item\" id=\"n\"><p>Some words of a paragraph, as many as are usual \
                    in a list of articles.</p><a href=\"https://example.com/path?a=b\">More</a><br>\
                    </div>\n";

/// The Worker. Its path selects the rewriter.
const WORKER: &str = "
    const page = new TextEncoder().encode(PART.repeat(Math.ceil(2 ** 20 / PART.length)));
    const rewriters = {
        copied: null,
        absent: new HTMLRewriter().on('a[download]', { element() {} }),
        links: new HTMLRewriter().on('a[href]', { element: (a) => void a.setAttribute('href', '/') }),
        async: new HTMLRewriter().on('a[href]', { element: async (a) => void a.setAttribute('href', '/') }),
        all: new HTMLRewriter().on('*', { element() {} }),
        text: new HTMLRewriter().on('p', { text: (chunk) => void chunk.text }),
        many: Array.from({ length: 20 }).reduce((all, _, i) => all.on(`.c${i} > a`, { element() {} }), new HTMLRewriter()),
    };
    export default {
        async fetch({ url }) {
            const rewriter = rewriters[new URL(url).pathname.slice(1)];
            let left = page;
            const body = new ReadableStream({
                pull(controller) {
                    if (left.length === 0) return controller.close();
                    controller.enqueue(left.slice(0, 2 ** 16));
                    left = left.subarray(2 ** 16);
                },
            });
            const response = new Response(body);
            const reader = (rewriter === null ? response : rewriter.transform(response)).body.getReader();
            for (;;) if ((await reader.read()).done) return new Response();
        },
    };";

const ROWS: [(&str, &str); 7] = [
    ("copied without a rewriter", "copied"),
    ("one selector, which matches nothing", "absent"),
    ("one selector, the links are changed", "links"),
    ("the same with asynchronous handlers", "async"),
    ("a handler of each element", "all"),
    ("a handler of the text of paragraphs", "text"),
    ("20 selectors, which match nothing", "many"),
];

fn main() {
    // V8 must be initialized before any thread exists.
    tenon_engine::init();
    let watchdog = Watchdog::spawn();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("cannot create a runtime");
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    println!("{:<40}  {:>14}", "", "CPU per MB");
    LocalSet::new().block_on(&runtime, async {
        let engine = Rc::new(Engine::new(&watchdog, ShardId(0), Rc::new(Web::default())));
        for (label, path) in ROWS {
            if wanted.as_ref().is_none_or(|wanted| label.contains(wanted)) {
                row(&engine, label, path).await;
            }
        }
    });
}

async fn row(engine: &Rc<Engine>, label: &str, path: &str) {
    let source = format!("const PART = {};{WORKER}", serde_json::json!(PART));
    let mut revision = Revision::from_source(WorkerId::new("bench", "html"), source);
    revision.limits.cpu_ms = 60_000;
    let (digest, revision) = (revision.digest(), Rc::new(revision));
    let isolate =
        Isolate::start(engine, digest, revision, None).await.expect("the Worker does not start");
    for _ in 0..WARM_UP {
        fetch(&isolate, path).await;
    }
    let before = cpu_time();
    for _ in 0..DOCUMENTS {
        fetch(&isolate, path).await;
    }
    let each = (cpu_time() - before) / DOCUMENTS as u32;
    println!("{label:<40}  {:>11.2} ms", each.as_secs_f64() * 1e3);
}

async fn fetch(isolate: &Rc<Isolate>, path: &str) {
    let request = FetchRequest {
        request_id: "0123456789abcdef".to_owned(),
        method: "GET".to_owned(),
        url: format!("http://html.localhost/{path}"),
        headers: Vec::new(),
        body: Body::Full(Bytes::new()),
        entry: None,
        call_context: CallContext::default(),
    };
    let response = isolate.fetch(request).await.expect("the Worker does not answer");
    assert_eq!(response.status, 200);
    // V8's own tasks run between turns.
    tokio::task::yield_now().await;
}

/// Returns the CPU time of this process so far, including V8's compiler and collector threads.
fn cpu_time() -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").expect("cannot list this process's threads");
    let each = threads.map(|thread| {
        let thread = thread.expect("cannot list this process's threads");
        // A thread may have ended since it was listed.
        let stat = std::fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
        let nanoseconds = stat.split_whitespace().next().and_then(|first| first.parse().ok());
        Duration::from_nanos(nanoseconds.unwrap_or_default())
    });
    each.sum()
}
