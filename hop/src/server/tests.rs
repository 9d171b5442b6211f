//! Tests the shard's side with peers that violate the protocol, and with another implementation
//! that reads its response.

use std::future::{Ready, ready};
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::leaving::LAST;
use super::*;
use crate::frame::{HEADER, Head, Kind, PREFACE};
use crate::sniff::{Peer, sniff};

const BOUNDS: Bounds = Bounds { streams: 4, stream_window: 64 * 1024 };

/// A service that answers `hi`.
struct Hello;

struct Hi(Option<Bytes>);

impl Outgoing for Hi {
    type Data = Bytes;

    fn poll_part(&mut self, _: &mut Context<'_>) -> Poll<Part<Bytes>> {
        Poll::Ready(self.0.take().map_or(Part::Success, Part::Data))
    }
}

impl Service for Hello {
    type Reply = Hi;
    type Future = Ready<Response<Hi>>;

    fn call(&self, _: Duration, _: Incoming) -> Self::Future {
        ready(Response::Reply(Hi(Some(Bytes::from_static(b"hi")))))
    }
}

/// Serves a peer that sends these bytes after its settings and then ends the stream. Returns the
/// bytes that the peer receives, and the result of the connection.
async fn serve(bytes: &[u8]) -> (Vec<u8>, Result<(), ConnectionError>) {
    let (mut ours, theirs) = duplex(1 << 20);
    let mut all = BytesMut::from(PREFACE);
    frame::put_settings(&mut all, &settings::ours(1 << 16, 0));
    all.extend_from_slice(bytes);
    ours.write_all(&all).await.unwrap();
    ours.shutdown().await.unwrap();
    let Peer::Hop(opening) = sniff(theirs).await.unwrap() else {
        panic!("not recognized as a hop peer")
    };
    let ended = Connection::new(opening, Hello, BOUNDS).await;
    let mut sent = Vec::new();
    ours.read_to_end(&mut sent).await.unwrap();
    (sent, ended)
}

fn request(out: &mut BytesMut, stream: u32) {
    frame::put_headers(out, stream, &block::request(1), false);
    frame::put_data(out, stream, 0, true);
}

#[tokio::test]
async fn another_implementation_reads_the_response() {
    let mut bytes = BytesMut::new();
    request(&mut bytes, 1);
    let (sent, ended) = serve(&bytes).await;
    ended.unwrap();

    // The bytes are replayed to a client as the response to its first request.
    let (ours, mut theirs) = duplex(1 << 20);
    let (mut client, connection) = h2::client::handshake(ours).await.unwrap();
    let request = http::Request::post("http://shard/").body(()).unwrap();
    let (response, _) = client.send_request(request, true).unwrap();
    let answered = async {
        let response = response.await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "application/grpc");
        let mut body = response.into_body();
        assert_eq!(&body.data().await.unwrap().unwrap()[..], b"hi");
        assert_eq!(body.trailers().await.unwrap().unwrap()["grpc-status"], "0");
    };
    let replay = async {
        theirs.read_exact(&mut [0; PREFACE.len()]).await.unwrap();
        let mut head = [0; HEADER];
        while Head::parse(&head).kind != Kind::Headers {
            theirs.read_exact(&mut head).await.unwrap();
            theirs.read_exact(&mut vec![0; Head::parse(&head).len]).await.unwrap();
        }
        theirs.write_all(&sent).await.unwrap();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = answered => {}
        () = replay => {}
        ended = connection => panic!("the connection ended: {ended:?}"),
    }
}

#[tokio::test]
async fn violations_end_the_connection() {
    let mut streams: Vec<(&str, BytesMut)> = Vec::new();
    let mut add = |what, write: &dyn Fn(&mut BytesMut)| {
        let mut bytes = BytesMut::new();
        write(&mut bytes);
        streams.push((what, bytes));
    };
    add("an even stream", &|out| request(out, 2));
    add("a stream that is not new", &|out| {
        request(out, 3);
        request(out, 1);
    });
    add("headers of another request", &|out| frame::put_headers(out, 1, b"\x82\x86\x84", true));
    add("data without a stream", &|out| frame::put_data(out, 0, 0, true));
    add("data of an idle stream", &|out| frame::put_data(out, 5, 0, true));
    add("a reset of an idle stream", &|out| frame::put_reset(out, 5, Code::CANCEL));
    add("an empty window update", &|out| frame::put_window_update(out, 0, 0));
    add("a window that is too large", &|out| frame::put_window_update(out, 0, MAX_31_BITS));
    add("a header block in several frames", &|out| {
        out.extend_from_slice(&[0, 0, 1, 1, 0, 0, 0, 0, 1, 0x83]);
    });
    add("padding", &|out| out.extend_from_slice(&[0, 0, 1, 0, 8, 0, 0, 0, 1, 0]));
    add("a frame that is too large", &|out| {
        out.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0, 1]);
    });
    add("a ping of the wrong length", &|out| {
        out.extend_from_slice(&[0, 0, 1, 6, 0, 0, 0, 0, 0, 0])
    });
    for (what, bytes) in streams {
        let (sent, ended) = serve(&bytes).await;
        assert!(matches!(ended, Err(ConnectionError::Violation { .. })), "{what}: {ended:?}");
        let go_away = &sent[sent.len() - HEADER - 8..];
        assert_eq!(Head::parse(go_away.first_chunk().unwrap()).kind, Kind::GoAway, "{what}");
    }
}

#[tokio::test]
async fn a_connection_that_ends_within_a_frame_is_broken() {
    let (_, ended) = serve(&[0, 0, 8, 6]).await;
    assert!(matches!(ended, Err(ConnectionError::Io(_))));
}

#[tokio::test]
async fn a_body_that_outlives_its_connection_fails() {
    let (mut ours, theirs) = duplex(1 << 20);
    let mut bytes = BytesMut::from(PREFACE);
    frame::put_settings(&mut bytes, &settings::ours(1 << 16, 0));
    frame::put_headers(&mut bytes, 1, &block::request(1), false);
    frame::put_data(&mut bytes, 1, 1, false);
    bytes.extend_from_slice(b"x");
    ours.write_all(&bytes).await.unwrap();
    ours.shutdown().await.unwrap();
    let Peer::Hop(opening) = sniff(theirs).await.unwrap() else {
        panic!("not recognized as a hop peer")
    };
    let kept: Rc<std::cell::RefCell<Option<Incoming>>> = Rc::default();
    let keeps = kept.clone();
    let service = move |_: Duration, body: Incoming| {
        *keeps.borrow_mut() = Some(body);
        std::future::pending::<Response<Hi>>()
    };
    Connection::new(opening, service, BOUNDS).await.unwrap();
    let mut body = kept.borrow_mut().take().unwrap();
    let mut next = || {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        http_body::Body::poll_frame(Pin::new(&mut body), &mut cx)
    };
    assert!(matches!(next(), Poll::Ready(Some(Ok(_)))));
    assert!(matches!(next(), Poll::Ready(Some(Err(_)))));
}

/// Shuts down a connection whose peer has already answered the last ping. Returns the connection,
/// which has written everything, and the peer's end of the stream.
async fn shut_down() -> (Pin<Box<dyn Future<Output = Result<(), ConnectionError>>>>, DuplexStream) {
    let (mut ours, theirs) = duplex(1 << 20);
    let mut bytes = BytesMut::from(PREFACE);
    frame::put_settings(&mut bytes, &settings::ours(1 << 16, 0));
    frame::put_ping(&mut bytes, LAST, true);
    ours.write_all(&bytes).await.unwrap();
    let Peer::Hop(opening) = sniff(theirs).await.unwrap() else {
        panic!("not recognized as a hop peer")
    };
    let mut connection = Connection::new(opening, Hello, BOUNDS);
    connection.graceful_shutdown();
    let mut connection: Pin<Box<dyn Future<Output = _>>> = Box::pin(connection);
    let mut sent = Vec::new();
    tokio::select! {
        read = ours.read_to_end(&mut sent) => assert!(read.unwrap() > 0),
        ended = &mut connection => panic!("the connection ended before its peer did: {ended:?}"),
    }
    (connection, ours)
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_was_shut_down_reads_what_its_peer_still_sends() {
    let (mut connection, mut ours) = shut_down().await;
    ours.write_all(b"a request that was in transit").await.unwrap();
    assert!(futures::poll!(&mut connection).is_pending());
    drop(ours);
    connection.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_connection_ends_even_if_its_peer_never_ends_it() {
    let (connection, _ours) = shut_down().await;
    connection.await.unwrap();
}

proptest! {
    #[test]
    fn any_frames_are_received_without_a_panic(
        frames in prop::collection::vec((0..12_u8, any::<u8>(), 0..6_u32, prop::collection::vec(any::<u8>(), 0..20)), 0..20),
    ) {
        let mut bytes = BytesMut::new();
        request(&mut bytes, 1);
        for (kind, flags, stream, payload) in frames {
            bytes.extend_from_slice(&[0, 0, payload.len() as u8, kind, flags]);
            bytes.extend_from_slice(&stream.to_be_bytes());
            bytes.extend_from_slice(&payload);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        _ = runtime.block_on(serve(&bytes));
    }
}
