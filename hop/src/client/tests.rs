//! Tests the router's side and the shard's side against each other.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::Body;
use tokio::io::{DuplexStream, duplex};
use tokio::sync::Notify;
use tokio::task::{LocalSet, spawn_local};

use super::*;
use crate::Incoming;
use crate::server::{self, Bounds, Outgoing, Part, Response, Service};
use crate::sniff::{Peer, sniff};

const WINDOW: u32 = 64 * 1024;
const PINGS: Pings = Pings { after: Duration::from_millis(750), timeout: Duration::from_secs(60) };
const BOUNDS: Bounds = Bounds { streams: 8, stream_window: 128 * 1024 };

/// A service that answers with the request's body. If the first piece of the body is the command
/// `fail`, `panic` or `timeout`, the service obeys it instead; `wait` delays the answer.
#[derive(Clone, Default)]
struct Echo {
    in_flight: Rc<Cell<usize>>,
    /// Notified to answer a request whose body is `wait`.
    go: Rc<Notify>,
}

struct InFlight(Rc<Cell<usize>>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

struct Reply {
    first: Option<Bytes>,
    rest: Option<Incoming>,
    _in_flight: InFlight,
}

impl Outgoing for Reply {
    type Data = Bytes;

    fn poll_part(&mut self, cx: &mut std::task::Context<'_>) -> Poll<Part<Bytes>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Part::Data(first));
        }
        let Some(rest) = &mut self.rest else { return Poll::Ready(Part::Success) };
        std::pin::Pin::new(rest).poll_frame(cx).map(|frame| match frame {
            Some(Ok(frame)) => Part::Data(frame.into_data().unwrap()),
            Some(Err(_)) => Part::Failure(status("1")),
            None => Part::Success,
        })
    }
}

fn status(code: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(HeaderName::from_static("grpc-status"), HeaderValue::from_static(code))])
}

impl Service for Echo {
    type Reply = Reply;
    type Future = std::pin::Pin<Box<dyn Future<Output = Response<Reply>>>>;

    fn call(&self, timeout: Duration, mut body: Incoming) -> Self::Future {
        self.in_flight.set(self.in_flight.get() + 1);
        let (in_flight, go) = (InFlight(self.in_flight.clone()), self.go.clone());
        Box::pin(async move {
            let first = poll_fn(|cx| std::pin::Pin::new(&mut body).poll_frame(cx)).await;
            let first = first.and_then(Result::ok).and_then(|frame| frame.into_data().ok());
            match first.as_deref() {
                Some(b"fail") => return Response::Failure(status("9")),
                Some(b"panic") => panic!("requested by the test"),
                Some(b"wait") => go.notified().await,
                Some(b"timeout") => {
                    let seconds = Bytes::from(timeout.as_secs().to_string());
                    return Response::Reply(Reply {
                        first: Some(seconds),
                        rest: None,
                        _in_flight: in_flight,
                    });
                }
                _ => {}
            }
            Response::Reply(Reply { first, rest: Some(body), _in_flight: in_flight })
        })
    }
}

async fn opening(stream: DuplexStream) -> crate::sniff::Opening<DuplexStream> {
    match sniff(stream).await.unwrap() {
        Peer::Hop(opening) => opening,
        Peer::Other(_) => panic!("the peer was not recognized as a hop peer"),
    }
}

/// Connects both sides through a pipe with a capacity of `pipe` bytes, and runs `test`.
async fn with_connection<F: Future<Output = ()>>(
    pipe: usize,
    test: impl FnOnce(Sender, Echo, Rc<Notify>) -> F,
) {
    let (ours, theirs) = duplex(pipe);
    let (echo, leave) = (Echo::default(), Rc::new(Notify::new()));
    LocalSet::new()
        .run_until(async {
            let (service, leaves) = (echo.clone(), leave.clone());
            spawn_local(async move {
                let opening = opening(theirs).await;
                let mut connection = server::Connection::new(opening, service, BOUNDS);
                let ended = tokio::select! {
                    ended = &mut connection => ended,
                    () = leaves.notified() => {
                        connection.graceful_shutdown();
                        connection.await
                    }
                };
                ended.unwrap();
            });
            let (sender, connection) = handshake(ours, WINDOW, Some(PINGS)).await.unwrap().unwrap();
            let driven = spawn_local(connection);
            test(sender, echo, leave).await;
            driven.await.unwrap().unwrap();
        })
        .await;
}

/// Reads a response to its end.
async fn read(call: &mut Call) -> Result<(Vec<u8>, Option<HeaderMap>), CallError> {
    let mut data = Vec::new();
    loop {
        match poll_fn(|cx| std::pin::Pin::new(&mut *call).poll_frame(cx)).await.transpose()? {
            None => return Ok((data, None)),
            Some(frame) => match frame.into_data() {
                Ok(piece) => data.extend_from_slice(&piece),
                Err(frame) => {
                    let trailers =
                        frame.into_trailers().ok().filter(|trailers| !trailers.is_empty());
                    return Ok((data, trailers));
                }
            },
        }
    }
}

#[tokio::test]
async fn requests_are_answered() {
    with_connection(4096, |sender, _, _| async move {
        for text in ["hello", "a second one"] {
            let mut call = sender.call(32, &Bytes::from(text), true).unwrap();
            assert_eq!(read(&mut call).await, Ok((text.into(), None)));
        }
        let mut call = sender.call(32, &Bytes::from_static(b"timeout"), true).unwrap();
        assert_eq!(read(&mut call).await.unwrap().0, b"32");
    })
    .await;
}

#[tokio::test]
async fn a_failure_arrives_with_its_status() {
    with_connection(4096, |sender, _, _| async move {
        let mut call = sender.call(1, &Bytes::from_static(b"fail"), true).unwrap();
        assert_eq!(read(&mut call).await, Ok((Vec::new(), Some(status("9")))));
    })
    .await;
}

#[tokio::test]
async fn a_panic_breaks_only_its_own_request() {
    with_connection(4096, |sender, _, _| async move {
        let mut other = sender.call(1, &Bytes::from_static(b"wait"), true).unwrap();
        let mut call = sender.call(1, &Bytes::from_static(b"panic"), true).unwrap();
        assert_eq!(read(&mut call).await, Err(CallError::Broken));
        assert_eq!(futures::poll!(Box::pin(read(&mut other))), Poll::Pending);
    })
    .await;
}

#[tokio::test]
async fn bodies_larger_than_every_window_pass_both_ways() {
    with_connection(1000, |sender, _, _| async move {
        let body: Vec<u8> = (0..1_000_000_u32).map(|at| (at / 7) as u8).collect();
        let mut call = sender.call(1, &Bytes::copy_from_slice(&body[..300_000]), false).unwrap();
        let writer = call.writer();
        let rest = Bytes::copy_from_slice(&body[300_000..]);
        let write = async {
            for piece in rest.chunks(50_000) {
                poll_fn(|cx| writer.poll_ready(cx)).await.unwrap();
                writer.send(&Bytes::copy_from_slice(piece));
            }
            writer.end();
        };
        let (read, ()) = tokio::join!(read(&mut call), write);
        assert!(read.unwrap().0 == body);
    })
    .await;
}

#[tokio::test]
async fn sides_that_both_write_more_than_the_pipe_holds_make_progress() {
    with_connection(1000, |sender, _, _| async move {
        // The peer's settings have arrived before the first response.
        read(&mut sender.call(1, &Bytes::from_static(b"x"), true).unwrap()).await.unwrap();
        let body = Bytes::from(vec![7; 2_000_000]);
        let calls: Vec<_> =
            (0..BOUNDS.streams).map(|_| sender.call(1, &body, true).unwrap()).collect();
        for mut call in calls {
            assert!(read(&mut call).await.unwrap().0 == body);
        }
    })
    .await;
}

#[tokio::test]
async fn responses_arrive_in_any_order() {
    with_connection(4096, |sender, echo, _| async move {
        let mut first = sender.call(1, &Bytes::from_static(b"wait"), true).unwrap();
        let mut second = sender.call(1, &Bytes::from_static(b"second"), true).unwrap();
        assert_eq!(read(&mut second).await.unwrap().0, b"second");
        echo.go.notify_one();
        assert_eq!(read(&mut first).await.unwrap().0, b"wait");
    })
    .await;
}

#[tokio::test]
async fn a_dropped_call_cancels_its_request() {
    with_connection(4096, |sender, echo, _| async move {
        let call = sender.call(1, &Bytes::from_static(b"wait"), true).unwrap();
        let mut other = sender.call(1, &Bytes::from_static(b"x"), true).unwrap();
        read(&mut other).await.unwrap();
        drop(other);
        assert_eq!(echo.in_flight.get(), 1);
        drop(call);
        read(&mut sender.call(1, &Bytes::from_static(b"x"), true).unwrap()).await.unwrap();
        assert_eq!(echo.in_flight.get(), 0);
    })
    .await;
}

#[tokio::test]
async fn the_call_of_an_aborted_request_fails() {
    with_connection(4096, |sender, _, _| async move {
        let mut call = sender.call(1, &Bytes::from_static(b"begin"), false).unwrap();
        call.writer().abort();
        assert_eq!(read(&mut call).await, Err(CallError::Broken));
    })
    .await;
}

#[tokio::test]
async fn no_more_streams_are_opened_than_the_peer_allows() {
    with_connection(4096, |sender, _, _| async move {
        // The peer's settings have arrived before the first response.
        read(&mut sender.call(1, &Bytes::from_static(b"x"), true).unwrap()).await.unwrap();
        let waiting = || sender.call(1, &Bytes::from_static(b"wait"), true);
        let calls: Vec<_> = std::iter::from_fn(|| waiting().ok()).collect();
        assert_eq!(calls.len(), BOUNDS.streams as usize);
    })
    .await;
}

#[tokio::test]
async fn a_connection_that_shuts_down_answers_its_requests() {
    with_connection(4096, |sender, echo, leave| async move {
        let mut waiting = sender.call(1, &Bytes::from_static(b"wait"), true).unwrap();
        read(&mut sender.call(1, &Bytes::from_static(b"x"), true).unwrap()).await.unwrap();
        leave.notify_one();
        while !sender.is_closed() {
            tokio::task::yield_now().await;
        }
        assert!(sender.call(1, &Bytes::new(), true).is_err());
        echo.go.notify_one();
        assert_eq!(read(&mut waiting).await.unwrap().0, b"wait");
    })
    .await;
}

#[tokio::test]
async fn a_connection_without_senders_ends_after_its_calls() {
    with_connection(4096, |sender, echo, _| async move {
        let mut call = sender.call(1, &Bytes::from_static(b"wait"), true).unwrap();
        drop(sender);
        echo.go.notify_one();
        assert_eq!(read(&mut call).await.unwrap().0, b"wait");
    })
    .await;
    let (ours, theirs) = duplex(4096);
    let connected = tokio::join!(handshake(ours, WINDOW, Some(PINGS)), async {
        let mut settings = BytesMut::new();
        frame::put_settings(&mut settings, &settings::ours(WINDOW, 8));
        let mut stream = theirs;
        stream.write_all(&settings).await.unwrap();
        stream
    });
    let (sender, connection) = connected.0.unwrap().unwrap();
    drop(sender);
    connection.await.unwrap();
}

#[tokio::test]
async fn the_calls_of_a_lost_connection_fail() {
    let (ours, theirs) = duplex(4096);
    let connected = async {
        let (sender, connection) = handshake(ours, WINDOW, Some(PINGS)).await.unwrap().unwrap();
        let mut call = sender.call(1, &Bytes::from_static(b"x"), true).unwrap();
        connection.await.unwrap();
        assert_eq!(read(&mut call).await, Err(CallError::Broken));
        assert!(sender.is_closed());
    };
    let lost = async {
        let mut stream = theirs;
        let mut settings = BytesMut::new();
        frame::put_settings(&mut settings, &settings::ours(WINDOW, 8));
        stream.write_all(&settings).await.unwrap();
    };
    tokio::join!(connected, lost);
}

#[tokio::test]
async fn a_silent_peer_is_pinged_and_then_given_up() {
    let (ours, mut theirs) = duplex(1 << 20);
    let pings = Pings { after: Duration::from_millis(3), timeout: Duration::from_millis(3) };
    let mut settings = BytesMut::new();
    frame::put_settings(&mut settings, &settings::ours(WINDOW, 8));
    theirs.write_all(&settings).await.unwrap();
    let (sender, connection) = handshake(ours, WINDOW, Some(pings)).await.unwrap().unwrap();
    let _call = sender.call(1, &Bytes::from_static(b"x"), true).unwrap();
    let ended = connection.await;
    assert!(matches!(ended, Err(ConnectionError::Silent)));
    let mut sent = Vec::new();
    drop(sender);
    theirs.read_to_end(&mut sent).await.unwrap();
    let mut ping = BytesMut::new();
    frame::put_ping(&mut ping, [0; 8], false);
    assert_eq!(sent.windows(ping.len()).filter(|part| *part == ping).count(), 1);
}
