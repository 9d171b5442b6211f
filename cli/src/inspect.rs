//! Serves clients of the inspector protocol, such as Chrome's DevTools and VS Code, for
//! `tenon dev --inspect`.
//!
//! ```text
//!  GET /json/list ─► guard ─► the targets: one for each Worker
//!  WebSocket /NAMESPACE/NAME ─► guard ─► relay ◄─► the Worker's isolate (tenon_engine::inspector)
//! ```
//!
//! A client can run code in the Workers, so the requests of Web pages are refused ([`guard`]).
//!
//! - [`server`]: the HTTP endpoints and the WebSockets.
//! - [`guard`]: decides which requests are served. Pure.
//! - [`stepping`]: the filter that keeps steps out of the built-in JavaScript.
//! - [`scripts`]: the descriptions of a Worker's modules for clients.

mod guard;
pub(crate) mod scripts;
mod server;
mod stepping;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::Context as _;
use tenon_engine::inspector::Inspector;
use tokio::net::TcpListener;

use crate::served_workers::Changes;

/// The address on which the inspector of Node.js listens by default. Clients that are not
/// configured look for targets there.
const DEFAULT: &str = "127.0.0.1:9229";

#[derive(clap::Args)]
pub(crate) struct InspectArgs {
    /// Let debuggers such as Chrome and VS Code connect to this address. All Workers then run on
    /// one thread, with a wall-clock limit of 24 hours.
    #[arg(
        long,
        value_name = "[HOST:]PORT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = DEFAULT,
        value_parser = address,
        conflicts_with = "inspect_brk"
    )]
    inspect: Option<SocketAddr>,

    /// Do what --inspect does, and pause each Worker at its first statement until a debugger
    /// continues the Worker.
    #[arg(
        long,
        value_name = "[HOST:]PORT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = DEFAULT,
        value_parser = address
    )]
    inspect_brk: Option<SocketAddr>,
}

/// The inspector of a running `tenon dev`.
pub(crate) struct Inspection {
    pub(crate) inspector: Arc<Inspector>,
    /// The address on which clients connect.
    pub(crate) address: SocketAddr,
}

impl InspectArgs {
    /// Returns whether clients may debug the Workers.
    pub(crate) fn is_set(&self) -> bool {
        self.inspect.or(self.inspect_brk).is_some()
    }

    /// Starts to serve clients, if the arguments request it.
    ///
    /// # Errors
    /// Fails if the program cannot listen on the address.
    pub(crate) async fn start(&self) -> anyhow::Result<Option<Inspection>> {
        let Some(address) = self.inspect.or(self.inspect_brk) else { return Ok(None) };
        let listener = TcpListener::bind(address).await.with_context(|| {
            format!("cannot listen for debuggers on {address}; choose another port: --inspect=PORT")
        })?;
        let address = listener.local_addr()?;
        let inspector = Inspector::new(self.inspect_brk.is_some());
        tokio::spawn(server::serve(listener, Arc::clone(&inspector)));
        Ok(Some(Inspection { inspector, address }))
    }
}

impl Inspection {
    /// Updates the list of Workers that clients see.
    pub(crate) fn follow(&self, changes: &Changes) {
        changes.removed.iter().for_each(|id| self.inspector.remove(id));
        for loaded in &changes.served {
            self.inspector.announce(&loaded.revision, loaded.digest, loaded.scripts.clone());
        }
    }
}

/// Parses `HOST:PORT` or `PORT`. The host is an address or `localhost`.
fn address(text: &str) -> Result<SocketAddr, String> {
    let text = text.replacen("localhost", "127.0.0.1", 1);
    let port = text.parse().map(|port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    port.or_else(|_| text.parse())
        .map_err(|_| "expected PORT or HOST:PORT, such as 9229 or 127.0.0.1:9229".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_port_with_or_without_a_host() {
        let shown = |text| address(text).map(|address| address.to_string());
        assert_eq!(shown("9230").as_deref(), Ok("127.0.0.1:9230"));
        assert_eq!(shown("localhost:9230").as_deref(), Ok("127.0.0.1:9230"));
        assert_eq!(shown("0.0.0.0:0").as_deref(), Ok("0.0.0.0:0"));
        assert_eq!(shown("[::1]:9229").as_deref(), Ok("[::1]:9229"));
        assert!(shown("example.com:9229").is_err() && shown("70000").is_err());
    }
}
