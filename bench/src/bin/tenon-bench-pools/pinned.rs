//! The pinned architecture: a Worker's id hashes to one thread, which owns the Worker's isolate and
//! enters it without a lock. The Worker's requests arrive at that thread, as from a router that
//! knows the hash. Requests that await operations interleave on the thread's event loop.

use rustc_hash::FxHashMap;

use crate::host::Host;
use crate::invocation::invoke;
use crate::load::{Load, Server};
use crate::measurement::Measurement;
use crate::residence::Owned;
use crate::sandbox::Sandbox;
use crate::scenario::WorkerId;
use crate::turn::{Request, Response};

/// The isolates of one thread.
pub struct Pinned {
    isolates: FxHashMap<WorkerId, Owned>,
    workers: Vec<WorkerId>,
    host: Host,
}

pub fn measure(sandbox: Sandbox, load: &Load) -> anyhow::Result<Measurement> {
    load.run(async |thread| Pinned::new(sandbox, load.shape().workers.of(thread)))
}

impl Pinned {
    pub fn new(sandbox: Sandbox, workers: &[WorkerId]) -> Self {
        Self {
            isolates: workers.iter().map(|id| (id.clone(), Owned::new(sandbox))).collect(),
            workers: workers.to_vec(),
            host: Host::new(sandbox.origin()),
        }
    }
}

impl Server for Pinned {
    fn workers(&self) -> &[WorkerId] {
        &self.workers
    }

    async fn serve(&self, worker: &WorkerId, request: Request) -> Response {
        let isolate = self
            .isolates
            .get(worker)
            .expect("a request arrived at a thread that does not own the Worker");
        invoke(isolate, &self.host, request).await
    }
}
