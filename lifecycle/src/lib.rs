//! What every Tenon process shares of its life.
//!
//! ```text
//!  Args ─► log::init ─► admin::spawn ─► build ─► serve … termination ─► drain ─► exit
//!                          │              │                               │
//!                       /livez     readiness handles,              every Watch is
//!                       /metrics   dropped one by one ─► /readyz   dropped ─► done
//! ```
//!
//! - [`log`]: JSON for machines, lines for people; whoever logs never waits.
//! - [`readiness`]: ready once everything that was waited for has come.
//! - [`admin`]: probes and metrics, on a thread that nothing else can starve.
//! - [`drain`]: finish what is in flight, then leave.
//! - [`tls`]: processes of the platform know one another by certificates.
//! - [`vital`]: threads whose panic is the process's end.
//! - [`process`]: what it uses of its machine; [`event_loop`]: how busy the threads are that serve.
//!
//! Nothing here starts a thread before [`log::init`] is called, so that V8 can be initialised first.

pub mod admin;
pub mod drain;
pub mod event_loop;
pub mod log;
pub mod process;
pub mod readiness;
pub mod tls;
pub mod vital;
