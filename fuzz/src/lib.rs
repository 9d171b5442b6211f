//! Hostile bytes for every parser that meets some: `make fuzz`, or for one of them
//!
//! ```text
//!  RUSTC_BOOTSTRAP=1 cargo fuzz run frame            # until it finds something
//!  RUSTC_BOOTSTRAP=1 cargo fuzz run frame ARTIFACT   # that again
//!  RUSTC_BOOTSTRAP=1 cargo fuzz cmin frame           # the corpus, without what teaches nothing
//! ```
//!
//! Each target is a page of `fuzz_targets` that says what holds whatever the bytes are: beyond that nothing crashes, hangs or
//! fills the memory, that what was read can be written and read again, that pieces make what the whole makes, that a quick
//! way and a thorough one agree. They run under AddressSanitizer, with assertions and checked arithmetic.
//!
//! | whose bytes | where they are read | targets |
//! | --- | --- | --- |
//! | a client's | the router's head of a request; the node's events and WebSockets | `request`, `event`, `socket` |
//! | another process's | messages, revisions, the catalog, names, failures | `frame`, `revision`, `table`, `names` |
//! | an origin's | content codings, redirects, what is cached, streams of events | `codings`, `redirect`, `cache`, `events` |
//! | a proxy's | its answers | `proxy` |
//! | an author's | objects, schedules, modules, source maps | `worker`, `schedule`, `compile`, `maps` |
//! | a running Worker's | the Web's interfaces, in a real isolate ([`Host`]) | `url`, `codecs`, `bodies`, `keys`, `wasm` |
//! | a disk's | bytecode | `bytecode` |
//!
//! What a developer has on the own disk for `tenon dev` is not among them: there is nobody to attack with it.
//!
//! A crate shows what only targets need in one module of its own, `fuzzing`, which is there under `cfg(fuzzing)` alone.
//! `corpus` holds what has been learned, `dictionaries` the words of formats, and `workers` what runs in an isolate.

mod host;
mod pieces;

pub use host::Host;
pub use pieces::pieces;
