//! Legacy: each request has an isolate made for it, which ends with it. Nothing is kept and nothing is waited for; a
//! thread goes on with others while one awaits.

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
    load.run(async |_| Legacy { sandbox, workers: load.shape().workers.all(), outside: Outside::new(sandbox.origin()) })
}

impl Server for Legacy {
    fn workers(&self) -> &[WorkerId] {
        &self.workers
    }

    async fn serve(&self, _: &WorkerId, request: Request) -> Response {
        invoke(&Owned::new(self.sandbox), &self.outside, request).await
    }
}
