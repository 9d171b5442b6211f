//! Revisions as V8 isolates, requests as invocations, and the limits on both. The engine knows no
//! Web interface: it is given them as [`Interfaces`].
//!
//! ```text
//!                       Engine (one per shard thread)      Watchdog (one thread for all)
//!                          │ makes                              ▲ arm, disarm
//!   FetchRequest ──► Isolate::fetch ──► turn ───────────────────┘
//!                          ▲             │ JavaScript: snapshot + modules
//!        FetchResponse ────┘             ▼
//!                         event loop ◄── native functions of the interfaces
//! ```
//!
//! JavaScript runs in [`turn`] and nowhere else, on the one thread that owns its isolate. The
//! submodules, from the outside in:
//!
//! - [`init`], [`Watchdog`] (both per process) and [`Engine`] (per shard).
//! - [`isolate`]: one loaded revision and its event loop; [`realm`]: the context in which its
//!   [`modules`] are evaluated; [`snapshot`]: the heap that every isolate starts from;
//!   [`bytecode`]: the code cache that saves compiling again; and [`spare`]: an isolate made ahead,
//!   waiting for a Worker.
//! - [`fetch`]: the delivery of one request; [`invocation`]: the table of invocations in flight;
//!   [`state`]: that table and everything else that native functions can reach; [`continuation`]:
//!   which invocation the running code belongs to; [`streams`] and [`pipe`]: bytes that arrive over
//!   time; [`response`] and [`sending`]: responses and their bodies; and [`callers`]: clients that
//!   disconnect before the response is complete.
//! - [`turn`]: the one way in; [`turnstile`]: makes heavy isolates wait before it; [`watchdog`] and
//!   [`heap`]: the limits on CPU time and memory; [`collection`]: the garbage collections that we
//!   force; [`stretches`]: how long an isolate has kept its thread at a stretch.
//! - [`fence`]: the functions that V8 calls, and the handling of a panic in one.
//! - [`wasm`]: the same limits for WebAssembly.
//! - [`offload`]: threads beside the shards' for long computations; [`background`]: V8's own
//!   threads, for optimising compilation.
//! - [`operations`] and [`promise`]: what native functions begin and JavaScript awaits; [`string`]
//!   and [`bytes`](mod@bytes): values across the border; [`buffers`]: blocks for response bodies.
//! - [`clock`]: the time that JavaScript sees; [`exception`], [`rejections`] and [`report`]: what
//!   reaches the log; [`source_maps`]: positions in the author's source; [`log_rate`]: how much may
//!   be logged.
//! - [`origin`]: an invocation's place among calls between Workers; [`share`]: a tenant's part of a
//!   bounded resource; [`page`]: the memory shared with the supervisor.
//!
//! Whatever a Worker does, the process goes on: an invocation that exceeds a limit fails with that
//! limit's code, and its isolate is condemned if its remaining state cannot be trusted. The
//! exception is a native function that takes more memory than there is ([`Headroom`]) and ignores
//! termination: V8 ends the process for that.

mod background;
pub mod buffers;
mod bytecode;
pub mod bytes;
mod callers;
mod clock;
mod code_range;
pub mod collection;
pub mod continuation;
pub mod exception;
pub mod fence;
mod fetch;
pub mod flags;
mod foreground;
#[cfg(fuzzing)]
pub mod fuzzing;
pub mod heap;
pub mod invocation;
mod isolate;
pub mod log_rate;
pub mod modules;
pub mod offload;
pub mod operations;
mod origin;
pub mod page;
pub mod pipe;
mod platform;
pub mod promise;
pub mod realm;
mod rejections;
pub mod report;
mod response;
mod sending;
pub mod share;
pub mod snapshot;
pub mod source_maps;
mod spare;
pub mod state;
pub mod streams;
mod stretches;
pub mod string;
#[cfg(test)]
mod testing;
mod turn;
mod turnstile;
pub mod wasm;
mod watchdog;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tenon_proto::id::ShardId;
use tenon_proto::revision::Limits;
use tenon_proto::runtime::Header;
use tokio::sync::Notify;

use buffers::{BufferMetrics, BufferPool};
use page::Page;
use snapshot::Builtins;
use state::State;

pub use bytecode::{Bytecode, BytecodeLookup, MalformedBytecode};
pub use flags::FLAGS as V8_FLAGS;
pub use heap::Headroom;
pub use invocation::Attachment;
pub use isolate::Isolate;
pub use origin::Origin;
pub use platform::init;
pub use response::{Piece, ResponseBody};
pub use sending::Sending;
pub use streams::{Body, Broken, ByteStream};
pub use stretches::Pause;
pub use turnstile::Pass;
pub use watchdog::Watchdog;

/// The Web interfaces that an engine's Workers use. The engine runs code and keeps it within its
/// limits; this provides the functions that the code can call.
pub trait Interfaces {
    /// Returns the built-in JavaScript and its native functions.
    fn builtins(&self) -> &'static Builtins;

    /// Puts into the slots of a new isolate what the native functions look for there.
    fn furnish(&self, isolate: &mut v8::Isolate, state: &Rc<State>);

    /// Recognises a request after whose head another protocol begins. The bytes that follow are then
    /// no body. Returns what the invocation keeps for that protocol.
    fn upgrade(&self, method: &str, headers: &[Header]) -> Option<Box<dyn Attachment>>;

    /// Ends what clients hold open, such as WebSockets, and all that they open from now on, because
    /// the node is leaving.
    fn leave(&self);
}

/// State shared by a shard's isolates. Belongs to the thread that made it.
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
    interfaces: Rc<dyn Interfaces>,
    headroom: Headroom,
    is_condemned: Rc<Notify>,
}

impl Engine {
    /// Creates an engine without a supervisor page. Call it on the shard's own thread, whose CPU
    /// clock measures the turns.
    ///
    /// # Arguments
    /// * `interfaces` - what Workers find in their global scope beyond the language.
    pub fn new(watchdog: &Watchdog, shard: ShardId, interfaces: Rc<dyn Interfaces>) -> Self {
        Self::supervised(watchdog, shard, interfaces, None)
    }

    /// Creates an engine that also records in `page` which revision's code is running.
    pub fn supervised(
        watchdog: &Watchdog,
        shard: ShardId,
        interfaces: Rc<dyn Interfaces>,
        page: Option<Arc<Page>>,
    ) -> Self {
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
            interfaces,
            headroom: Headroom::default(),
            is_condemned: Rc::default(),
        }
    }

    /// Replaces the buffer pool, for example by one with metrics.
    #[must_use]
    pub fn with_buffers(self, buffers: BufferPool) -> Self {
        Self { buffers, ..self }
    }

    /// Replaces the Web interfaces.
    #[must_use]
    pub fn with_interfaces(self, interfaces: Rc<dyn Interfaces>) -> Self {
        Self { interfaces, ..self }
    }

    /// Sets how far heaps may outgrow their limit.
    #[must_use]
    pub fn with_headroom(self, headroom: Headroom) -> Self {
        Self { headroom, ..self }
    }

    /// Resolves when an isolate has been condemned since this last resolved.
    pub async fn condemned(&self) {
        self.is_condemned.notified().await;
    }

    /// Closes all current and future WebSockets, because the node is leaving.
    pub fn close_sockets(&self) {
        self.interfaces.leave();
    }

    /// Returns the shard that this engine was made for.
    pub fn shard(&self) -> ShardId {
        self.shard
    }

    /// Returns the number of turns so far. While it does not change, the thread runs no JavaScript.
    pub fn turns(&self) -> u64 {
        self.turns.get()
    }

    /// Returns the CPU time of all turns so far.
    pub fn turn_cpu(&self) -> Duration {
        self.turn_cpu.get()
    }

    /// Returns whether the process has used up most of a resource that only a restart gives back:
    /// the WebAssembly types that V8 remembers. Everything works for now. The process should be
    /// drained and replaced; until then, modules with new types are refused, first to the
    /// namespaces that have added the most.
    pub fn exhausted(&self) -> bool {
        wasm::types::are_nearly_used_up()
    }

    /// Returns the CPU time that V8's own threads have used for this process, in addition to the
    /// turns. Reads files in `/proc`.
    pub fn background_cpu(&self) -> Duration {
        background::cpu()
    }

    /// Returns the number of isolates that are ready for a Worker.
    pub fn spares(&self) -> usize {
        self.spares.borrow().len()
    }

    /// Returns whether a spare isolate is ready for a Worker with these limits.
    pub fn has_spare(&self, limits: &Limits) -> bool {
        self.spares() > 0 && spare::Spare::suits(limits)
    }

    /// Makes one more spare isolate, which takes some milliseconds.
    pub fn make_spare(&self) {
        let spare = spare::Spare::make(Limits::default().memory_mib, self.headroom, self.interfaces.builtins());
        self.spares.borrow_mut().push(spare);
    }

    /// Drops one spare isolate, if there is one, and everything else that only speeds up the next
    /// start.
    pub fn drop_spare(&self) {
        self.compiled.clear();
        let spare = self.spares.borrow_mut().pop();
        drop(spare);
    }
}

/// A request to deliver to a Worker.
pub struct FetchRequest {
    /// Identifies the request in logs.
    pub request_id: String,
    pub method: String,
    /// An absolute URL.
    pub url: String,
    /// Header names are in lower case.
    pub headers: Vec<Header>,
    pub body: Body,
    pub origin: Origin,
}

/// One scheduled time to deliver to a Worker.
pub struct ScheduledEvent {
    /// Identifies the event in logs.
    pub request_id: String,
    /// The expression as the Worker states it.
    pub cron: String,
    /// The scheduled time, in milliseconds since the Unix epoch.
    pub time_ms: i64,
    pub origin: Origin,
}

/// The response of a Worker.
#[derive(Debug)]
pub struct FetchResponse {
    pub status: u16,
    pub headers: Vec<Header>,
    pub body: ResponseBody,
}
