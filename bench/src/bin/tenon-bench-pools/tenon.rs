//! The pinned architecture in the product's own engine, with every limit armed, every clock frozen
//! and the whole Web API loaded. The difference from [`pinned`](crate::pinned) is the cost of
//! everything that the harness of the benchmark omits.

use std::rc::Rc;

use bytes::Bytes;
use rustc_hash::FxHashMap;
use tenon_engine::{Body, CallContext, Engine, FetchRequest, Isolate, Watchdog};
use tenon_proto::id::{ShardId, WorkerId as ProductId};
use tenon_proto::revision::{Limits, Revision};
use tenon_proto::runtime::Header;
use tenon_web::Web;

use crate::load::{Load, Server};
use crate::measurement::Measurement;
use crate::scenario::WorkerId;
use crate::turn::{Request, Response};

pub use tenon_engine::init;

/// The CPU limits, in milliseconds. They are armed, but so high that a turn does not reach them
/// even if the virtual machine is paused for a while and the thread's CPU clock charges the pause
/// to the turn.
const CPU_LIMIT_MS: u32 = 10_000;

struct Tenon {
    isolates: FxHashMap<WorkerId, Rc<Isolate>>,
    workers: Vec<WorkerId>,
}

pub fn measure(load: &Load) -> anyhow::Result<Measurement> {
    let watchdog = Watchdog::spawn();
    let shape = load.shape();
    load.run(async |thread| {
        let engine =
            Rc::new(Engine::new(&watchdog, ShardId(thread as u16), Rc::new(Web::default())));
        let workers = shape.workers.of(thread).to_vec();
        let mut isolates = FxHashMap::default();
        for worker in &workers {
            isolates.insert(worker.clone(), start(&engine, worker, shape.source).await);
        }
        Tenon { isolates, workers }
    })
}

async fn start(engine: &Rc<Engine>, worker: &WorkerId, source: &'static str) -> Rc<Isolate> {
    let (namespace, name) = worker.split_once('/').expect("the Worker's id has no namespace");
    let revision = Rc::new(Revision {
        limits: Limits { cpu_ms: CPU_LIMIT_MS, startup_ms: CPU_LIMIT_MS, ..Limits::default() },
        ..Revision::from_source(ProductId::new(namespace, name), source)
    });
    let digest = revision.digest();
    Isolate::start(engine, digest, revision, None)
        .await
        .expect("a Worker of the benchmark did not start")
}

impl Server for Tenon {
    fn workers(&self) -> &[WorkerId] {
        &self.workers
    }

    async fn serve(&self, worker: &WorkerId, request: Request) -> Response {
        let isolate = self
            .isolates
            .get(worker)
            .expect("a request arrived at a thread that does not own the Worker");
        let header = |(name, value): (&str, String)| Header {
            name: name.to_owned(),
            value: Bytes::from(value),
        };
        let request = FetchRequest {
            request_id: "0123456789abcdef".to_owned(),
            method: request.method.to_owned(),
            url: request.url,
            headers: request.headers.into_iter().map(header).collect(),
            body: Body::Full(Bytes::new()),
            entry: None,
            call_context: CallContext::default(),
        };
        let response =
            isolate.fetch(request).await.expect("a Worker of the benchmark failed a request");
        let body = response.body.collect().await.expect("a response of a Worker is incomplete");
        let body = String::from_utf8_lossy(&body).into_owned();
        Response { status: response.status, body }
    }
}
