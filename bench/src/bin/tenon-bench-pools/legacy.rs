//! The legacy architecture: each request gets a new isolate, which is dropped after the response.
//! No isolate is kept, and no request waits for one. While a request awaits an operation, its
//! thread serves other requests.

use crate::host::Host;
use crate::invocation::invoke;
use crate::load::{Load, Server};
use crate::measurement::Measurement;
use crate::residence::Owned;
use crate::sandbox::Sandbox;
use crate::scenario::WorkerId;
use crate::turn::{Request, Response};

struct Legacy {
    sandbox: Sandbox,
    workers: Vec<WorkerId>,
    host: Host,
}

pub fn measure(sandbox: Sandbox, load: &Load) -> anyhow::Result<Measurement> {
    load.run(async |_| Legacy {
        sandbox,
        workers: load.shape().workers.all(),
        host: Host::new(sandbox.origin()),
    })
}

impl Server for Legacy {
    fn workers(&self) -> &[WorkerId] {
        &self.workers
    }

    async fn serve(&self, _: &WorkerId, request: Request) -> Response {
        invoke(&Owned::new(self.sandbox), &self.host, request).await
    }
}
