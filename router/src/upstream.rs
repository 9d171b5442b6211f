//! Picks a shard for a request, sends the request to it, and decides what a failure means.
//!
//! ```text
//!  forward ─► pick: placement ─► exchange: upload ─► link: bulkhead, connection ─► shard
//!     ▲                              │                 │
//!     └──────── retry ◄──────────────┘                 └─► health, pulse, silence
//! ```
//!
//! - [`forward`]: one invocation, with all its attempts.
//! - [`pick`], [`placement`], [`spread`]: the shard or lane that an attempt goes to.
//! - [`exchange`], [`heads`], [`upload`], [`reply_body`]: one attempt, the request's head and body
//!   in it, and its response.
//! - [`inline`]: attempts on the shard of this thread, if it has one.
//! - [`links`], [`link`], [`connection`], [`counting_stream`], [`bulkhead`]: the connections to
//!   shards, and the requests that they carry.
//! - [`health`], [`pulse`], [`silence`], [`shared_probe`]: whether a shard should get requests.
//! - [`retry`]: whether a failed attempt may be repeated.
//! - [`metrics`]: the metrics of all of these.
//!
//! These modules depend on the crate's modules `executor`, `figures` and `trace`, and on no others.
//! Their state belongs to one thread.

pub(crate) mod bulkhead;
pub(crate) mod connection;
pub(crate) mod counting_stream;
pub(crate) mod exchange;
pub(crate) mod forward;
pub(crate) mod heads;
pub(crate) mod health;
pub(crate) mod inline;
pub(crate) mod link;
pub(crate) mod links;
pub(crate) mod metrics;
pub(crate) mod pick;
pub(crate) mod placement;
pub(crate) mod pulse;
pub(crate) mod reply_body;
pub(crate) mod retry;
pub(crate) mod shared_probe;
pub(crate) mod silence;
pub(crate) mod spread;
pub(crate) mod upload;

use std::cell::RefCell;
use std::rc::Rc;

use crate::figures::ThreadFigures;
use crate::upstream::links::Links;
use crate::upstream::metrics::UpstreamMetrics;
use crate::upstream::placement::Placements;
use crate::upstream::retry::Budget;
use crate::upstream::spread::Spread;

/// The state that a thread keeps about shards. All requests of the thread share this state.
pub(crate) struct Upstream {
    pub(crate) links: Links,
    pub(crate) placements: RefCell<Placements>,
    pub(crate) spread: RefCell<Spread>,
    pub(crate) budget: RefCell<Budget>,
    pub(crate) metrics: Rc<UpstreamMetrics>,
    /// The figures of measured Workers.
    pub(crate) figures: Rc<ThreadFigures>,
}
