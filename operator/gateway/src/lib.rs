//! The Gateway API: which HTTPRoutes serve which hosts, and what the statuses of its objects say.
//!
//! ```text
//!  Gateway ─► listeners ─┐
//!  Secret, ReferenceGrant┤           ┌─► hosts: rules of the catalog ─► routers
//!  Namespace ────────────┼─► attach ─┤
//!  HTTPRoute ─► compile ─┘           └─► status
//! ```
//!
//! - [`objects`]: the fields of the API's objects that the platform reads and writes.
//! - [`listeners`]: the listeners that routers serve, and why they do not serve the others.
//! - [`attach`], [`hosts`]: the listeners to which a route attaches, and its hosts there.
//! - [`compile`]: the rules of a route, as the catalog has them.
//! - [`precedence`]: the rules of all routes of a host, in the order in which they match.
//! - [`references`]: references across namespaces.
//! - [`gateways`]: the state of all objects; [`change`]: their changes, and what a change affects.
//! - [`status`]: the statuses.
//!
//! The crate is pure. It does not know which hosts a namespace may have: its caller decides that.

pub mod attach;
pub mod change;
pub mod compile;
pub mod gateways;
pub mod hosts;
pub mod listeners;
pub mod objects;
pub mod precedence;
pub mod references;
pub mod status;
mod uses;

use std::collections::BTreeMap;

pub use change::{Changed, Effects, Lookups, Subject};
pub use gateways::Gateways;
pub use listeners::Ports;

/// The name by which a GatewayClass selects the platform.
pub const CONTROLLER: &str = "tenon.dev/router";

/// Namespace and name of an object.
pub type Key = (String, String);

/// The labels of one namespace.
pub type Labels = BTreeMap<String, String>;
