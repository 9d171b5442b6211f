//! The certificates by which the platform's processes authenticate one another: when they are
//! issued and renewed, and the Secrets in which they are stored.
//!
//! ```text
//!  stored Secrets, now ─► State ─► plan ─► Plan ─► keys, certificates ─► Secrets to write
//! ```
//!
//! - [`plan`]: every decision. Pure.
//! - [`issue`]: the creation of keys and certificates.
//! - [`secrets`]: the Secrets in which they are stored.
//!
//! The crate reads and writes nothing: the operator carries out the plan.

pub mod issue;
pub mod plan;
pub mod secrets;
