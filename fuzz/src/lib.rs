//! Fuzz targets for every parser of untrusted input. `make fuzz` runs all of them; to run one:
//!
//! ```text
//!  RUSTC_BOOTSTRAP=1 cargo fuzz run frame            # until it finds something
//!  RUSTC_BOOTSTRAP=1 cargo fuzz run frame ARTIFACT   # reproduce it
//!  RUSTC_BOOTSTRAP=1 cargo fuzz cmin frame           # minimize the corpus
//! ```
//!
//! Each target is a file in `fuzz_targets` that checks properties of any input: there is no crash
//! and no hang, memory is bounded, parsed values round-trip, input in pieces yields the same result
//! as in one piece, and a fast implementation agrees with a thorough one. The targets run under
//! AddressSanitizer, with assertions and checked arithmetic.
//!
//! These are the sources of the bytes, the parsers that read them, and the targets:
//!
//! - a client: messages and heads of requests at the router, and events, WebSockets and their
//!   compressed messages at the node (`heads`, `fast_path`, `request`, `event`, `socket`,
//!   `inflate`);
//! - another process: frames, messages, revisions, the catalog, names and failures (`hop`, `frame`,
//!   `revision`, `table`, `names`);
//! - an origin: content codings, redirects, cached responses and event streams (`codings`,
//!   `redirect`, `cache`, `events`);
//! - a proxy: its responses (`proxy`);
//! - a registry: the blobs of artifacts (`artifact`);
//! - an author: objects, schedules, modules, source maps and static files (`worker`, `schedule`,
//!   `compile`, `maps`, `assets`);
//! - a running Worker: the Web interfaces, in a real isolate ([`Host`]) (`url`, `codecs`,
//!   `bodies`, `html`, `keys`, `wasm`);
//! - a disk: bytecode (`bytecode`).
//!
//! Files that a developer gives to `tenon dev` are not among these sources, because no attacker
//! controls them.
//!
//! A crate exposes internals to the targets in a module `fuzzing`, which exists only under
//! `cfg(fuzzing)`. `corpus` contains the inputs that have been found so far, `dictionaries`
//! contains the tokens of formats, and `workers` contains the code that runs in an isolate.

mod host;
mod pieces;

pub use host::Host;
pub use pieces::pieces;
