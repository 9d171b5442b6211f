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
//! - [`isolate`]: one revision, loaded, and its event loop; [`realm`]: where its [`modules`] are evaluated; [`snapshot`]: what every isolate
//!   begins from, [`bytecode`]: what need not be compiled again, and [`spare`]: an isolate that waits for a Worker.
//! - [`fetch`]: one request's delivery; [`invocation`]: the book of those in flight; [`state`]: that and all else
//!   that native functions can reach, and [`continuation`], whose the running code is; [`streams`] and [`pipe`]: bytes that come over time; [`response`] and
//!   [`sending`]: what they answer with, and [`callers`], who may not wait for it.
//! - [`turn`]: the one way in, and [`turnstile`], which has the heavy wait before it; [`watchdog`] and [`heap`]: the
//!   limits on CPU time and memory; [`collection`]: what may be done to find garbage in it; [`stretches`]: for how long
//!   an isolate has kept its thread.
//! - [`fence`]: the functions that V8 calls, and what becomes of a panic in one.
//! - [`sockets`]: WebSockets, which keep an invocation for as long as they are open.
//! - [`wasm`]: the same limits for WebAssembly.
//! - [`offload`]: threads beside the shards' for what computes for long; [`background`]: V8's own, for optimising compilation.
//! - [`clock`]: the time that it sees; [`ops`]: what JavaScript calls; [`exception`], [`rejections`], [`report`]: what the log gets of it,
//!   [`source_maps`]: by its author's lines, and [`log_rate`]: how much; [`outbound`]: what it fetches, and [`services`], the
//!   Workers that it calls.
//!
//! Whatever a Worker does, the process goes on: an invocation that goes over a limit fails with that limit's code,
//! and its isolate is condemned where what is left of it cannot be trusted. The exception is a native function that takes
//! more memory than there is ([`Headroom`]) and heeds no termination: V8 ends the process for that.

mod background;
mod bytecode;
mod callers;
mod clock;
mod code_range;
mod collection;
mod continuation;
mod exception;
mod fence;
mod fetch;
mod flags;
mod foreground;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod heap;
mod invocation;
mod isolate;
mod log_rate;
mod modules;
mod offload;
mod operations;
mod ops;
mod outbound;
mod pipe;
mod platform;
mod realm;
mod rejections;
mod report;
mod response;
mod sending;
mod services;
mod snapshot;
mod sockets;
mod source_maps;
mod spare;
mod state;
mod streams;
mod stretches;
mod string;
mod turn;
mod turnstile;
mod wasm;
mod watchdog;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tenon_proto::id::ShardId;
use tenon_proto::revision::Limits;
use tenon_proto::runtime::Header;
use tokio::sync::Notify;

use crate::buffers::{self, BufferMetrics, BufferPool};
use crate::egress;
use crate::metrics::EgressMetrics;
use crate::page::Page;
use crate::response_cache::ResponseCache;

pub use bytecode::{Bytecode, BytecodeLookup, MalformedBytecode};
pub use heap::Headroom;
pub use isolate::Isolate;
pub use platform::init;
pub use response::{Piece, ResponseBody};
pub use sending::Sending;
pub use services::{Answered, Call, Origin, Services};
pub use streams::{Body, Broken, ByteStream};
pub use stretches::Pause;
pub use turnstile::Pass;
pub use watchdog::Watchdog;

/// What a shard's isolates share. Belongs to the thread that made it.
pub struct Engine {
    shard: ShardId,
    post: Arc<watchdog::Post>,
    page: Option<Arc<Page>>,
    turnstile: Rc<turnstile::Turnstile>,
    log_rates: log_rate::LogRates,
    spares: RefCell<Vec<spare::Spare>>,
    turns: Cell<u64>,
    turn_cpu: Cell<Duration>,
    buffers: BufferPool,
    compiled: wasm::compiled::Compiled,
    egress: Rc<egress::Client>,
    services: Rc<dyn Services>,
    responses: Arc<ResponseCache>,
    leaving: sockets::Leaving,
    headroom: Headroom,
    is_condemned: Rc<Notify>,
}

impl Engine {
    /// Call on the shard's own thread: its CPU clock is the one that turns are measured by.
    pub fn new(watchdog: &Watchdog, shard: ShardId) -> Self {
        Self::supervised(watchdog, shard, None)
    }

    /// The same, and says in the page whose code is running.
    pub fn supervised(watchdog: &Watchdog, shard: ShardId, page: Option<Arc<Page>>) -> Self {
        Self {
            shard,
            post: watchdog.post(page.clone()),
            page,
            turnstile: Rc::default(),
            log_rates: log_rate::LogRates::default(),
            spares: RefCell::default(),
            turns: Cell::new(0),
            turn_cpu: Cell::default(),
            buffers: BufferPool::new(buffers::POOL, BufferMetrics::default()),
            compiled: wasm::compiled::Compiled::default(),
            egress: Rc::new(egress::Client::new(&egress::Settings::default(), EgressMetrics::default())),
            services: Rc::new(services::NoServices),
            responses: ResponseCache::new(0),
            leaving: sockets::Leaving::default(),
            headroom: Headroom::default(),
            is_condemned: Rc::default(),
        }
    }

    /// The same with buffers that somebody counts.
    #[must_use]
    pub fn with_buffers(self, buffers: BufferPool) -> Self {
        Self { buffers, ..self }
    }

    /// The same with a client that is configured.
    #[must_use]
    pub fn with_egress(self, client: egress::Client) -> Self {
        Self { egress: Rc::new(client), ..self }
    }

    /// The same with room for responses that Workers keep.
    #[must_use]
    pub fn with_responses(self, responses: Arc<ResponseCache>) -> Self {
        Self { responses, ..self }
    }

    /// The same with somebody who carries calls of other Workers out.
    #[must_use]
    pub fn with_services(self, services: Rc<dyn Services>) -> Self {
        Self { services, ..self }
    }

    /// The same where there is less memory.
    #[must_use]
    pub fn with_headroom(self, headroom: Headroom) -> Self {
        Self { headroom, ..self }
    }

    /// Resolves when an isolate has been condemned since this resolved last.
    pub async fn condemned(&self) {
        self.is_condemned.notified().await;
    }

    /// Closes every WebSocket, now and to come: the node leaves.
    pub fn close_sockets(&self) {
        self.leaving.begin();
    }

    /// The shard it was made for.
    pub fn shard(&self) -> ShardId {
        self.shard
    }

    /// Turns so far: a thread on which it stands still runs no JavaScript.
    pub fn turns(&self) -> u64 {
        self.turns.get()
    }

    /// CPU time of these turns.
    pub fn turn_cpu(&self) -> Duration {
        self.turn_cpu.get()
    }

    /// Whether the process has used up most of what it can only get back by beginning anew, which are the types of
    /// WebAssembly that V8 remembers. All goes on for now. The process is to be drained and another to take its place;
    /// until then modules with new types are refused, first to the namespaces that have brought the most.
    pub fn exhausted(&self) -> bool {
        wasm::types::are_nearly_used_up()
    }

    /// CPU time that V8's own threads have used for this process, beside its shards' turns. It reads files of `/proc`.
    pub fn background_cpu(&self) -> Duration {
        background::cpu()
    }

    /// Isolates that are ready for a Worker.
    pub fn spares(&self) -> usize {
        self.spares.borrow().len()
    }

    /// Whether a spare awaits a Worker with these limits.
    pub fn has_spare(&self, limits: &Limits) -> bool {
        self.spares() > 0 && spare::Spare::suits(limits)
    }

    /// Makes one more, which takes some milliseconds.
    pub fn make_spare(&self) {
        let spare = spare::Spare::make(Limits::default().memory_mib, self.headroom);
        self.spares.borrow_mut().push(spare);
    }

    /// Ends one, if there is one, and lets go of what else is only there for the next start.
    pub fn drop_spare(&self) {
        self.compiled.clear();
        let spare = self.spares.borrow_mut().pop();
        drop(spare);
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
    pub body: Body,
    pub origin: Origin,
}

/// A time of a schedule to deliver.
pub struct ScheduledEvent {
    /// For the log.
    pub request_id: String,
    /// As the Worker has it.
    pub cron: String,
    /// In milliseconds since 1970.
    pub time_ms: i64,
    pub origin: Origin,
}

/// What a Worker answered.
#[derive(Debug)]
pub struct FetchResponse {
    pub status: u16,
    pub headers: Vec<Header>,
    pub body: ResponseBody,
}
