//! The context in which an invocation calls other Workers.

use std::rc::Rc;

use tenon_proto::id::{RevisionDigest, WorkerId};
use tenon_proto::runtime::Service;

/// The place of an invocation among calls between Workers.
#[derive(Clone, Debug, Default)]
pub struct CallContext {
    /// Number of calls between Workers that led to the invocation.
    pub depth: u32,
    /// The revisions that, according to the router, served the callable Workers when the invocation
    /// began.
    pub services: Vec<Service>,
    /// The context of the invocation's span, which its calls continue. `None` if the caller sent
    /// none.
    pub trace: Option<Rc<str>>,
}

impl CallContext {
    /// Returns the revision that served `worker` when the invocation began, if the router named it.
    pub fn digest_of(&self, worker: &WorkerId) -> Option<RevisionDigest> {
        let service = self.services.iter().find(|service| service.worker == worker.as_str())?;
        RevisionDigest::try_from(&service.digest[..]).ok()
    }
}
