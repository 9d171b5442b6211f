//! The certificates with which the platform's processes authenticate one another: when they are
//! issued and renewed, and the Secrets in which they are stored.
//!
//! ```text
//!  stored Secrets, pools, now ─► State ─► plan ─► Plan ─► keys, certificates ─► Secrets to write
//! ```
//!
//! - [`plan`]: every decision. Pure.
//! - [`issue`]: the creation of keys and certificates.
//! - [`subject`]: the holders of certificates: operators, routers and the nodes of each pool.
//! - [`secrets`]: the Secrets in which certificates are stored.
//!
//! The crate reads and writes nothing: the operator carries out the plan.

pub mod issue;
pub mod plan;
pub mod secrets;
pub mod subject;
