//! The harness of the tests across processes: real binaries on a real control plane.
//!
//! ```text
//!  Suite ── starts once ──► Platform: operator, router, 2 nodes ─ watch, status ─► control plane
//!    │                          ▲ HTTP                                                  ▲ objects
//!    └── for each test ──► Scenario: the platform and a namespace of its own ───────────┘
//! ```
//!
//! There is no kubelet; the harness does the kubelet's work. A [`Node`] is a process with its own
//! address and an EndpointSlice that states whether the node is ready; a [`Service`] stands in for
//! a ClusterIP. Everything runs inside the control plane's network namespace
//! (`deploy/cluster/run-in`), where every address of 192.0.2.128/25 is available.
//!
//! No test sleeps to wait: [`await_condition`] polls until a deadline and reports the last observed
//! state.

mod account;
mod address;
pub mod audit;
mod cluster;
mod condition;
mod http_client;
mod namespace;
mod node;
pub mod open_loop;
mod operator;
mod platform;
mod port_forward;
mod prober;
mod process;
mod router;
mod service;
mod suite;
mod volumes;
mod web_socket;

pub use account::{Account, CREDENTIAL, Right, rights};
pub use cluster::{Cluster, SYSTEM_NAMESPACE};
pub use condition::{SOON, await_condition};
pub use http_client::{Connection, HttpResponse};
pub use namespace::{Namespace, answering, worker};
pub use node::{Node, NodeOptions};
pub use operator::{Operator, REGISTRY};
pub use platform::Platform;
pub use port_forward::PortForward;
pub use prober::{Load, Outcome, Probe, Prober, Report};
pub use process::Process;
pub use router::Router;
pub use service::Service;
pub use suite::{Scenario, Suite};
pub use volumes::{Transport, Volumes};
pub use web_socket::{Closed, WebSocket};
