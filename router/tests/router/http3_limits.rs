//! Tests clients of HTTP/3 that break the protocol or exhaust resources.

use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::num::NonZeroUsize;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, EndpointConfig, Runtime as _, TokioRuntime, UdpPoller};
use rcgen::{CertifiedKey, KeyPair};
use tenon_router::{HttpsSettings, Pace};

use crate::harness::{
    Behavior, DEADLINE, Http3Client, Options, Secured, eventually, http3_answer, http3_config,
};

/// Codes of errors (RFC 9114, section 8.1).
const FRAME_ERROR: u32 = 0x106;
const EXCESSIVE_LOAD: u32 = 0x107;
const MESSAGE_ERROR: u64 = 0x10e;

async fn with(options: Options) -> (Secured, CertifiedKey<KeyPair>) {
    let options = Options { http3: Some(443), ..options };
    let (secured, issued) =
        Secured::with_options(&["shop"], HttpsSettings::default(), options).await;
    (secured, issued.into_iter().next().unwrap())
}

fn get() -> http::Request<()> {
    Http3Client::request(Method::GET, "/").body(()).unwrap()
}

/// Returns a frame, whose header states this length.
fn frame(kind: u8, length: u64, payload: &[u8]) -> Vec<u8> {
    let length = (length | 0xc000_0000_0000_0000).to_be_bytes();
    [&[kind], &length[..], payload].concat()
}

/// Returns the HEADERS frame of a POST to the host `shop`.
fn head() -> Vec<u8> {
    // The static table has `:method: POST`, `:scheme: https` and `:path: /`.
    let fields = [&[0, 0, 0xd4, 0xd7, 0xc1, 0x50, 4][..], b"shop"].concat();
    frame(1, fields.len() as u64, &fields)
}

#[tokio::test]
async fn a_connection_has_a_limited_number_of_requests() {
    let (secured, issued) = with(Options::default()).await;
    secured.node.behave(Behavior::Hang);
    let client = Http3Client::connect(&secured, &issued).await;
    let mut streams = Vec::new();
    for _ in 0..128 {
        let mut stream = client.start(get()).await.unwrap();
        stream.finish().await.unwrap();
        streams.push(stream);
    }
    eventually("the requests", || secured.node.invocations() == 128).await;
    let mut next = pin!(client.start(get()));
    assert!(futures::poll!(next.as_mut()).is_pending(), "the client may send another request");
    streams.pop().unwrap().stop_sending(h3::error::Code::H3_REQUEST_CANCELLED);
    next.await.unwrap();
}

#[tokio::test]
async fn a_client_that_cancels_request_after_request_is_disconnected() {
    let (secured, issued) = with(Options::default()).await;
    secured.node.behave(Behavior::Hang);
    let client = Http3Client::connect(&secured, &issued).await;
    let canceled = async {
        // The end of the connection ends the loop.
        while let Ok(mut stream) = client.start(get()).await {
            stream.stop_sending(h3::error::Code::H3_REQUEST_CANCELLED);
            stream.stop_stream(h3::error::Code::H3_REQUEST_CANCELLED);
        }
    };
    tokio::time::timeout(DEADLINE, canceled).await.expect("the client is still connected");
    let closed = client.closed().await;
    let quinn::ConnectionError::ApplicationClosed(close) = closed else { panic!("{closed}") };
    assert_eq!(close.error_code, EXCESSIVE_LOAD.into());
}

#[tokio::test]
async fn a_head_that_is_too_long_is_refused() {
    let (secured, issued) = with(Options::default()).await;
    let client = Http3Client::connect(&secured, &issued).await;
    let long = |length| {
        Http3Client::request(Method::GET, "/").header("x", "y".repeat(length)).body(()).unwrap()
    };
    assert_eq!(client.send(long(60_000), "").await.unwrap().status, StatusCode::OK);
    let answer = client.send(long(66_000), "").await.unwrap();
    assert_eq!(answer.status, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    assert_eq!(client.get("/").await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_frame_that_would_be_kept_in_memory_is_refused_by_its_header() {
    let (secured, issued) = with(Options::default()).await;
    let client = Http3Client::connect(&secured, &issued).await;
    for (frame, code) in [
        (frame(1, 1 << 40, b"fields"), EXCESSIVE_LOAD),
        ([head(), frame(1, 1 << 40, b"trailers")].concat(), EXCESSIVE_LOAD),
        // The end of the stream cuts the data off.
        ([head(), frame(0, 100, b"data")].concat(), FRAME_ERROR),
    ] {
        let (mut sending, mut receiving) = client.connection.open_bi().await.unwrap();
        sending.write_all(&frame).await.unwrap();
        if code == FRAME_ERROR {
            // The data arrives before the end.
            eventually("the request", || secured.node.invocations() > 0).await;
            sending.finish().unwrap();
            let read = tokio::time::timeout(DEADLINE, receiving.read_to_end(1 << 20)).await;
            // The router answers 400, or resets the stream.
            let _ = read.expect("the stream did not end before the deadline");
        } else {
            let stopped = tokio::time::timeout(DEADLINE, sending.stopped()).await.unwrap();
            assert_eq!(stopped.unwrap(), Some(code.into()));
        }
    }
    assert_eq!(client.get("/").await.status, StatusCode::OK, "the connection has ended");
}

#[tokio::test]
async fn unknown_frames_and_empty_data_do_not_end_a_body() {
    let (secured, issued) = with(Options::default()).await;
    let client = Http3Client::connect(&secured, &issued).await;
    let unknown = frame(0x21, 200_000, &[7; 200_000]);
    let pieces = [
        unknown.clone(),
        head(),
        frame(0, 2, b"ab"),
        frame(0, 0, b""),
        unknown,
        frame(0, 2, b"cd"),
    ];
    let (mut sending, mut receiving) = client.connection.open_bi().await.unwrap();
    sending.write_all(&pieces.concat()).await.unwrap();
    sending.finish().unwrap();
    let answer = tokio::time::timeout(DEADLINE, receiving.read_to_end(1 << 20)).await.unwrap();
    let answer = answer.unwrap();
    assert!(answer.ends_with(b"abcd"), "{answer:?}");
    assert_eq!(client.get("/").await.status, StatusCode::OK);
}

#[tokio::test]
async fn malformed_requests_end_only_their_stream() {
    let (secured, issued) = with(Options::default()).await;
    let client = Http3Client::connect(&secured, &issued).await;
    for (name, value) in [("te", "gzip"), ("content-length", "x"), ("connection", "close")] {
        let request = Http3Client::request(Method::POST, "/").header(name, value).body(()).unwrap();
        let refused = client.send(request, "body").await.unwrap_err();
        let h3::error::StreamError::RemoteTerminate { code, .. } = refused else {
            panic!("{name}: {refused}")
        };
        assert_eq!(code.value(), MESSAGE_ERROR, "{name}");
    }
    for length in ["3", "5"] {
        let request = Http3Client::request(Method::POST, "/").header("content-length", length);
        let answered = client.send(request.body(()).unwrap(), "body").await;
        assert!(
            answered.as_ref().map_or(true, |answer| answer.status == StatusCode::BAD_REQUEST),
            "{length}: {answered:?}"
        );
    }
    assert_eq!(secured.node.invocations(), 0);
    assert_eq!(client.get("/").await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_connect_request_is_refused() {
    let (secured, issued) = with(Options::default()).await;
    let client = Http3Client::connect(&secured, &issued).await;
    let (mut sending, mut receiving) = client.connection.open_bi().await.unwrap();
    // `:method: CONNECT` is entry 15 of the static table.
    let fields = [&[0, 0, 0xcf, 0x50, 4][..], b"shop"].concat();
    sending.write_all(&frame(1, fields.len() as u64, &fields)).await.unwrap();
    sending.finish().unwrap();
    let read = tokio::time::timeout(DEADLINE, receiving.read_to_end(1 << 20)).await;
    // The router answers 400, or resets the stream.
    let _ = read.expect("the stream did not end before the deadline");
    assert_eq!(secured.node.invocations(), 0);
    assert_eq!(client.get("/").await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_client_that_sends_too_slowly_gets_408() {
    let pace = Pace { grace: Duration::from_millis(50), ..Pace::default() };
    let (secured, issued) = with(Options { pace, ..Options::default() }).await;
    let client = Http3Client::connect(&secured, &issued).await;
    let request = Http3Client::request(Method::POST, "/").header("content-length", 10);
    let mut stream = client.start(request.body(()).unwrap()).await.unwrap();
    stream.send_data(Bytes::from_static(b"x")).await.unwrap();
    let answer = http3_answer(&mut stream).await.unwrap();
    assert_eq!(answer.status, StatusCode::REQUEST_TIMEOUT);
}

#[tokio::test]
async fn clients_that_do_not_read_give_way_to_others() {
    let client_memory = 4 << 20;
    let threads = NonZeroUsize::MIN;
    let (secured, issued) = with(Options { client_memory, threads, ..Options::default() }).await;
    secured.node.behave(Behavior::Endless);
    let mut unread = Vec::new();
    let slow = || Http3Client::connect_from(Ipv4Addr::new(127, 0, 0, 2), secured.addr(), &issued);
    // The address gets no more connections once it has its share of the memory.
    while let Ok(client) = slow().await {
        assert!(unread.len() < 1000, "connections take no memory");
        let Ok(mut stream) = client.start(get()).await else { break };
        if stream.finish().await.is_err() || stream.recv_response().await.is_err() {
            break;
        }
        unread.push((client, stream));
    }
    let memory = || secured.scenario.metric("tenon_router_client_memory_bytes", None);
    eventually("the memory to be taken", || memory() > client_memory as f64 / 4.0).await;
    assert!(memory() <= client_memory as f64, "clients take {} bytes", memory());
    secured.node.behave(Behavior::Echo);
    let other = Http3Client::connect(&secured, &issued).await;
    assert_eq!(other.get("/").await.status, StatusCode::OK);
}

/// A socket that never receives, as if the client had spoofed its address.
#[derive(Debug)]
struct DeafSocket(Arc<dyn AsyncUdpSocket>);

impl AsyncUdpSocket for DeafSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        self.0.clone().create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.0.try_send(transmit)
    }

    fn poll_recv(
        &self,
        _: &mut Context<'_>,
        _: &mut [IoSliceMut<'_>],
        _: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        Poll::Pending
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

#[tokio::test]
async fn clients_prove_their_address_while_many_handshakes_are_incomplete() {
    let threads = NonZeroUsize::MIN;
    let (secured, issued) = with(Options { threads, ..Options::default() }).await;
    let attempts =
        |outcome| secured.scenario.metric("tenon_router_http3_attempts_total", Some(outcome));
    let mut deaf = Vec::new();
    while attempts("retried") == 0.0 {
        assert!(deaf.len() < 1000, "no client has to prove its address");
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let socket = DeafSocket(TokioRuntime.wrap_udp_socket(socket).unwrap());
        let endpoint = quinn::Endpoint::new_with_abstract_socket(
            EndpointConfig::default(),
            None,
            Arc::new(socket),
            Arc::new(TokioRuntime),
        )
        .unwrap();
        let connecting = endpoint.connect_with(http3_config(&issued), secured.addr(), "shop");
        deaf.push((endpoint, connecting.unwrap()));
        tokio::task::yield_now().await;
    }
    let client = Http3Client::connect(&secured, &issued).await;
    assert_eq!(client.get("/").await.status, StatusCode::OK);
    assert_eq!(attempts("connected"), 1.0);
}

#[tokio::test]
async fn a_load_balancer_with_the_proxy_protocol_is_refused() {
    let options = Options {
        trusted_proxies: vec!["127.0.0.0/8".parse().unwrap()],
        proxy_protocol: true,
        ..Options::default()
    };
    let (secured, issued) = with(options).await;
    let refused = Http3Client::connect_from(Ipv4Addr::LOCALHOST, secured.addr(), &issued).await;
    let Err(quinn::ConnectionError::ConnectionClosed(_)) = refused else {
        panic!("the connection was accepted")
    };
}
