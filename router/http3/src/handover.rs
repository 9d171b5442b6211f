//! Hands datagrams to the thread that owns their connection.
//!
//! ```text
//!  kernel ─ by addresses and ports ─► any thread ─ by connection id ─┬─ its own ───► endpoint
//!                                                                    └─ other ─► queue ─► endpoint
//! ```
//!
//! The kernel distributes datagrams by a hash of their addresses and ports. A client that changes
//! its address, such as a phone that leaves a wireless network, may therefore reach another thread.
//! This is rare, so a copy and a wake-up of the other thread cost little. A queue is bounded: like
//! a network, it drops what does not fit, and the client sends it again.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use quinn::udp::{EcnCodepoint, RecvMeta};
use tokio::sync::mpsc;

use crate::connection_id::ConnectionIds;
use crate::datagram;

/// The maximum number of datagrams that wait for a thread. They take at most 384 KiB.
const QUEUE: usize = 256;

/// The maximum size of a datagram that endpoints accept, in bytes: the default of quinn.
const DATAGRAM: usize = 1472;

/// A datagram that has reached a thread other than the owner of its connection.
#[derive(Debug)]
pub(crate) struct Datagram {
    pub(crate) bytes: Box<[u8]>,
    pub(crate) source: SocketAddr,
    pub(crate) destination: Option<IpAddr>,
    pub(crate) ecn: Option<EcnCodepoint>,
}

/// The destination of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// The thread that has received the datagram.
    Own,
    /// The datagram has been handed over.
    Other,
    /// The datagram is dropped, because the other thread's queue is full, or because the datagram
    /// is larger than endpoints accept.
    Lost,
}

/// One thread's access to the queues of all threads.
#[derive(Debug)]
pub(crate) struct Handover {
    own: usize,
    ids: ConnectionIds,
    queues: Arc<[mpsc::Sender<Datagram>]>,
}

/// Creates the queues of all threads. Returns, for each thread, its access to the queues and the
/// receiver of its own queue.
pub(crate) fn channels(
    threads: usize,
    ids: &ConnectionIds,
) -> Vec<(Handover, mpsc::Receiver<Datagram>)> {
    let (txs, rxs): (Vec<_>, Vec<_>) = (0..threads).map(|_| mpsc::channel(QUEUE)).unzip();
    let queues: Arc<[_]> = txs.into();
    let handover = |own| Handover { own, ids: ids.clone(), queues: queues.clone() };
    rxs.into_iter().enumerate().map(|(own, rx)| (handover(own), rx)).collect()
}

impl Handover {
    /// Hands a datagram to the thread that owns its connection, if that is another thread. Drops a
    /// datagram that is too large, or for which the queue of that thread has no room.
    pub(crate) fn route(&self, bytes: &[u8], meta: &RecvMeta) -> Destination {
        // The endpoint drops larger datagrams, and a queue must not hold them.
        if bytes.len() > DATAGRAM {
            return Destination::Lost;
        }
        let owner = datagram::destination(bytes).and_then(|id| self.ids.owner(id));
        let Some(queue) = owner.filter(|owner| *owner != self.own).map(|owner| &self.queues[owner])
        else {
            return Destination::Own;
        };
        let datagram = |slot: mpsc::Permit<'_, _>| {
            slot.send(Datagram {
                bytes: bytes.into(),
                source: meta.addr,
                destination: meta.dst_ip,
                ecn: meta.ecn,
            });
        };
        match queue.try_reserve().map(datagram) {
            Ok(()) => Destination::Other,
            Err(_) => Destination::Lost,
        }
    }
}

#[cfg(test)]
mod tests {
    use quinn::ConnectionIdGenerator as _;

    use super::*;

    fn addressed_to(id: &[u8]) -> Vec<u8> {
        [&[0x41], id, b"payload"].concat()
    }

    #[test]
    fn a_datagram_goes_to_the_owner_of_its_connection() {
        let ids = ConnectionIds::new(2);
        let [(first, _first_rx), (_, mut second_rx)] =
            <[_; 2]>::try_from(channels(2, &ids)).unwrap();
        let meta = RecvMeta::default();
        let (own, others) = (ids.of_thread(0).generate_cid(), ids.of_thread(1).generate_cid());
        assert_eq!(first.route(&addressed_to(&own), &meta), Destination::Own);
        assert_eq!(first.route(b"no connection", &meta), Destination::Own);
        assert!(second_rx.try_recv().is_err());
        assert_eq!(first.route(&addressed_to(&others), &meta), Destination::Other);
        assert_eq!(*second_rx.try_recv().unwrap().bytes, addressed_to(&others));
    }

    #[test]
    fn a_full_queue_loses_datagrams() {
        let ids = ConnectionIds::new(2);
        let threads = channels(2, &ids);
        let others = addressed_to(&ids.of_thread(1).generate_cid());
        let route = || threads[0].0.route(&others, &RecvMeta::default());
        assert!((0..QUEUE).all(|_| route() == Destination::Other));
        assert_eq!(route(), Destination::Lost);
    }
}
