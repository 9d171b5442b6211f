//! Hands connections of clients between the threads of a node's shards.
//!
//! ```text
//!  threads of one process:   a bounded channel for each thread
//!  processes of a node:      a pair of Unix sockets for each; a message is a file descriptor
//! ```
//!
//! The supervisor holds both ends of every pair, so connections that are given to a process that
//! has ended wait for its successor. A queue that is full refuses a connection, and the thread that
//! has accepted it then serves it.

use std::cell::RefCell;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use rustix::cmsg_space;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use tenon_proto::id::ShardId;
use tenon_router::Siblings;
use tokio::io::Interest;
use tokio::sync::mpsc;

/// The maximum number of connections that wait until a thread of this process takes them. For Unix
/// sockets, the kernel's `net.unix.max_dgram_qlen` is the limit instead.
const QUEUE: usize = 64;

/// One thread's links to the threads of all shards, before they are opened on that thread.
pub(crate) enum SiblingLinks {
    Channels {
        given_rx: mpsc::Receiver<TcpStream>,
        /// The channel of each shard, by position.
        give: Vec<mpsc::Sender<TcpStream>>,
    },
    Sockets {
        given: UnixDatagram,
        /// The socket to each shard, by position.
        give: Vec<UnixDatagram>,
    },
}

impl SiblingLinks {
    /// Returns the links of each thread of one process.
    pub(crate) fn of_threads(threads: usize) -> Vec<Self> {
        let channels = (0..threads).map(|_| mpsc::channel(QUEUE));
        let (give, given): (Vec<_>, Vec<_>) = channels.unzip();
        let links = |given_rx| Self::Channels { given_rx, give: give.clone() };
        given.into_iter().map(links).collect()
    }

    /// Returns the siblings of the current thread.
    ///
    /// # Errors
    /// Fails if a socket cannot be polled.
    pub(crate) fn open(self) -> io::Result<Rc<dyn Siblings>> {
        Ok(match self {
            Self::Channels { given_rx, give } => {
                Rc::new(Threads { given_rx: RefCell::new(given_rx), give })
            }
            Self::Sockets { given, give } => {
                given.set_nonblocking(true)?;
                Rc::new(Processes { given: tokio::net::UnixDatagram::from_std(given)?, give })
            }
        })
    }
}

struct Threads {
    given_rx: RefCell<mpsc::Receiver<TcpStream>>,
    give: Vec<mpsc::Sender<TcpStream>>,
}

impl Siblings for Threads {
    fn give(&self, shard: ShardId, connection: TcpStream) -> Result<(), TcpStream> {
        match self.give.get(usize::from(shard.position())) {
            Some(give) => give.try_send(connection).map_err(mpsc::error::TrySendError::into_inner),
            None => Err(connection),
        }
    }

    fn poll_given(&self, cx: &mut Context<'_>) -> Poll<TcpStream> {
        match ready!(self.given_rx.borrow_mut().poll_recv(cx)) {
            Some(connection) => Poll::Ready(connection),
            // Every thread holds a sender to each thread, including itself, so the channel does not
            // end.
            None => Poll::Pending,
        }
    }
}

struct Processes {
    given: tokio::net::UnixDatagram,
    give: Vec<UnixDatagram>,
}

impl Siblings for Processes {
    fn give(&self, shard: ShardId, connection: TcpStream) -> Result<(), TcpStream> {
        let Some(give) = self.give.get(usize::from(shard.position())) else {
            return Err(connection);
        };
        // The message holds the connection from now on; the descriptor of this process is closed.
        send(give, &connection).map_err(|_| connection)
    }

    fn poll_given(&self, cx: &mut Context<'_>) -> Poll<TcpStream> {
        loop {
            // The socket does not fail while it is open.
            if ready!(self.given.poll_recv_ready(cx)).is_err() {
                return Poll::Pending;
            }
            match self.given.try_io(Interest::READABLE, || receive(&self.given)) {
                Ok(Some(connection)) => return Poll::Ready(connection),
                Ok(None) => tracing::warn!(
                    "another process sent a message without a connection; ignoring it"
                ),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot take a connection from another process");
                    // The socket is still ready, so it does not wake the task.
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
            }
        }
    }
}

/// Sends a connection's file descriptor with a message of one byte.
fn send(socket: &UnixDatagram, connection: &TcpStream) -> io::Result<()> {
    let descriptors = [connection.as_fd()];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    sendmsg(socket, &[IoSlice::new(&[0])], &mut control, flags)?;
    Ok(())
}

/// Receives a connection. Returns `None` for a message without one.
fn receive(socket: &tokio::net::UnixDatagram) -> io::Result<Option<TcpStream>> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, flags)?;
    let descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let descriptor: Option<OwnedFd> = descriptors.flatten().next();
    Ok(descriptor.map(TcpStream::from))
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use futures::FutureExt as _;

    use super::*;

    /// Returns both ends of a connection: that of a client, and that of a server.
    fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    fn of_processes() -> [SiblingLinks; 2] {
        let [(to_first, first), (to_second, second)] =
            [UnixDatagram::pair().unwrap(), UnixDatagram::pair().unwrap()];
        let give = || vec![to_first.try_clone().unwrap(), to_second.try_clone().unwrap()];
        let (of_first, of_second) = (give(), give());
        [
            SiblingLinks::Sockets { given: first, give: of_first },
            SiblingLinks::Sockets { given: second, give: of_second },
        ]
    }

    async fn given(siblings: &dyn Siblings) -> TcpStream {
        poll_fn(|cx| siblings.poll_given(cx)).await
    }

    #[tokio::test]
    async fn a_connection_keeps_its_bytes_on_the_way_to_another_thread_or_process() {
        let [one, other] = of_processes();
        let threads: [SiblingLinks; 2] = SiblingLinks::of_threads(2).try_into().ok().unwrap();
        for [one, other] in [[one, other], threads] {
            let (one, other) = (one.open().unwrap(), other.open().unwrap());
            let (mut client, server) = connection();
            client.write_all(b"first").unwrap();
            assert!(one.give(ShardId(1), server).is_ok());
            client.write_all(b" second").unwrap();
            drop(client);
            let mut received = String::new();
            given(&*other).await.read_to_string(&mut received).unwrap();
            assert_eq!(received, "first second");
            assert!(given(&*one).now_or_never().is_none(), "the giver keeps the connection");
        }
    }

    #[tokio::test]
    async fn a_thread_that_takes_no_connections_is_given_a_bounded_number() {
        let [one, _other] = of_processes();
        let threads: [SiblingLinks; 2] = SiblingLinks::of_threads(2).try_into().ok().unwrap();
        let [thread, _other_thread] = threads;
        for one in [one, thread] {
            let one = one.open().unwrap();
            let refused = (0..10_000).find(|_| {
                let (_, server) = connection();
                one.give(ShardId(1), server).is_err()
            });
            assert!(refused.is_some());
            let (_, server) = connection();
            assert!(one.give(ShardId(7), server).is_err(), "there is no such shard");
        }
    }
}
