//! The process lifecycle that every Tenon process shares.
//!
//! ```text
//!  Args ─► log::init ─► admin::spawn ─► build ─► serve … termination ─► drain ─► exit
//!                          │              │                               │
//!                       /livez     readiness handles,              every Watch is
//!                       /metrics   dropped one by one ─► /readyz   dropped ─► done
//! ```
//!
//! - [`log`]: JSON for machines, plain lines for people; logging never blocks the calling thread.
//! - [`readiness`]: the process is ready once every awaited part is up.
//! - [`admin`]: probes and metrics, on a thread that nothing else can starve.
//! - [`drain`]: the process finishes what is in flight before it exits.
//! - [`tls`]: processes of the platform authenticate one another with certificates;
//!   [`open_connection`]: gRPC over a connection that is already open.
//! - [`cache`], [`disk_cache`]: least-recently-used caches, in memory and on disk.
//! - [`permits`]: permits for work that is limited in total and for each namespace.
//! - [`vital`]: threads and tasks whose panic ends the process.
//! - [`metrics`]: metric families, and metrics by the values of a label; [`process`]: the process's
//!   use of CPU, memory and files; [`event_loop`]: the load of the serving threads; [`warnings`]: a
//!   rate limit on log lines that peers cause.
//!
//! Nothing in this crate starts a thread before [`log::init`] is called, so that V8 can be
//! initialized first.

pub mod admin;
pub mod cache;
pub mod disk_cache;
pub mod drain;
pub mod event_loop;
pub mod log;
pub mod metrics;
pub mod open_connection;
pub mod permits;
pub mod process;
pub mod readiness;
pub mod tls;
pub mod vital;
pub mod warnings;
