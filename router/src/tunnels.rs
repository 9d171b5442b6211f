//! How many tunnels a thread has, and their end.
//!
//! They are counted apart from requests: a request's place is free again within its Worker's wall limit, while a tunnel that
//! nobody uses may be there for days, and a thread full of those would serve nobody.
//!
//! Belongs to one thread.

use std::sync::Arc;

use prometheus::IntGauge;
use tokio::sync::watch;

use crate::clients::{Client, InHand};
use crate::quota::{Account, Hold, Peer, Quota};
use crate::thread::Accounts;

/// Tunnels of a thread at once. One that is idle has a socket, a stream and a few KiB, which are counted with its connection.
const MAX: usize = 16_384;

pub(crate) struct Tunnels {
    open: Quota,
    gauge: IntGauge,
    /// Turns true when all are to end.
    end_tx: watch::Sender<bool>,
}

/// Room for one tunnel.
pub(crate) struct Place {
    _hold: Hold,
    /// Of the connection that it is on.
    in_hand: Option<InHand>,
    gauge: IntGauge,
    end_rx: watch::Receiver<bool>,
}

impl Tunnels {
    pub(crate) fn new(gauge: IntGauge) -> Self {
        Self { open: Quota::new(MAX), gauge, end_tx: watch::Sender::new(false) }
    }

    pub(crate) fn account(&self, peer: Peer) -> Account {
        self.open.account(peer)
    }

    /// Room for one more, if there is any for this address.
    pub(crate) fn place(&self, accounts: &Accounts) -> Option<Place> {
        let hold = accounts.tunnels.take(1)?;
        self.gauge.inc();
        Some(Place { _hold: hold, in_hand: None, gauge: self.gauge.clone(), end_rx: self.end_tx.subscribe() })
    }

    /// Has all end, now and to come.
    pub(crate) fn end(&self) {
        self.end_tx.send_replace(true);
    }

    /// Resolves when there is none.
    pub(crate) async fn ended(&self) {
        self.end_tx.closed().await;
    }
}

impl Place {
    /// Keeps the connection in hand, which may have nothing but this tunnel.
    pub(crate) fn on(mut self, in_hand: InHand) -> Self {
        self.in_hand = Some(in_hand);
        self
    }

    /// Whose connection it is on.
    pub(crate) fn client(&self) -> Option<Arc<Client>> {
        self.in_hand.as_ref().map(|in_hand| in_hand.client().clone())
    }

    /// Resolves when the tunnel is to end.
    pub(crate) async fn ended(&mut self) {
        // The thread goes after its tunnels; if it did not, that would be an end as well.
        let _ = self.end_rx.wait_for(|ended| *ended).await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}
