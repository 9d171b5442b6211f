//! The way to a shard: picks one, sends the request, and decides what a failure means.
//!
//! ```text
//!  forward ─► pick: placement ─► exchange: upload ─► link: bulkhead, heard ─► shard
//!     ▲                              │                 │
//!     └──────── retry ◄──────────────┘                 └─► health, pulse, silence
//! ```
//!
//! - [`forward`]: one invocation, with all its attempts.
//! - [`pick`], [`placement`]: the shard or lane that an attempt goes to.
//! - [`exchange`], [`upload`]: one attempt, and the request's body in it.
//! - [`link`], [`heard`], [`bulkhead`]: the connection to a shard, and the requests that it carries.
//! - [`health`], [`pulse`], [`silence`]: whether a shard takes requests.
//! - [`retry`]: whether a failed attempt may be repeated.
//!
//! Depends on `table`, `quota`, `metrics` and `trace`, and on no other group.

pub(crate) mod bulkhead;
pub(crate) mod exchange;
pub(crate) mod forward;
pub(crate) mod health;
pub(crate) mod heard;
pub(crate) mod link;
pub(crate) mod pick;
pub(crate) mod placement;
pub(crate) mod pulse;
pub(crate) mod retry;
pub(crate) mod silence;
pub(crate) mod upload;
