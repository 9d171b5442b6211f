//! Tests the router's side against `h2`, a complete implementation of HTTP/2: `h2` reads the
//! requests, and the router notices that `h2` does not know the hop protocol.

use std::time::Duration;

use proptest::prelude::*;
use tokio::io::duplex;

use super::*;

const WINDOW: u32 = 64 * 1024;
const PINGS: Pings = Pings { after: Duration::from_secs(1), timeout: Duration::from_secs(60) };

#[tokio::test]
async fn our_request_is_ordinary_http2() {
    let mut bytes = BytesMut::from(PREFACE);
    frame::put_settings(&mut bytes, &settings::ours(WINDOW, 0));
    let mut state = State::new(WINDOW);
    state.open(32, &Bytes::from_static(b"\0\0\0\0\0"), true).unwrap();
    bytes.extend_from_slice(&state.outbox);

    let (mut ours, theirs) = duplex(1 << 20);
    ours.write_all(&bytes).await.unwrap();
    let mut connection = h2::server::handshake(theirs).await.unwrap();
    let (request, _respond) = connection.accept().await.unwrap().unwrap();
    assert_eq!(request.method(), http::Method::POST);
    assert_eq!(request.uri().path(), tenon_proto::runtime::INVOKE_PATH);
    let header = |name: &str| request.headers()[name].to_str().unwrap();
    assert_eq!(
        ["content-type", "te", "grpc-timeout"].map(header),
        ["application/grpc", "trailers", "32S"]
    );
    let mut body = request.into_body();
    let driven = async { while connection.accept().await.is_some() {} };
    let data = async { body.data().await.unwrap().unwrap() };
    tokio::select! {
        data = data => assert_eq!(&data[..], b"\0\0\0\0\0"),
        () = driven => panic!("the connection ended before the data was read"),
    }
}

#[tokio::test]
async fn a_handshake_with_a_peer_without_the_protocol_returns_no_sender() {
    let (ours, theirs) = duplex(1 << 20);
    let handshakes =
        tokio::join!(handshake(ours, WINDOW, Some(PINGS)), h2::server::handshake(theirs));
    assert!(handshakes.0.unwrap().is_none());
}

/// Returns the timeouts and bodies of these requests as `h2` reads them.
async fn read_with_h2(requests: &[(u64, Vec<u8>)]) -> Vec<(String, Vec<u8>)> {
    let mut state = State::new(WINDOW);
    let mut bytes = BytesMut::from(PREFACE);
    frame::put_settings(&mut bytes, &settings::ours(WINDOW, 0));
    for (seconds, body) in requests {
        state.open(*seconds, &Bytes::copy_from_slice(body), true).unwrap();
    }
    bytes.extend_from_slice(&state.outbox);
    let (mut ours, theirs) = duplex(1 << 21);
    ours.write_all(&bytes).await.unwrap();
    let mut connection = h2::server::handshake(theirs).await.unwrap();
    let mut accepted = Vec::new();
    for _ in requests {
        accepted.push(connection.accept().await.unwrap().unwrap());
    }
    let driven = async { while connection.accept().await.is_some() {} };
    let reading = async {
        let mut read = Vec::new();
        for (request, _respond) in accepted {
            let timeout = request.headers()["grpc-timeout"].to_str().unwrap().to_owned();
            let (mut body, mut whole) = (request.into_body(), Vec::new());
            while let Some(data) = body.data().await {
                whole.extend_from_slice(&data.unwrap());
            }
            read.push((timeout, whole));
        }
        read
    };
    tokio::select! {
        read = reading => read,
        () = driven => panic!("the connection ended before the requests were read"),
    }
}

proptest! {
    #[test]
    fn another_implementation_reads_every_request_as_it_was_sent(
        requests in prop::collection::vec((0..100_000_000_u64, prop::collection::vec(any::<u8>(), 0..10_000)), 0..6),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let read = runtime.block_on(read_with_h2(&requests));
        let expected: Vec<_> =
            requests.into_iter().map(|(seconds, body)| (format!("{seconds}S"), body)).collect();
        prop_assert!(read == expected, "a timeout or a body differs");
    }
}
