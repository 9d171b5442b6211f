//! How many tunnels a thread has, and their end.
//!
//! They are counted apart from requests: a request's place is free again within its Worker's wall limit, while a tunnel that
//! nobody uses may be there for days, and a thread full of those would serve nobody.
//!
//! Belongs to one thread.

use std::cell::Cell;
use std::rc::Rc;

use prometheus::IntGauge;
use tokio::sync::watch;

/// Tunnels of a thread at once. One that is idle has a socket, a stream and a few KiB.
const MAX: usize = 16_384;

pub(crate) struct Tunnels {
    open: Rc<Cell<usize>>,
    gauge: IntGauge,
    /// Turns true when all are to end.
    end_tx: watch::Sender<bool>,
}

/// Room for one tunnel.
pub(crate) struct Place {
    open: Rc<Cell<usize>>,
    gauge: IntGauge,
    end_rx: watch::Receiver<bool>,
}

impl Tunnels {
    pub(crate) fn new(gauge: IntGauge) -> Self {
        Self { open: Rc::default(), gauge, end_tx: watch::Sender::new(false) }
    }

    /// Room for one more, if there is any.
    pub(crate) fn place(&self) -> Option<Place> {
        let open = self.open.get();
        (open < MAX).then(|| {
            self.open.set(open + 1);
            self.gauge.inc();
            Place { open: self.open.clone(), gauge: self.gauge.clone(), end_rx: self.end_tx.subscribe() }
        })
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
    /// Resolves when the tunnel is to end.
    pub(crate) async fn ended(&mut self) {
        // The thread goes after its tunnels; if it did not, that would be an end as well.
        let _ = self.end_rx.wait_for(|ended| *ended).await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.open.set(self.open.get() - 1);
        self.gauge.dec();
    }
}
