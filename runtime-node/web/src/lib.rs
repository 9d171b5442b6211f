//! The Web interfaces of Workers: JavaScript that is evaluated into the start-up snapshot, and the
//! native functions behind it.
//!
//! ```text
//!  Worker's code ─► <interface>/*.js ─► ops ─► <interface>.rs ─┬─► tenon-engine: isolates, limits
//!                     (in the snapshot)                         ├─► tenon-egress: the HTTP client
//!                                                               └─► tenon-crypto, tenon-html
//! ```
//!
//! Each interface has a folder with its JavaScript and its native functions:
//!
//! - `bootstrap`, `builtins`: the object `internal` and the primordials; bounds on the built-in
//!   functions of ECMAScript.
//! - [`delivery`]: the start of a Worker and the delivery of events; [`timers`]; `events`.
//! - [`fetch`], [`streams`], [`url`], [`encoding`], [`crypto`], [`cache`], [`clone`], [`console`],
//!   [`websocket`], [`wasm`]: the standards of those names.
//! - [`htmlrewriter`]: `HTMLRewriter` of Cloudflare Workers.
//! - [`service`]: requests to other Workers; [`rpc`]: calls of their methods; [`sockets`]: TCP
//!   connections; [`nodejs`]: modules of Node.js.
//! - [`ops`]: the arguments and results of native functions.
//!
//! The engine does not depend on this crate: it uses [`Web`] through the trait
//! [`tenon_engine::Interfaces`].

mod cache;
mod clone;
mod console;
mod crypto;
mod delivery;
mod encoding;
mod fetch;
#[cfg(fuzzing)]
pub mod fuzzing;
mod htmlrewriter;
mod nodejs;
mod ops;
mod rpc;
mod service;
mod sockets;
mod streams;
mod timers;
mod url;
mod wasm;
mod websocket;

use std::rc::Rc;
use std::sync::Arc;

use tenon_egress::{Client, EgressMetrics, Settings};
use tenon_engine::snapshot::{Builtins, References};
use tenon_engine::state::State;
use tenon_engine::{Attachment, Interfaces};
use tenon_proto::runtime::Header;

pub use cache::store as response_cache;
pub use service::calls::{Call, CallResponse, Services};

use fetch::outbound::Outbound;
use response_cache::ResponseCache;
use service::calls::NoServices;
use websocket::sockets::{Handshake, Leaving, Sockets};

// `build.rs` generates `SOURCES`, the texts of the built-in JavaScript, and `LATE`, the names of
// the files that are not in the snapshot, each with its index in `SOURCES`.
include!(concat!(env!("OUT_DIR"), "/sources.rs"));

/// The built-in JavaScript and its native functions.
static BUILTINS: Builtins = Builtins {
    blob: include_bytes!(concat!(env!("OUT_DIR"), "/snapshot.bin")),
    sources: &SOURCES,
    late: LATE,
    functions: ops::callbacks,
    references: References::new(),
};

/// The Web interfaces of a shard's Workers, and the state that they share. Belongs to the shard's
/// thread.
pub struct Web {
    client: Rc<Client>,
    services: Rc<dyn Services>,
    responses: Arc<ResponseCache>,
    leaving: Leaving,
}

impl Default for Web {
    /// Creates interfaces with the system's settings for outgoing requests, without a cache for
    /// responses and without other Workers to call.
    fn default() -> Self {
        Self {
            client: Rc::new(Client::new(&Settings::default(), EgressMetrics::default())),
            services: Rc::new(NoServices),
            responses: ResponseCache::new(0),
            leaving: Leaving::default(),
        }
    }
}

impl Web {
    /// Replaces the client for outgoing requests.
    #[must_use]
    pub fn with_egress(self, client: Client) -> Self {
        Self { client: Rc::new(client), ..self }
    }

    /// Replaces the cache of the responses that Workers store.
    #[must_use]
    pub fn with_responses(self, responses: Arc<ResponseCache>) -> Self {
        Self { responses, ..self }
    }

    /// Replaces the implementation that performs calls to other Workers.
    #[must_use]
    pub fn with_services(self, services: Rc<dyn Services>) -> Self {
        Self { services, ..self }
    }
}

impl Interfaces for Web {
    fn builtins(&self) -> &'static Builtins {
        &BUILTINS
    }

    fn initialize(&self, isolate: &mut v8::Isolate, state: &Rc<State>) {
        isolate.set_slot(Arc::clone(&self.responses));
        isolate.set_slot(self.leaving.clone());
        let outbound =
            Outbound::new(Rc::clone(&self.client), Rc::clone(&self.services), &state.revision);
        isolate.set_slot(outbound);
    }

    fn upgrade(&self, method: &str, headers: &[Header]) -> Option<Box<dyn Attachment>> {
        Some(Box::new(Sockets::with_handshake(Handshake::requested(method, headers)?)))
    }

    fn leave(&self) {
        self.leaving.begin();
    }
}
