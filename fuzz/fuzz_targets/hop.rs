//! Fuzzes the hop protocol between routers and shards, with arbitrary frames from a peer. A body
//! that a shard reads from a connection is one that a complete implementation reads too, unless one
//! of the two refuses the connection.

#![no_main]

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::LazyLock;
use std::task::{Context, Poll};
use std::time::Duration;

use arbitrary::Arbitrary;
use bytes::{BufMut, Bytes, BytesMut};
use http::HeaderMap;
use http_body::Body as _;
use libfuzzer_sys::fuzz_target;
use tenon_hop::Incoming;
use tenon_hop::client::handshake;
use tenon_hop::server::{Bounds, Connection, Outgoing, Part, Response};
use tenon_hop::sniff::{Peer, sniff};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::task::{LocalSet, spawn_local};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// SETTINGS that announce the hop protocol.
const SETTINGS: &[u8] = &[0, 0, 6, 4, 0, 0, 0, 0, 0, 0xf7, 0xe0, 0, 0, 0, 1];

/// Length of the header of a frame, in bytes.
const HEADER: usize = 9;

/// Number of turns of the event loop in which h2 handles a frame and passes its data on.
const TURNS: usize = 8;

/// Capacity of a connection, in bytes. It has room for everything that either side writes, so that
/// neither side waits for the other.
const PIPE: usize = 16 << 20;

#[derive(Arbitrary, Debug)]
enum Frame {
    /// The head of a request.
    Request {
        stream: u8,
        ends: bool,
    },
    Data {
        stream: u8,
        ends: bool,
        payload: Vec<u8>,
    },
    Window {
        stream: u8,
        bytes: u32,
    },
    Reset {
        stream: u8,
    },
    Ping {
        ack: bool,
    },
    GoAway {
        last: u8,
    },
    Any {
        kind: u8,
        flags: u8,
        stream: u8,
        payload: Vec<u8>,
    },
}

impl Frame {
    fn put(&self, out: &mut BytesMut) {
        match self {
            Self::Request { stream, ends } => put(out, 1, 4 | u8::from(*ends), *stream, &REQUEST),
            Self::Data { stream, ends, payload } => put(out, 0, u8::from(*ends), *stream, payload),
            Self::Window { stream, bytes } => put(out, 8, 0, *stream, &bytes.to_be_bytes()),
            Self::Reset { stream } => put(out, 3, 0, *stream, &[0, 0, 0, 8]),
            Self::Ping { ack } => put(out, 6, u8::from(*ack), 0, b"leaving!"),
            Self::GoAway { last } => put(out, 7, 0, 0, &[0, 0, 0, *last, 0, 0, 0, 0]),
            Self::Any { kind, flags, stream, payload } => put(out, *kind, *flags, *stream, payload),
        }
    }
}

fn put(out: &mut BytesMut, kind: u8, flags: u8, stream: u8, payload: &[u8]) {
    let payload = &payload[..payload.len().min(16_384)];
    out.put_uint(payload.len() as u64, 3);
    out.put_slice(&[kind, flags]);
    out.put_u32(stream.into());
    out.put_slice(payload);
}

/// The header block of a request, as the client of `tenon_hop` writes it.
static REQUEST: LazyLock<Vec<u8>> = LazyLock::new(|| {
    run(async {
        let (ours, mut theirs) = duplex(PIPE);
        theirs.write_all(SETTINGS).await.unwrap();
        let (sender, connection) = handshake(ours, 1 << 16, None).await.unwrap().unwrap();
        spawn_local(connection);
        let _call = sender.call(1, &Bytes::new(), true).unwrap();
        theirs.read_exact(&mut [0; PREFACE.len()]).await.unwrap();
        loop {
            let mut head = [0; HEADER];
            theirs.read_exact(&mut head).await.unwrap();
            let mut payload = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
            theirs.read_exact(&mut payload).await.unwrap();
            if head[3] == 1 {
                return payload;
            }
        }
    })
});

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    LocalSet::new().block_on(&runtime, future)
}

/// Returns both ends of a connection on which the peer has sent these bytes and will send nothing
/// more.
async fn peer(bytes: &[u8]) -> (DuplexStream, DuplexStream) {
    let (mut ours, theirs) = duplex(PIPE);
    ours.write_all(bytes).await.unwrap();
    ours.shutdown().await.unwrap();
    (ours, theirs)
}

struct Empty;

impl Outgoing for Empty {
    type Data = Bytes;

    fn poll_part(&mut self, _: &mut Context<'_>) -> Poll<Part<Bytes>> {
        Poll::Ready(Part::Success)
    }
}

/// The bodies of the requests that were received whole.
type Bodies = Rc<RefCell<Vec<Vec<u8>>>>;

async fn collect(mut body: Incoming, bodies: Bodies) -> Response<Empty> {
    let mut whole = Vec::new();
    while let Some(frame) =
        std::future::poll_fn(|cx| std::pin::Pin::new(&mut body).poll_frame(cx)).await
    {
        match frame {
            Ok(frame) => whole.extend_from_slice(&frame.into_data().unwrap_or_default()),
            Err(_) => return Response::Failure(HeaderMap::new()),
        }
    }
    bodies.borrow_mut().push(whole);
    Response::Reply(Empty)
}

/// Returns what a shard reads, or `None` if it refuses the connection.
async fn hop(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (_ours, theirs) = peer(bytes).await;
    let bodies = Bodies::default();
    let kept = bodies.clone();
    let service = move |_: Duration, body: Incoming| collect(body, kept.clone());
    let Ok(Peer::Hop(opening)) = sniff(theirs).await else {
        panic!("the peer was not recognized as a hop peer")
    };
    let bounds = Bounds { streams: 16, stream_window: 1 << 16 };
    let ended = Connection::new(opening, service, bounds).await;
    ended.is_ok().then(|| bodies.take())
}

/// Returns what a complete implementation reads, or `None` if it refuses the connection.
async fn complete(frames: &[Frame]) -> Option<Vec<Vec<u8>>> {
    let (mut ours, theirs) = duplex(PIPE);
    ours.write_all(PREFACE).await.unwrap();
    ours.write_all(SETTINGS).await.unwrap();
    let (bodies, refuses) = (Bodies::default(), Rc::new(Cell::new(false)));
    let serving = serve(theirs, bodies.clone());
    let refused = refuses.clone();
    spawn_local(async move { refused.set(serving.await.is_err()) });
    // The frames are sent one at a time, and the connection stays open, because if the
    // peer resets a request or hangs up, h2 fails requests that it has received but not passed on.
    for frame in frames {
        let mut bytes = BytesMut::new();
        frame.put(&mut bytes);
        ours.write_all(&bytes).await.ok()?;
        for _ in 0..TURNS {
            tokio::task::yield_now().await;
        }
    }
    (!refuses.get()).then(|| bodies.take())
}

async fn serve(stream: DuplexStream, bodies: Bodies) -> Result<(), h2::Error> {
    let mut builder = h2::server::Builder::new();
    let mut connection = builder.initial_window_size(1 << 16).handshake::<_, Bytes>(stream).await?;
    while let Some(request) = connection.accept().await {
        let (request, mut respond) = request?;
        let bodies = bodies.clone();
        spawn_local(async move {
            let (mut body, mut whole) = (request.into_body(), Vec::new());
            while let Some(data) = body.data().await {
                let Ok(data) = data else { return };
                _ = body.flow_control().release_capacity(data.len());
                whole.extend_from_slice(&data);
            }
            bodies.borrow_mut().push(whole);
            _ = respond.send_response(http::Response::new(()), true);
        });
    }
    Ok(())
}

/// Sends requests to a shard that sends these bytes.
async fn call(bytes: &[u8]) {
    let (_ours, theirs) = peer(bytes).await;
    let Ok(Some((sender, connection))) = handshake(theirs, 1 << 16, None).await else { return };
    let connection = spawn_local(connection);
    let calls: Vec<_> =
        [true, false, true].map(|ends| sender.call(1, &Bytes::from_static(b"x"), ends)).into();
    let ended = calls.into_iter().flatten().map(|mut call| async move {
        while let Some(Ok(_)) =
            std::future::poll_fn(|cx| std::pin::Pin::new(&mut call).poll_frame(cx)).await
        {}
    });
    // The peer has hung up, so each call ends.
    futures::future::join_all(ended).await;
    drop(sender);
    _ = connection.await;
}

fuzz_target!(|frames: Vec<Frame>| {
    let mut bytes = BytesMut::from(PREFACE);
    bytes.put_slice(SETTINGS);
    frames.iter().for_each(|frame| frame.put(&mut bytes));
    let read = run(hop(&bytes));
    let expected = run(complete(&frames));
    if let (Some(read), Some(mut expected)) = (read, expected) {
        for body in read {
            let at = expected.iter().position(|other| *other == body);
            let at = at.unwrap_or_else(|| panic!("only a shard reads {body:?} from {frames:?}"));
            expected.swap_remove(at);
        }
    }
    run(call(&bytes[PREFACE.len()..]));
});
