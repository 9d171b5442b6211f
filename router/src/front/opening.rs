//! Delays the clients of a thread that runs beside a shard until the thread has a table.
//!
//! ```text
//!  process starts ─► table arrives ───────────────────────────────────────► serve
//!                 └► not within PATIENCE ─► stop listening ─► table arrives ─► listen ─► serve
//! ```
//!
//! Clients are not sent to a router that is not ready. A shard's process, however, is restarted
//! while its Pod stays ready, and clients keep connecting: without a table, each of them would get
//! 404. For a moment, connections wait in the kernel's queue. If the table does not arrive, because
//! no operator is reachable, the socket leaves the group of sockets that share the address, so that
//! the kernel gives new connections to the other shards of the node.

use std::io;
use std::net::{Shutdown, TcpListener};
use std::pin::pin;
use std::time::Duration;

use socket2::SockRef;
use tenon_lifecycle::drain;
use tenon_lifecycle::readiness::Readiness;
use tokio::sync::watch;

use crate::front::{BACKLOG, Listeners};

/// The time for which connections wait for the first table. A process that can reach an operator
/// has the table within a fraction of this time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// Waits for the first publication of a table, or for the drain.
///
/// # Arguments
/// * `readiness` - held while the sockets do not listen.
/// * `patience` - the time for which the sockets keep listening without a table.
///
/// # Errors
/// Fails if the listeners cannot listen again.
pub(crate) async fn until_table(
    listeners: &Listeners,
    mut changes_rx: watch::Receiver<()>,
    drain: &drain::Watch,
    readiness: &Readiness,
    patience: Duration,
) -> io::Result<()> {
    let mut arrived = pin!(async {
        tokio::select! {
            // The catalog's thread ends after this thread, so the result is never an error.
            _ = changes_rx.changed() => {}
            () = drain.signaled() => {}
        }
    });
    if tokio::time::timeout(patience, arrived.as_mut()).await.is_ok() {
        return Ok(());
    }
    tracing::warn!(
        "no operator has sent the catalog yet; clients connect to other shards until then"
    );
    let _closed = readiness.hold("clients");
    listeners.all().try_for_each(|listener| SockRef::from(listener).shutdown(Shutdown::Read))?;
    arrived.await;
    listeners.all().try_for_each(listen_again)
}

fn listen_again(listener: &TcpListener) -> io::Result<()> {
    SockRef::from(listener).listen(BACKLOG)
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpStream};

    use super::*;
    use crate::front;

    fn listeners() -> Listeners {
        let clients = front::listen(([127, 0, 0, 1], 0).into()).unwrap();
        Listeners { clients, https: None, internal: None }
    }

    async fn until_refused(address: SocketAddr) {
        while TcpStream::connect(address).is_ok() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_thread_without_a_table_leaves_its_clients_to_others_until_the_table_arrives() {
        let (listeners, (changes_tx, changes_rx)) = (listeners(), watch::channel(()));
        let (_signal, drain) = drain::channel();
        let address = listeners.clients.local_addr().unwrap();
        let readiness = Readiness::new();
        let mut opening =
            pin!(until_table(&listeners, changes_rx, &drain, &readiness, Duration::ZERO));
        tokio::select! {
            biased;
            _ = opening.as_mut() => panic!("clients are served without a table"),
            () = until_refused(address) => {}
        }
        assert!(!readiness.is_ready());
        changes_tx.send_replace(());
        opening.await.unwrap();
        assert!(readiness.is_ready() && TcpStream::connect(address).is_ok());
    }

    #[tokio::test]
    async fn clients_wait_for_a_table_that_arrives_soon() {
        let (listeners, (changes_tx, changes_rx)) = (listeners(), watch::channel(()));
        let (_signal, drain) = drain::channel();
        let address = listeners.clients.local_addr().unwrap();
        let readiness = Readiness::new();
        let mut opening =
            pin!(until_table(&listeners, changes_rx, &drain, &readiness, Duration::MAX));
        assert!(futures::poll!(opening.as_mut()).is_pending());
        assert!(TcpStream::connect(address).is_ok());
        changes_tx.send_replace(());
        opening.await.unwrap();
    }

    #[tokio::test]
    async fn a_drain_ends_the_wait_for_the_table() {
        let (listeners, (_changes_tx, changes_rx)) = (listeners(), watch::channel(()));
        let (signal, drain) = drain::channel();
        drop(signal);
        until_table(&listeners, changes_rx, &drain, &Readiness::new(), Duration::MAX)
            .await
            .unwrap();
    }
}
