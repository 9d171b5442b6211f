//! Runs revisions in V8 isolates and requests as invocations, and enforces the limits on both. The
//! engine does not contain the Web interfaces: an embedder passes them as [`Interfaces`].
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
//! JavaScript runs only in turns (`isolate/turn.rs`), on the one thread that owns its isolate. The
//! following list of submodules is ordered roughly from the outside in:
//!
//! - [`init`], [`Watchdog`] (both per process) and [`Engine`] (per shard).
//! - [`isolate`]: one loaded revision, its start, its turns and its event loop; [`spare`]: an
//!   isolate that is made ahead of demand; [`vm`]: V8's part of both; [`fair_scheduler`]: makes
//!   heavy isolates wait before a turn; [`interfaces`]: the trait of the Web interfaces.
//! - [`host`]: ECMAScript's host hooks; [`uncaught`]: exceptions that a Worker does not catch;
//!   [`modules`]: a revision's modules; [`snapshot`]: the heap from which every isolate starts;
//!   [`globals`]: completes the global object of a new context; [`wasm`]: the limits for
//!   WebAssembly.
//! - [`promise`]: promises for operations of native functions; [`state`]: the invocations in flight
//!   and everything else that native functions can reach.
//! - [`invocation`]: the table of invocations; [`operations`]: the operations for which they wait;
//!   [`continuation`]: the invocation to which the running code belongs; [`rejections`]: the
//!   rejected promises of a turn; [`log`], [`log_rate`]: a Worker's log; [`realm`]: a global object
//!   and the modules in it; [`thrown`], [`exception`]: exceptions of native functions, and
//!   descriptions of thrown values; [`source_maps`]: positions in the author's source.
//! - [`streams`], [`pipe`], [`byte_stream`]: bytes that arrive over time; [`response`],
//!   [`sending`], [`piece`]: responses and their bodies; [`string`] and [`bytes`](mod@bytes):
//!   values between Rust and V8; [`buffers`]: blocks for response bodies.
//! - [`watchdog`] and [`heap`]: the limits on CPU time and memory; [`collection`]: forced garbage
//!   collections; [`blocking_time`]: how long an isolate has blocked its thread.
//! - [`callbacks`]: the functions that V8 calls, and the handling of panics in them; [`slot`]: the
//!   values that an isolate carries; [`ids`]: the ids of invocations and operations.
//! - [`platform`]: V8's process-wide part; [`flags`]: V8's flags; [`foreground`]: the queues of
//!   V8's tasks; [`cage`], [`code_range`]: the ranges of addresses that isolates share;
//!   [`background`]: V8's own threads, which optimize functions; [`offload`]: further threads for
//!   long computations; [`bytecode`]: V8's code cache, which saves later starts from compiling;
//!   [`clock`]: the time that JavaScript sees; [`cpu_clock`]: the CPU time of threads and turns.
//! - [`inspector`]: debugging of isolates, which only `tenon dev` allows, and CPU profiles;
//!   [`cpu_profile`]: the positions in a CPU profile.
//! - [`call_context`]: an invocation's place among calls between Workers; [`share`], [`shares`]: a
//!   tenant's part of a bounded resource; [`page`]: the memory shared with the supervisor.
//!
//! An invocation that exceeds a limit fails with that limit's code, its isolate is condemned if its
//! remaining state cannot be trusted, and the process continues. The only exceptions are native
//! functions of V8 that ignore termination: if such a function allocates more memory than is
//! available ([`Headroom`]), V8 ends the process; if it does not return, the supervisor ends the
//! process.

mod background;
mod blocking_time;
pub mod buffers;
pub mod byte_stream;
mod bytecode;
pub mod bytes;
mod cage;
mod call_context;
pub mod callbacks;
mod clock;
mod code_range;
pub mod collection;
pub mod continuation;
mod cpu_clock;
mod cpu_profile;
mod engine;
pub mod exception;
mod fair_scheduler;
pub mod flags;
mod foreground;
#[cfg(fuzzing)]
pub mod fuzzing;
mod globals;
pub mod heap;
mod host;
pub mod ids;
pub mod inspector;
mod interfaces;
pub mod invocation;
mod isolate;
pub mod log;
pub mod log_rate;
pub mod modules;
pub mod offload;
pub mod operations;
pub mod page;
mod piece;
pub mod pipe;
mod platform;
pub mod promise;
pub mod realm;
mod rejections;
mod response;
mod sending;
pub mod share;
mod shares;
pub mod slot;
pub mod snapshot;
pub mod source_maps;
mod spare;
pub mod state;
pub mod streams;
pub mod string;
#[cfg(test)]
mod testing;
pub mod thrown;
mod uncaught;
mod vm;
pub mod wasm;
mod watchdog;

pub use blocking_time::Pause;
pub use byte_stream::{ByteStream, StreamError, Trailers};
pub use bytecode::{Bytecode, BytecodeLookup, MalformedBytecode};
pub use cage::{HEAPS_LIMIT, code_room};
pub use call_context::CallContext;
pub use engine::Engine;
pub use fair_scheduler::Pass;
pub use flags::FLAGS as V8_FLAGS;
pub use heap::Headroom;
pub use interfaces::Interfaces;
pub use invocation::Attachment;
pub use isolate::{FetchRequest, Isolate, ScheduledEvent};
pub use piece::Piece;
pub use platform::{IS_PATCHED as V8_IS_PATCHED, init};
pub use response::{FetchResponse, ResponseBody};
pub use sending::Sending;
pub use streams::Body;
pub use watchdog::{Watchdog, is_turn_over};
