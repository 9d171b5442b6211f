//! Everything V8.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use bytes::Bytes;
use futures::Stream;
use tenon_proto::failure::{Failure, FailureCode};
use tenon_proto::id::{RevisionDigest, ShardId};
use tenon_proto::revision::Revision;
use tenon_proto::runtime::Header;

/// Initialises V8 for the process. Call on the main thread before any other thread is made. Idempotent.
pub fn init() {}

/// The process-wide thread that ends turns that run too long.
#[derive(Clone)]
pub struct Watchdog;

impl Watchdog {
    pub fn spawn() -> Self {
        Self
    }
}

/// What a shard's isolates share.
pub struct Engine {
    pub shard: ShardId,
}

impl Engine {
    pub fn new(_watchdog: &Watchdog, shard: ShardId) -> Rc<Self> {
        Rc::new(Self { shard })
    }
}

/// One revision, loaded.
pub struct Isolate {}

impl Isolate {
    pub async fn start(
        _engine: &Rc<Engine>,
        _digest: RevisionDigest,
        _revision: Rc<Revision>,
    ) -> Result<Rc<Self>, Failure> {
        todo!()
    }

    /// Runs the first turn when first polled. Dropping the future cancels the invocation.
    pub fn fetch(
        self: &Rc<Self>,
        _request: FetchRequest,
    ) -> impl Future<Output = Result<FetchResponse, Failure>> + use<> {
        async { todo!() }
    }

    /// Invocations that have begun and not ended, those kept by `waitUntil` included.
    pub fn in_flight(&self) -> usize {
        todo!()
    }

    /// Why this isolate must get no new invocations.
    pub fn condemned(&self) -> Option<FailureCode> {
        todo!()
    }

    /// JavaScript heap and array buffers, bytes.
    pub fn memory_bytes(&self) -> usize {
        todo!()
    }

    /// Resolves when nothing is in flight.
    pub async fn idle(&self) {
        todo!()
    }
}

/// A request to deliver.
pub struct FetchRequest {
    pub request_id: String,
    pub method: String,
    /// Absolute.
    pub url: String,
    pub headers: Vec<Header>,
    pub body: RequestBody,
}

/// The body of a request.
pub enum RequestBody {
    Full(Bytes),
    Stream(Pin<Box<dyn Stream<Item = Result<Bytes, Failure>>>>),
}

/// What a Worker answered.
#[derive(Debug)]
pub struct FetchResponse {
    pub status: u16,
    pub headers: Vec<Header>,
    pub body: Bytes,
}
