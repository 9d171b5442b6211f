//! Serves one connection, in HTTP/1 or HTTP/2, until the connection ends by itself, the router
//! drains, or memory is short.
//!
//! ```text
//!  a client ─► HTTP/1 or HTTP/2? ─┬─► HTTP/1: fast path ──► hyper
//!                                 │               ▲ ▼         ▼
//!                                 │              rests without buffers
//!                                 └─► HTTP/2: hyper
//! ```

use std::cell::Cell;
use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::{SockRef, TcpKeepalive};
use tenon_clients::filter::{self, HeadFilter};
use tenon_clients::order::Order;
use tenon_clients::preface::{Opening, Protocol};
use tenon_clients::{ByteHandling, Client};
use tenon_lifecycle::tls::{self, Stream};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::executor::Local;
use crate::front::body::ClientBody;
use crate::front::fast_path::{self, Exit};
use crate::front::handshake::Handshake;
use crate::front::internal;
use crate::front::path::{self, Caller};
use crate::front::response::WrittenResponse;
use crate::front::scheme::Scheme;
use crate::front::siblings::{self, Handover};
use crate::thread::RouterThread;

/// The maximum size of the head of an HTTP/1 request, and of each read of its body, in bytes.
const HTTP1_BUFFER: usize = 64 * 1024;
/// The maximum size of the head of an HTTP/2 request, in bytes.
const HTTP2_HEAD: u32 = 64 * 1024;
/// The maximum number of concurrent streams of one connection.
const HTTP2_STREAMS: u32 = 128;
/// The flow-control windows of one stream and of the connection, in bytes, which bound the buffered
/// part of bodies. The window of a stream is charged to its request.
const HTTP2_STREAM_WINDOW: u32 = 128 * 1024;
const HTTP2_CONNECTION_WINDOW: u32 = 1024 * 1024;
/// The maximum part of a response that is buffered in the connection, in bytes.
const HTTP2_SEND_BUFFER: usize = 64 * 1024;

/// The time after which a client that accepts no data counts as lost.
pub(super) const SEND_TIMEOUT: Duration = Duration::from_secs(60);

/// The interval between two pings to an HTTP/2 client.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// The time after which a client that has not answered a ping counts as lost.
const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// An idle peer, such as that of a tunnel, is probed after `KEEPALIVE`, and counts as lost after
/// `KEEPALIVE_PROBES` unanswered probes at intervals of `KEEPALIVE_INTERVAL`.
const KEEPALIVE: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(20);
const KEEPALIVE_PROBES: u32 = 3;

/// The time for which a new connection may stay silent once no more connections are accepted. An
/// open connection may do so twice: before and after its graceful shutdown begins. An
/// open connection may do so twice: before and after its graceful shutdown begins.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// The limits for the platform's own processes, each of which sends the requests of many callers on
/// one connection. Windows are in bytes.
const INTERNAL_STREAMS: u32 = 4096;
const INTERNAL_STREAM_WINDOW: u32 = 256 * 1024;
const INTERNAL_CONNECTION_WINDOW: u32 = (1 << 31) - 1;

/// The stage of a drain, as the picture in [`crate::front`] shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Serving,
    Leaving,
    Closing,
}

pub(super) type Served = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// Shuts a connection down gracefully, after its requests in flight have been answered.
macro_rules! finish {
    ($has_request:expr, $connection:expr) => {{
        let mut connection = $connection;
        connection.as_mut().graceful_shutdown();
        if !$has_request.get() {
            // Without the timeout, hyper would wait for the first request indefinitely.
            match tokio::time::timeout(FIRST_REQUEST_TIMEOUT, connection.as_mut()).await {
                Ok(ended) => return Ok(ended?),
                Err(_) if !$has_request.get() => return Ok(()),
                Err(_) => {}
            }
        }
        Ok(connection.await?)
    }};
}

/// Drives a connection of either protocol. hyper's types for the protocols behave alike but share
/// no trait.
macro_rules! drive {
    ($stage_rx:ident, $has_request:expr, $connection:expr, $last_stage:expr) => {{
        let mut connection = pin!($connection);
        tokio::select! {
            biased;
            ended = connection.as_mut() => return Ok(ended?),
            () = until_stage(&$stage_rx, $last_stage, $has_request) => {}
        }
        finish!($has_request, connection.as_mut())
    }};
}

/// Waits for the stage `last`, at which a connection ends. If no request has arrived on the
/// connection yet, waits [`FIRST_REQUEST_TIMEOUT`] longer.
pub(super) async fn until_stage(
    stage_rx: &watch::Receiver<Stage>,
    last: Stage,
    has_request: &Cell<bool>,
) {
    // The wait cannot fail, because the sender outlives every receiver.
    let _ = stage_rx.clone().wait_for(|stage| *stage >= last).await;
    if !has_request.get() {
        tokio::time::sleep(FIRST_REQUEST_TIMEOUT).await;
    }
}

/// Waits for the start of a connection. Returns `None` if the start has not arrived
/// [`FIRST_REQUEST_TIMEOUT`] after the listener has stopped accepting connections.
async fn begin<T>(
    stage_rx: &watch::Receiver<Stage>,
    beginning: impl Future<Output = T>,
) -> Option<T> {
    let has_request = Cell::new(false);
    tokio::select! {
        biased;
        begun = beginning => Some(begun),
        () = until_stage(stage_rx, Stage::Closing, &has_request) => None,
    }
}

/// Serves a client's connection until it ends.
pub(super) async fn serve_client(
    thread: Rc<RouterThread>,
    stream: TcpStream,
    handover: Handover,
    caller: Caller,
    stage_rx: watch::Receiver<Stage>,
) -> Served {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE_INTERVAL);
    let socket = SockRef::from(&stream);
    socket.set_tcp_keepalive(&keepalive.with_retries(KEEPALIVE_PROBES))?;
    socket.set_tcp_user_timeout(Some(SEND_TIMEOUT))?;
    // This limit applies only to unsent data, not to data in flight to a client that reads.
    socket.set_tcp_notsent_lowat(tenon_clients::UNSENT)?;
    let client = caller.client.clone();
    let opening = begin(&stage_rx, async {
        tokio::select! {
            biased;
            opening = open(&thread, caller.scheme, stream, handover) => opening.transpose(),
            () = until_ordered_to_end(&client) => None,
        }
    });
    let Some(Some(opening)) = opening.await else { return Ok(()) };
    let caller = Rc::new(caller);
    let mut filter = HeadFilter::new(opening?, client.clone());
    // The state of an active connection is boxed, so that an idle connection does not contain it.
    if filter.protocol() == Protocol::Http2 {
        return Box::pin(serve_http2(thread, filter, caller, stage_rx)).await;
    }
    loop {
        let exit =
            Box::pin(serve_plain_requests(&thread, filter, &caller, stage_rx.clone())).await?;
        let resting = match exit {
            Exit::Ended => None,
            Exit::Resting(filter) => Some(filter),
            Exit::ToHyper(filter) => {
                thread.metrics.left_fast_path.inc();
                let serve = serve_http1(thread.clone(), filter, caller.clone(), stage_rx.clone());
                Box::pin(serve).await?
            }
        };
        let Some(resting) = resting else { return Ok(()) };
        filter = resting;
        client.activity.set_resting(true);
        client.rest();
        let has_request = Cell::new(true);
        tokio::select! {
            biased;
            readable = filter.readable() => readable?,
            () = until_ordered_to_end(&client) => return Ok(()),
            () = until_stage(&stage_rx, Stage::Closing, &has_request) => return Ok(()),
        }
    }
}

/// Reads the first bytes of a connection, after the handshake if the client uses TLS. Returns
/// `None` if another thread serves the connection.
async fn open(
    thread: &RouterThread,
    scheme: Scheme,
    stream: TcpStream,
    handover: Handover,
) -> io::Result<Option<Opening>> {
    let stream = match (scheme, &thread.shared.https) {
        (Scheme::Https, Some(https)) => https.accept(stream).await?,
        _ if handover == Handover::Forbidden => Stream::Plain(stream),
        _ => match siblings::hand_over(thread, stream).await? {
            Some(stream) => Stream::Plain(stream),
            None => return Ok(None),
        },
    };
    Opening::read(stream).await.map(Some)
}

/// Waits for the order that ends a connection, because memory is short or the connection has been
/// idle for too long.
pub(super) async fn until_ordered_to_end(client: &Client) {
    while client.orders.next().await != Order::End {}
}

/// Answers one request of a client.
pub(super) fn respond(
    thread: &Rc<RouterThread>,
    caller: &Rc<Caller>,
    request: Request<Option<ClientBody>>,
) -> impl Future<Output = Result<Response<WrittenResponse>, Infallible>> + use<> {
    let in_flight = caller.client.begin_request();
    let (thread, caller) = (thread.clone(), caller.clone());
    // The large future of `serve` is created where it is polled, and therefore never copied.
    async move {
        let served = path::serve(thread, caller, request).await;
        served.map(|(response, span)| WrittenResponse::of(response, in_flight, span))
    }
}

/// Serves HTTP/1 without hyper, for as long as the client sends plain requests.
async fn serve_plain_requests(
    thread: &Rc<RouterThread>,
    filter: HeadFilter,
    caller: &Rc<Caller>,
    stage_rx: watch::Receiver<Stage>,
) -> Result<Exit, fast_path::Broken> {
    if !filter.begin() {
        return Ok(Exit::Ended);
    }
    caller.client.activity.set_resting(false);
    let has_request = Cell::new(false);
    let closing = until_stage(&stage_rx, Stage::Closing, &has_request);
    fast_path::serve(thread, filter, caller, closing, &has_request).await
}

/// Serves HTTP/1 until the connection ends, or until it is idle and gives up its buffers. In the
/// second case, returns the filter.
async fn serve_http1(
    thread: Rc<RouterThread>,
    filter: HeadFilter,
    caller: Rc<Caller>,
    stage_rx: watch::Receiver<Stage>,
) -> Result<Option<HeadFilter>, Box<dyn std::error::Error + Send + Sync>> {
    let client = caller.client.clone();
    if !filter.begin() {
        return Ok(None);
    }
    client.activity.set_resting(false);
    let has_request = Cell::new(false);
    let service = service_fn(|mut request: Request<Incoming>| {
        has_request.set(true);
        if Handshake::is_http1_handshake(request.method(), request.version(), request.headers()) {
            client.set_handling(ByteHandling::Held);
        }
        if let Some(refusal) = filter::refusal(&client, &request) {
            request.extensions_mut().insert(refusal);
        }
        respond(&thread, &caller, request.map(|body| Some(ClientBody::from(body))))
    });
    let mut connection = http1::Builder::new()
        // The periodic sweep of the thread's clients enforces the timeout for heads.
        .header_read_timeout(None)
        .max_buf_size(HTTP1_BUFFER)
        .serve_connection(TokioIo::new(filter), service)
        .with_upgrades();
    let rests = async {
        loop {
            match client.orders.next().await {
                Order::End => return false,
                Order::Rest if client.activity.may_rest() => return true,
                Order::Rest => {}
            }
        }
    };
    let rests = tokio::select! {
        biased;
        ended = &mut connection => return Ok(ended.map(|()| None)?),
        rests = rests => rests,
        () = until_stage(&stage_rx, Stage::Closing, &has_request) => {
            let finished = async { finish!(&has_request, std::pin::Pin::new(&mut connection)) };
            return tokio::select! {
                biased;
                finished = finished => Served::map(finished, |()| None),
                () = until_ordered_to_end(&client) => Ok(None),
            };
        }
    };
    Ok(if rests { connection.into_parts().map(|parts| parts.io.into_inner()) } else { None })
}

async fn serve_http2(
    thread: Rc<RouterThread>,
    filter: HeadFilter,
    caller: Rc<Caller>,
    stage_rx: watch::Receiver<Stage>,
) -> Served {
    let client = caller.client.clone();
    client.set_handling(ByteHandling::Unchecked);
    if !client.hold(tenon_clients::HTTP2) {
        return Ok(());
    }
    let has_request = Cell::new(false);
    let service = service_fn(|request: Request<Incoming>| {
        has_request.set(true);
        respond(&thread, &caller, request.map(|body| Some(ClientBody::from(body))))
    });
    let connection = http2::Builder::new(Local)
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .max_header_list_size(HTTP2_HEAD)
        .max_concurrent_streams(HTTP2_STREAMS)
        .max_send_buf_size(HTTP2_SEND_BUFFER)
        .enable_connect_protocol()
        .initial_stream_window_size(HTTP2_STREAM_WINDOW)
        .initial_connection_window_size(HTTP2_CONNECTION_WINDOW)
        .serve_connection(TokioIo::new(filter), service);
    let driven = async { drive!(stage_rx, &has_request, connection, Stage::Leaving) };
    tokio::select! {
        biased;
        served = driven => served,
        () = until_ordered_to_end(&client) => Ok(()),
    }
}

/// Serves a connection from one of the platform's own processes until it ends.
pub(super) async fn serve_internal(
    thread: Rc<RouterThread>,
    stream: TcpStream,
    peer: IpAddr,
    stage_rx: watch::Receiver<Stage>,
) -> Served {
    stream.set_nodelay(true)?;
    let Some(stream) = begin(&stage_rx, tls::accept(thread.shared.tls.as_ref(), stream)).await
    else {
        return Ok(());
    };
    let stream = stream?;
    let accounts = Rc::new(thread.accounts(peer));
    let has_request = Cell::new(false);
    let pings = !thread.settings.shards_may_pause;
    let service = service_fn(|request| {
        has_request.set(true);
        internal::serve(thread.clone(), peer, accounts.clone(), request)
    });
    drive!(
        stage_rx,
        &has_request,
        http2::Builder::new(Local)
            .timer(TokioTimer::new())
            .keep_alive_interval(pings.then_some(PING_INTERVAL))
            .keep_alive_timeout(PING_TIMEOUT)
            .max_concurrent_streams(INTERNAL_STREAMS)
            .initial_stream_window_size(INTERNAL_STREAM_WINDOW)
            .initial_connection_window_size(INTERNAL_CONNECTION_WINDOW)
            .serve_connection(TokioIo::new(stream), service),
        Stage::Leaving
    )
}
