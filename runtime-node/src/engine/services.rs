//! Calls of other Workers: what an invocation knows of its place among them, and what the engine asks of whoever carries
//! a call out.
//!
//! A Worker names a binding; the binding names a Worker of the same namespace, and no code can name another. Whether that
//! Worker is run by this very shard is not the engine's business.

use futures::future::LocalBoxFuture;
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::id::{RevisionDigest, WorkerId};
use tenon_proto::runtime::{Header, Service};

use super::FetchRequest;
use super::streams::ByteStream;

/// How an invocation came to be, as far as it matters to the calls that it makes.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// How many calls of Workers by Workers led to it.
    pub depth: u32,
    /// What served the Workers that it may call when it began, as far as the router knew.
    pub services: Vec<Service>,
}

impl Origin {
    pub(super) fn digest_of(&self, worker: &WorkerId) -> Option<RevisionDigest> {
        let service = self.services.iter().find(|service| service.worker == worker.as_str())?;
        RevisionDigest::try_from(&service.digest[..]).ok()
    }
}

/// One Worker's call of another.
pub struct Call {
    pub caller: WorkerId,
    pub callee: WorkerId,
    /// What serves it, where that is known.
    pub digest: Option<RevisionDigest>,
    /// Its origin is the call's.
    pub request: FetchRequest,
}

/// What the other Worker answered.
pub struct Answered {
    pub status: u16,
    pub headers: Vec<Header>,
    /// `None` where there is nothing in it.
    pub body: Option<ByteStream>,
}

/// Carries calls out.
pub trait Services {
    /// Dropping the future, or the body of the answer, cancels the call.
    ///
    /// # Errors
    /// As a client of the other Worker would be told.
    fn call(&self, call: Call) -> LocalBoxFuture<'static, Result<Answered, Failure>>;
}

/// Of an engine that was given none.
pub(super) struct NoServices;

impl Services for NoServices {
    fn call(&self, _: Call) -> LocalBoxFuture<'static, Result<Answered, Failure>> {
        let message = "Nobody here carries calls of other Workers out.";
        Box::pin(async move { Err(Failure::new(FailureCode::NoNode, Phase::Admission, message)) })
    }
}
