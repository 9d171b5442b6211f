//! Tests of WebSockets whose peer sends without end and never reads: the node holds a bounded
//! number of bytes for each, and the Worker's other sockets are served.

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use tenon_engine::{Body, ByteStream, FetchRequest, ResponseBody, StreamError};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::fetching;
use crate::harness::{Loaded, Shard, Text as _, await_condition};
use crate::origin::Origin;
use crate::sockets::{
    ECHO, KEY, VERSION, accept_handshake, connect, masked, opening, receive, send, serving,
};

fetching![
    a_client_that_pings_and_never_reads_is_held_back,
    a_server_that_pings_and_never_reads_is_held_back,
    a_client_that_requests_echoes_and_never_reads_is_held_back,
    a_client_that_reads_again_is_served_again,
];

/// The maximum number of bytes that a Worker's socket may take from a peer that never reads: pieces
/// read from the network, and queued messages of the Worker.
const HELD: usize = 2 << 20;

/// The maximum number of bytes that may be taken over TCP from a peer that never reads, including
/// the bytes in the kernel's buffers at both ends of the connection.
const KERNEL: usize = 12 << 20;

/// The number of times that a neighbor must be served during the flood.
const ROUNDS: usize = 300;

/// Returns a stream that repeats `piece` without end, and a count of the bytes that have been read.
fn endless(piece: Vec<u8>) -> (ByteStream, Rc<Cell<usize>>) {
    let taken = Rc::<Cell<usize>>::default();
    let count = Rc::clone(&taken);
    let piece = Bytes::from(piece);
    let pieces = stream::repeat_with(move || {
        count.set(count.get() + piece.len());
        Ok::<_, StreamError>(piece.clone())
    });
    (Box::pin(pieces), taken)
}

/// Checks repeatedly that another socket of the Worker is served, until the flood exceeds `bound`.
async fn serve_a_neighbor(worker: &Loaded, taken: &Cell<usize>, bound: usize) {
    let mut neighbor = connect(worker).await;
    for round in 0..ROUNDS {
        if taken.get() > bound {
            break;
        }
        let text = format!("round {round}");
        send(&mut neighbor, &text).await;
        assert_eq!(receive(&mut neighbor).await, text);
    }
    assert!(
        taken.get() <= bound,
        "{} bytes have been read from a peer that never reads",
        taken.get()
    );
}

async fn a_client_that_pings_and_never_reads_is_held_back(shard: Rc<Shard>) {
    let worker = shard.handler(&serving(ECHO)).start().await.unwrap();
    let (pings, taken) = endless(masked(0x89, &[7; 125]).repeat(500));
    let (request, _sent) = opening(&[KEY, VERSION]);
    let unread = worker.0.fetch(FetchRequest { body: Body::Stream(pings), ..request });
    let unread = unread.await.unwrap();
    serve_a_neighbor(&worker, &taken, HELD).await;
    drop(unread);
}

async fn a_client_that_requests_echoes_and_never_reads_is_held_back(shard: Rc<Shard>) {
    let worker = shard.handler(&serving(ECHO)).start().await.unwrap();
    let message = [&[0x82, 0xfe, 0x3e, 0x80, 0, 0, 0, 0][..], &[7; 16_000]].concat();
    let (messages, taken) = endless(message.repeat(4));
    let (request, _sent) = opening(&[KEY, VERSION]);
    let unread = worker.0.fetch(FetchRequest { body: Body::Stream(messages), ..request });
    let unread = unread.await.unwrap();
    serve_a_neighbor(&worker, &taken, HELD).await;
    assert!(!shard.logged("error"), "a message of the Worker could not be queued");
    drop(unread);
}

async fn a_client_that_reads_again_is_served_again(shard: Rc<Shard>) {
    let worker = shard.handler(&serving(ECHO)).start().await.unwrap();
    let (request, sent) = opening(&[KEY, VERSION]);
    let response = worker.0.fetch(request).await.unwrap();
    let ResponseBody::Stream(mut received) = response.body else {
        panic!("the response is not a tunnel")
    };
    // The echoes exceed what the node queues for a client that does not read.
    let message = masked(0x82, &[7; 125]);
    let count = 8_000;
    sent.unbounded_send(Ok(message.repeat(count).into())).unwrap();
    sent.unbounded_send(Ok(masked(0x89, b"last").into())).unwrap();
    let mut neighbor = connect(&worker).await;
    send(&mut neighbor, "meanwhile").await;
    assert_eq!(receive(&mut neighbor).await, "meanwhile");
    let mut frames = Vec::new();
    while !frames.ends_with(b"\x8a\x04last") {
        frames.extend_from_slice(&received.next().await.expect("the tunnel has ended").unwrap());
    }
    assert_eq!(
        frames.len(),
        count * (2 + 125) + 6,
        "a message or the answer to the ping is missing"
    );
}

/// Starts an origin that accepts a WebSocket and then sends pings for as long as the connection
/// accepts them. Also returns a count of the bytes sent.
async fn flooding() -> (Origin, Rc<Cell<usize>>) {
    let taken = Rc::<Cell<usize>>::default();
    let count = Rc::clone(&taken);
    let origin = Origin::serve_connections(move |mut stream: TcpStream| {
        let count = Rc::clone(&count);
        async move {
            if !accept_handshake(&mut stream).await {
                return;
            }
            let pings = [&[0x89, 125][..], &[7; 125]].concat().repeat(500);
            while let Ok(written @ 1..) = stream.write(&pings).await {
                count.set(count.get() + written);
                tokio::task::yield_now().await;
            }
        }
    });
    (origin.await, taken)
}

async fn a_server_that_pings_and_never_reads_is_held_back(shard: Rc<Shard>) {
    let (origin, taken) = flooding().await;
    let opens = format!(
        "const socket = new WebSocket('ws{}');
         await new Promise((resolve) => {{ socket.onopen = resolve }});
         return new Response('open');",
        origin.url("/").as_str().trim_start_matches("http")
    );
    let body = format!("if (request.headers.get('upgrade')) {{ {} }} {opens}", serving(ECHO));
    let worker = shard.handler(&body).start().await.unwrap();
    let opened = worker.get("/").await.unwrap();
    assert_eq!(opened.text(), "open");
    await_condition("the flood", || taken.get() > 0).await;
    serve_a_neighbor(&worker, &taken, KERNEL).await;
}
