//! The schedules of Workers: when they are due, and the calls of `scheduled` handlers.
//!
//! ```text
//!  Worker, now ─► Due ─┬─► claim: the new status, written before the calls
//!                      ├─► calls ─► Caller ─► router
//!                      └─► next ─► TimerQueue
//! ```
//!
//! - [`timetable`]: the times of a schedule. Pure.
//! - [`due`]: the times that are due, and the status once they are claimed. Pure.
//! - [`timer_queue`]: the next time of each Worker. Pure.
//! - [`call`]: the call itself.
//!
//! The operator and `tenon dev` decide when to look at a schedule; this crate does not access a
//! cluster.

pub mod call;
pub mod due;
pub mod timer_queue;
pub mod timetable;
