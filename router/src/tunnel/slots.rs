//! Counts a thread's tunnels, and ends them.
//!
//! Tunnels are counted separately from requests: a request's permit is free again within its
//! Worker's wall limit, while an idle tunnel may be open for days. If both were counted together, a
//! thread full of idle tunnels would serve no requests.
//!
//! The slots belong to one thread.

use std::sync::Arc;

use prometheus::{IntGauge, Registry};
use tenon_clients::quota::{Account, Hold, Peer, Quota};
use tenon_clients::{Client, InFlight};
use tenon_lifecycle::metrics::Register as _;
use tokio::sync::watch;

/// The maximum number of tunnels per thread. An idle tunnel takes a socket, a stream and a few KiB,
/// which are part of the memory of its connection.
const MAX_TUNNELS: usize = 16_384;

/// Registers the gauge of the tunnels of all threads.
///
/// # Errors
/// Fails if the registry already has this gauge.
pub(crate) fn register(registry: &Registry) -> prometheus::Result<IntGauge> {
    registry.gauge("tenon_router_tunnels", "WebSockets that are open or being opened.")
}

/// The tunnels of a thread.
pub(crate) struct Tunnels {
    open: Quota,
    gauge: IntGauge,
    /// Becomes true when all tunnels must end.
    end_tx: watch::Sender<bool>,
}

/// The slot of one tunnel.
pub(crate) struct TunnelSlot {
    _hold: Hold,
    /// The request of the tunnel, which stays in flight.
    in_flight: Option<InFlight>,
    gauge: IntGauge,
    end_rx: watch::Receiver<bool>,
}

impl Tunnels {
    pub(crate) fn new(gauge: IntGauge) -> Self {
        Self { open: Quota::new(MAX_TUNNELS), gauge, end_tx: watch::Sender::new(false) }
    }

    /// Returns the share of an address.
    pub(crate) fn account(&self, peer: Peer) -> Account {
        self.open.account(peer)
    }

    /// Takes a slot for one more tunnel, if the address of this account may have one.
    pub(crate) fn take(&self, account: &Account) -> Option<TunnelSlot> {
        let hold = account.take(1)?;
        self.gauge.inc();
        Some(TunnelSlot {
            _hold: hold,
            in_flight: None,
            gauge: self.gauge.clone(),
            end_rx: self.end_tx.subscribe(),
        })
    }

    /// Ends all tunnels, including those opened later.
    pub(crate) fn end(&self) {
        self.end_tx.send_replace(true);
    }

    /// Waits until there are no tunnels.
    pub(crate) async fn ended(&self) {
        self.end_tx.closed().await;
    }
}

impl TunnelSlot {
    /// Keeps the request of this tunnel in flight, because the connection may have no other
    /// request.
    pub(crate) fn hold_request(mut self, in_flight: InFlight) -> Self {
        self.in_flight = Some(in_flight);
        self
    }

    /// Returns the client whose connection the tunnel uses, or `None` for a tunnel of a call at the
    /// internal listener.
    pub(crate) fn client(&self) -> Option<Arc<Client>> {
        self.in_flight.as_ref().map(|in_flight| in_flight.client().clone())
    }

    /// Waits until the tunnel must end.
    pub(crate) async fn ended(&mut self) {
        // The thread outlives its tunnels, and a dropped sender would also end the tunnel.
        let _ = self.end_rx.wait_for(|ended| *ended).await;
    }
}

impl Drop for TunnelSlot {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}
