//! The shared architecture: one pool for all threads, behind a lock. The thread at which a request
//! arrives serves the request, in the isolate of the Worker, which may have run on another thread
//! before.
//!
//! There are two variants, which differ in what happens while a request awaits an operation:
//! - **for a request**: the isolate is taken out of the pool and returned with the response. The
//!   published figures measure such a pool: an isolate runs the JavaScript of one request at a
//!   time. Requests that do not find the isolate in the pool queue for it.
//! - **for a turn**: the isolate stays in the pool, and V8's lock is held during turns only.
//!   Between its turns a request holds nothing. This is the best possible variant.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxHashMap;
use tokio::sync::oneshot;

use crate::host::Host;
use crate::invocation::invoke;
use crate::load::{Load, Server};
use crate::measurement::Measurement;
use crate::residence::Shared;
use crate::sandbox::Sandbox;
use crate::scenario::WorkerId;
use crate::turn::{Request, Response};

/// The pool of all threads, with one lock for all Workers.
struct Pool<T>(Mutex<FxHashMap<WorkerId, T>>);

impl<T> Pool<T> {
    fn new(workers: &[WorkerId], mut create: impl FnMut() -> T) -> Self {
        Self(Mutex::new(workers.iter().map(|id| (id.clone(), create())).collect()))
    }

    fn with<R>(&self, worker: &WorkerId, work: impl FnOnce(&mut T) -> R) -> R {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        work(entries.get_mut(worker).expect("a client requested an unknown Worker"))
    }
}

/// The entry of a Worker in the pool.
struct Entry {
    idle: Option<Box<Shared>>,
    waiting: VecDeque<oneshot::Sender<Box<Shared>>>,
}

/// The variant that holds an isolate for a request, on one thread.
struct Held {
    pool: Arc<Pool<Entry>>,
    workers: Vec<WorkerId>,
    host: Host,
}

pub fn measure_held(sandbox: Sandbox, load: &Load) -> anyhow::Result<Measurement> {
    let workers = load.shape().workers.all();
    let entry = || Entry { idle: Some(Box::new(Shared::new(sandbox))), waiting: VecDeque::new() };
    let pool = Arc::new(Pool::new(&workers, entry));
    load.run(async |_| Held {
        pool: Arc::clone(&pool),
        workers: workers.clone(),
        host: Host::new(sandbox.origin()),
    })
}

impl Server for Held {
    fn workers(&self) -> &[WorkerId] {
        &self.workers
    }

    async fn serve(&self, worker: &WorkerId, request: Request) -> Response {
        let isolate = self.take(worker).await;
        let response = invoke(&*isolate, &self.host, request).await;
        self.release(worker, isolate);
        response
    }
}

impl Held {
    async fn take(&self, worker: &WorkerId) -> Box<Shared> {
        let taken = self.pool.with(worker, |entry| match entry.idle.take() {
            Some(isolate) => Ok(isolate),
            None => {
                let (isolate_tx, isolate_rx) = oneshot::channel();
                entry.waiting.push_back(isolate_tx);
                Err(isolate_rx)
            }
        });
        match taken {
            Ok(isolate) => isolate,
            Err(isolate_rx) => isolate_rx.await.expect("the isolate was not returned to the pool"),
        }
    }

    fn release(&self, worker: &WorkerId, isolate: Box<Shared>) {
        self.pool.with(worker, |entry| match entry.waiting.pop_front() {
            Some(next) => next
                .send(isolate)
                .unwrap_or_else(|_| unreachable!("a client ended before it was served")),
            None => entry.idle = Some(isolate),
        });
    }
}

/// The variant that holds an isolate only for a turn, on one thread.
struct Released {
    pool: Arc<Pool<Arc<Shared>>>,
    workers: Vec<WorkerId>,
    host: Host,
}

pub fn measure_released(sandbox: Sandbox, load: &Load) -> anyhow::Result<Measurement> {
    let workers = load.shape().workers.all();
    let pool = Arc::new(Pool::new(&workers, || Arc::new(Shared::new(sandbox))));
    load.run(async |_| Released {
        pool: Arc::clone(&pool),
        workers: workers.clone(),
        host: Host::new(sandbox.origin()),
    })
}

impl Server for Released {
    fn workers(&self) -> &[WorkerId] {
        &self.workers
    }

    async fn serve(&self, worker: &WorkerId, request: Request) -> Response {
        let isolate = self.pool.with(worker, |isolate| Arc::clone(isolate));
        invoke(&*isolate, &self.host, request).await
    }
}
