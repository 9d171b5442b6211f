//! Reconciles Workers, RuntimePools and HostGrants and serves the catalog.
//!
//! ```text
//!  API server ─► watches ─► index ──touched──► worker: queue ─► plan ─► apply   (the leader)
//!                             └──serving──► catalog ──► routers, nodes         (every replica)
//!                       health, figures ◄── reports ──────────────┘            (every replica)
//!                              schedule ──calls──► routers                     (the leader)
//!                               gateway ──statuses──► API server               (the leader)
//!                          certificates ──Secrets──► all processes             (the leader)
//! ```
//!
//! - [`index`], [`claims`], [`grants`], [`namespaces`], [`endpoints`], [`worker::plan`],
//!   [`pool::plan`], [`revision`], [`limits`], [`refusal`], [`kstatus`], `measurement`, `author`,
//!   [`health::verdict`], [`deployments`], [`tenon_schedule::due`], [`tenon_certificates::plan`],
//!   [`tenon_gateway`]: decisions, pure.
//! - [`artifacts`], [`watches`], [`worker`], [`pool`], [`host_grant`], [`gateway`], [`leader`],
//!   [`health`], [`figures`], [`schedule`], [`certificates`], [`acknowledgement`], [`events`],
//!   [`early`]: the edges that carry out the decisions. The catalog is a crate of its own,
//!   [`tenon_catalog`].
//! - [`Operator`]: builds, spawns and joins all edges.
//! - [`probe`]: an end-to-end check of an installation, from the view of a tenant.

pub mod acknowledgement;
pub mod artifacts;
mod author;
pub mod certificates;
pub mod claims;
pub mod config;
pub mod deployments;
pub mod early;
pub mod endpoints;
pub mod events;
pub mod figures;
pub mod gateway;
pub mod grants;
pub mod health;
pub mod host_grant;
pub mod index;
pub mod kstatus;
pub mod leader;
pub mod limits;
mod measurement;
pub mod metrics;
pub mod namespaces;
mod operator;
mod owner;
pub mod pool;
pub mod probe;
pub mod refusal;
pub mod revision;
pub mod schedule;
pub mod watches;
pub mod worker;

pub use operator::{Operator, RunError, SpawnError};
