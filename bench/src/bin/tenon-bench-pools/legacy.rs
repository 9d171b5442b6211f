//! Legacy: each request gets a new isolate, which is dropped with it. No isolate is kept and no
//! request waits for one; while a request awaits an operation, its thread serves others.

use crate::invocation::invoke;
use crate::load::{Load, Server};
use crate::measurement::Measurement;
use crate::outside::Outside;
use crate::residence::Owned;
use crate::sandbox::Sandbox;
use crate::scenario::WorkerId;
use crate::turn::{Request, Response};

struct Legacy {
    sandbox: Sandbox,
    workers: Vec<WorkerId>,
    outside: Outside,
}

pub fn measure(sandbox: Sandbox, load: &Load) -> anyhow::Result<Measurement> {
    load.run(async |_| Legacy {
        sandbox,
        workers: load.shape().workers.all(),
        outside: Outside::new(sandbox.origin()),
    })
}

impl Server for Legacy {
    fn workers(&self) -> &[WorkerId] {
        &self.workers
    }

    async fn serve(&self, _: &WorkerId, request: Request) -> Response {
        invoke(&Owned::new(self.sandbox), &self.outside, request).await
    }
}
