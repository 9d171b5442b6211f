//! The endpoint of one thread, and the clients that attempt to connect to it.

use std::cell::Cell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use quinn::crypto::rustls::{NoInitialCipherSuite, QuicServerConfig};
use quinn::{
    AsyncTimer, AsyncUdpSocket, EndpointConfig, IdleTimeout, Runtime, ServerConfig, TokioRuntime,
    TransportConfig,
};
use socket2::{Domain, Protocol, Socket, Type};
use tenon_clients::Client;
use tenon_https::Https;
use tokio::sync::mpsc;
use tokio::task::spawn_local;

use crate::connection::Connection;
use crate::connection_id::ConnectionIds;
use crate::handover::{self, Datagram, Handover};
use crate::metrics::{self, Http3Metrics};
use crate::socket::ThreadSocket;
use crate::{
    HANDSHAKE_TIMEOUT, LAST_PACKETS, LOST_AFTER, PING_INTERVAL, RECEIVE_WINDOW, SEND_WINDOW,
    STREAM_WINDOW, STREAMS, UNIDIRECTIONAL, UNPROVEN,
};

/// The maximum number of attempts that wait for a decision. Each is decided in the turn of the
/// event loop in which it arrives.
const MAX_UNDECIDED: usize = 256;
/// The maximum amount of data that waits for the decision about one attempt, and about all, in
/// bytes.
const MAX_UNDECIDED_DATA: u64 = 16 * 1024;
const MAX_ALL_UNDECIDED_DATA: u64 = 1024 * 1024;

/// A thread refuses clients while QUIC still keeps this many ended connections, or more.
const MAX_ENDED: usize = 1024;

/// The size of the kernel's buffers of a thread's socket, in bytes. All connections of the thread
/// share them.
const BUFFER: usize = 2 * 1024 * 1024;

/// The reason why HTTP/3 is unavailable.
#[derive(Debug, thiserror::Error)]
pub enum Http3Error {
    #[error("cannot listen on UDP address {0}: {1}")]
    Listen(SocketAddr, #[source] io::Error),
    #[error("TLS has no cipher suite for QUIC: {0}")]
    Tls(#[from] NoInitialCipherSuite),
}

/// The part of an endpoint that can be sent to its thread.
pub struct Listener {
    socket: std::net::UdpSocket,
    config: EndpointConfig,
    server: ServerConfig,
    handover: Handover,
    given_rx: mpsc::Receiver<Datagram>,
    metrics: Http3Metrics,
}

/// Binds a UDP socket for each thread, all on the same address.
///
/// # Errors
/// Fails if the address cannot be bound, or TLS has no cipher suite for QUIC.
pub fn listen(
    addr: SocketAddr,
    threads: usize,
    https: &Https,
    metrics: &Http3Metrics,
) -> Result<Vec<Listener>, Http3Error> {
    let server = server_config(https)?;
    let ids = ConnectionIds::new(threads);
    let channels = handover::channels(threads, &ids).into_iter().enumerate();
    channels
        .map(|(thread, (handover, given_rx))| {
            let mut config = EndpointConfig::default();
            let generator = ids.of_thread(thread);
            config.cid_generator(move || Box::new(generator.clone()));
            Ok(Listener {
                socket: bind(addr).map_err(|error| Http3Error::Listen(addr, error))?,
                config,
                server: server.clone(),
                handover,
                given_rx,
                metrics: metrics.clone(),
            })
        })
        .collect()
}

fn bind(addr: SocketAddr) -> io::Result<std::net::UdpSocket> {
    let socket = Socket::new(Domain::for_address(addr), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    // The kernel may grant less.
    socket.set_recv_buffer_size(BUFFER)?;
    socket.set_send_buffer_size(BUFFER)?;
    socket.bind(&addr.into())?;
    Ok(socket.into())
}

fn server_config(https: &Https) -> Result<ServerConfig, Http3Error> {
    let crypto = QuicServerConfig::try_from(https.quic())?;
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    config
        .transport_config(Arc::new(transport()))
        .max_incoming(MAX_UNDECIDED)
        .incoming_buffer_size(MAX_UNDECIDED_DATA)
        .incoming_buffer_size_total(MAX_ALL_UNDECIDED_DATA);
    Ok(config)
}

fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    let lost_after = IdleTimeout::try_from(LOST_AFTER).expect("the timeout is too long for QUIC");
    transport
        .max_concurrent_bidi_streams(STREAMS.into())
        .max_concurrent_uni_streams(UNIDIRECTIONAL.into())
        .stream_receive_window(STREAM_WINDOW.into())
        .receive_window(RECEIVE_WINDOW.into())
        .send_window(SEND_WINDOW as u64)
        .max_idle_timeout(Some(lost_after))
        .keep_alive_interval(Some(PING_INTERVAL))
        .datagram_receive_buffer_size(None);
    transport
}

impl Listener {
    /// Opens the endpoint. The calling thread drives the endpoint and its connections, in its
    /// [`LocalSet`](tokio::task::LocalSet).
    ///
    /// # Errors
    /// Fails if the socket cannot be used.
    pub fn open(self) -> io::Result<Endpoint> {
        let Self { socket, config, server, handover, given_rx, metrics } = self;
        let socket = TokioRuntime.wrap_udp_socket(socket)?;
        let socket = ThreadSocket::new(socket, handover, given_rx, metrics.thread());
        let endpoint = quinn::Endpoint::new_with_abstract_socket(
            config,
            Some(server),
            Arc::new(socket),
            Arc::new(OwnThread),
        )?;
        Ok(Endpoint { endpoint, charged: Rc::default(), unproven: Rc::default(), metrics })
    }
}

/// Runs the tasks of QUIC on the thread that spawns them.
#[derive(Debug)]
struct OwnThread;

impl Runtime for OwnThread {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        TokioRuntime.new_timer(at)
    }

    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        spawn_local(task);
    }

    fn wrap_udp_socket(&self, socket: std::net::UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        TokioRuntime.wrap_udp_socket(socket)
    }

    fn now(&self) -> Instant {
        TokioRuntime.now()
    }
}

/// The endpoint of one thread.
pub struct Endpoint {
    endpoint: quinn::Endpoint,
    /// The number of connections whose clients are charged.
    charged: Rc<Cell<usize>>,
    /// The number of handshakes with clients that have not proven their address.
    unproven: Rc<Cell<usize>>,
    metrics: Http3Metrics,
}

impl Endpoint {
    /// Waits for the next client that attempts to connect, and that has proven its address if the
    /// thread is busy. Returns `None` if the endpoint is closed. The future may be dropped at any
    /// time.
    pub async fn attempt(&self) -> Option<Attempt> {
        loop {
            let incoming = self.endpoint.accept().await?;
            let metrics = self.metrics.clone();
            // QUIC keeps ended connections for a time that their clients influence.
            let ended = self.endpoint.open_connections().saturating_sub(self.charged.get());
            if ended >= MAX_ENDED {
                metrics.attempts.inc(metrics::Outcome::Refused);
                incoming.refuse();
                continue;
            }
            let unproven = self.unproven.get() + ended;
            if must_prove(incoming.remote_address_validated(), unproven) {
                metrics.attempts.inc(metrics::Outcome::Retried);
                // An attempt without a proven address can always be retried.
                let _ = incoming.retry();
                continue;
            }
            let charged = Counted::new(self.charged.clone());
            return Some(Attempt { incoming, charged, unproven: self.unproven.clone(), metrics });
        }
    }

    /// Waits until the clients of closed connections have been told, but at most [`LAST_PACKETS`].
    pub async fn finish(&self) {
        let _ = tokio::time::timeout(LAST_PACKETS, self.endpoint.wait_idle()).await;
    }
}

/// Decides whether a client has to prove its address before anything is kept for it. A proof costs
/// each client a round trip, so it is required only while there are many handshakes. An attacker
/// that spoofs addresses can therefore make the thread keep no more than [`UNPROVEN`] handshakes.
fn must_prove(has_proven: bool, unproven: usize) -> bool {
    !has_proven && unproven >= UNPROVEN
}

/// A client that attempts to connect.
pub struct Attempt {
    incoming: quinn::Incoming,
    /// Passes to the connection, which is charged until it is dropped.
    charged: Counted,
    unproven: Rc<Cell<usize>>,
    metrics: Http3Metrics,
}

/// Counts a connection or a handshake until this value is dropped.
pub(crate) struct Counted(Rc<Cell<usize>>);

impl Counted {
    fn new(count: Rc<Cell<usize>>) -> Self {
        count.set(count.get() + 1);
        Self(count)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Attempt {
    /// Returns the address of the client. The address may be spoofed unless the client has proven
    /// it.
    pub fn address(&self) -> IpAddr {
        self.incoming.remote_address().ip()
    }

    /// Refuses the client, which then uses another protocol or another router.
    pub fn refuse(self) {
        self.metrics.attempts.inc(metrics::Outcome::Refused);
        self.incoming.refuse();
    }

    /// Performs the handshake. Returns `None` if the client fails it, or does not complete it
    /// before the timeout.
    pub async fn accept(self, client: &Arc<Client>) -> Option<Connection> {
        let Self { incoming, charged, unproven, metrics } = self;
        let unproven = (!incoming.remote_address_validated()).then(|| Counted::new(unproven));
        let handshake = async {
            let transport = incoming.accept()?.await?;
            drop(unproven);
            let connection = Connection::new(transport, client.clone(), charged).await;
            connection.map_err(|error| Box::new(error) as Box<dyn std::error::Error>)
        };
        let connection: Result<_, Box<dyn std::error::Error>> =
            tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake)
                .await
                .unwrap_or_else(|_| Err("it was not completed in time".into()));
        let outcome = match &connection {
            Ok(_) => metrics::Outcome::Connected,
            Err(error) => {
                tracing::debug!(%error, "a client failed its QUIC handshake");
                metrics::Outcome::Failed
            }
        };
        metrics.attempts.inc(outcome);
        connection.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_prove_their_address_only_while_there_are_many_handshakes() {
        assert!(!must_prove(false, 0));
        assert!(!must_prove(false, UNPROVEN - 1));
        assert!(must_prove(false, UNPROVEN));
        assert!(!must_prove(true, usize::MAX));
    }

    #[test]
    fn a_handshake_is_counted_until_it_has_ended() {
        let count = Rc::default();
        let (first, second) = (Counted::new(Rc::clone(&count)), Counted::new(count.clone()));
        assert_eq!(count.get(), 2);
        drop((first, second));
        assert_eq!(count.get(), 0);
    }

    #[test]
    fn threads_share_a_port() {
        let first = bind(([127, 0, 0, 1], 0).into()).unwrap();
        bind(first.local_addr().unwrap()).unwrap();
    }
}
