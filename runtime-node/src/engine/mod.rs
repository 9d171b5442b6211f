//! Everything V8: revisions as isolates, requests as invocations, and the limits that hold both.
//!
//! ```text
//!                       Engine (one per shard thread)      Watchdog (one thread for all)
//!                          │ makes                              ▲ arm, disarm
//!   FetchRequest ──► Isolate::fetch ──► turn ───────────────────┘
//!                          ▲             │ JavaScript: snapshot + modules
//!        FetchResponse ────┘             ▼
//!                         event loop ◄── ops: timers, bodies, log, respond
//! ```
//!
//! JavaScript runs in [`turn`] and nowhere else, on the one thread that owns its isolate. From the outside in:
//!
//! - [`init`], [`Watchdog`], [`Engine`]: per process, per process, per shard.
//! - [`isolate`]: one revision, loaded, and its event loop; [`modules`]: its code; [`snapshot`]: what every isolate
//!   begins from.
//! - [`fetch`]: one request's delivery; [`invocation`]: the book of those in flight; [`state`]: that and all else
//!   that native functions can reach.
//! - [`turn`]: the one way in, and [`turnstile`], which has the heavy wait before it; [`watchdog`] and [`heap`]: the limits on CPU time and memory.
//! - [`ops`]: what JavaScript calls; [`exception`], [`report`]: what the log gets of it.
//!
//! Whatever a Worker does, the process goes on: an invocation that goes over a limit fails with that limit's code,
//! and its isolate is condemned where what is left of it cannot be trusted.

mod exception;
mod fetch;
mod flags;
mod heap;
mod invocation;
mod isolate;
mod modules;
mod ops;
mod platform;
mod report;
mod snapshot;
mod state;
mod string;
mod turn;
mod turnstile;
mod watchdog;

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use futures::Stream;
use tenon_proto::failure::Failure;
use tenon_proto::id::ShardId;
use tenon_proto::runtime::Header;

pub use isolate::Isolate;
pub use platform::init;
pub use watchdog::Watchdog;

/// What a shard's isolates share. Belongs to the thread that made it.
pub struct Engine {
    shard: ShardId,
    post: Arc<watchdog::Post>,
    turnstile: Rc<turnstile::Turnstile>,
}

impl Engine {
    /// Call on the shard's own thread: its CPU clock is the one that turns are measured by.
    pub fn new(watchdog: &Watchdog, shard: ShardId) -> Self {
        Self { shard, post: watchdog.post(), turnstile: Rc::default() }
    }

    /// The shard it was made for.
    pub fn shard(&self) -> ShardId {
        self.shard
    }
}

/// A request to deliver.
pub struct FetchRequest {
    /// For the log.
    pub request_id: String,
    pub method: String,
    /// Absolute.
    pub url: String,
    /// Names in lower case.
    pub headers: Vec<Header>,
    pub body: RequestBody,
}

/// The body of a request.
pub enum RequestBody {
    /// All of it.
    Full(Bytes),
    /// To be read when the handler asks for it.
    Stream(Pin<Box<dyn Stream<Item = Result<Bytes, Failure>>>>),
}

/// What a Worker answered.
#[derive(Debug)]
pub struct FetchResponse {
    pub status: u16,
    pub headers: Vec<Header>,
    pub body: Bytes,
}
