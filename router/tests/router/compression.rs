//! Tests the compression of Workers' responses.

use std::io::Read;
use std::num::NonZeroUsize;

use bytes::Bytes;
use futures::channel::mpsc;
use futures::{SinkExt, future};
use http::{Method, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::harness::{
    Behavior, Client, DEADLINE, FullResponse, Node, Options, Scenario, eventually, full, streamed,
};

const CODINGS: [&str; 3] = ["br", "zstd", "gzip"];

const PAGE: &[(&str, &str)] = &[("content-type", "text/html"), ("etag", "\"1\"")];
const TEXT: &[(&str, &str)] = &[("content-type", "text/plain")];
const EVENTS: &[(&str, &str)] = &[("content-type", "text/event-stream")];

/// Decodes a body whose end may be missing.
fn decode(coding: &str, encoded: &[u8]) -> Vec<u8> {
    let mut reader: Box<dyn Read> = match coding {
        "br" => Box::new(brotli::Decompressor::new(encoded, 4096)),
        "zstd" => Box::new(zstd::stream::read::Decoder::new(encoded).unwrap()),
        _ => Box::new(flate2::read::GzDecoder::new(encoded)),
    };
    let (mut decoded, mut piece) = (Vec::new(), vec![0; 64 * 1024]);
    while let Ok(length @ 1..) = reader.read(&mut piece) {
        decoded.extend_from_slice(&piece[..length]);
    }
    decoded
}

/// Returns text that is compressible, but not repetitive.
fn text(length: usize) -> Bytes {
    let mut random = fastrand::Rng::with_seed(7);
    let words = std::iter::repeat_with(|| format!("word{:02} ", random.u8(..64)));
    let mut text: String = words.take(length / 7 + 1).collect();
    text.truncate(length);
    text.into()
}

async fn send(client: &mut Client, method: Method, accepted: &str) -> FullResponse {
    let request = client.request(method, "/").header("accept-encoding", accepted);
    client.send(request.body(full("")).unwrap()).await.unwrap()
}

fn coding(response: &FullResponse) -> Option<&str> {
    response.headers.get("content-encoding").map(|coding| coding.to_str().unwrap())
}

/// Opens a request whose body the node streams back.
async fn open(client: &mut Client, accepted: &str) -> (mpsc::Sender<Bytes>, Response<Incoming>) {
    let (pieces_tx, pieces_rx) = mpsc::channel::<Bytes>(0);
    let request = client.request(Method::POST, "/").header("accept-encoding", accepted);
    let response = client.open(request.body(streamed(pieces_rx)).unwrap()).await.unwrap();
    (pieces_tx, response)
}

/// Reads a compressed body until its content ends with this text, and appends the bytes to
/// `encoded`.
async fn read_to(body: &mut Incoming, coding: &str, encoded: &mut Vec<u8>, end: &str) {
    let read = async {
        while !decode(coding, encoded).ends_with(end.as_bytes()) {
            let frame = body.frame().await.unwrap().unwrap();
            encoded.extend_from_slice(&frame.into_data().unwrap());
        }
    };
    tokio::time::timeout(DEADLINE, read).await.expect("the piece was held back");
}

#[tokio::test]
async fn a_page_is_compressed_with_each_coding() {
    for length in [1024, 10_000, 64 * 1024] {
        let page = text(length);
        let node = Node::start("n1", Behavior::Answer(PAGE, page.clone()));
        let scenario = Scenario::with(&[&node]).await;
        for mut client in
            [Client::http1(scenario.addr()).await, Client::http2(scenario.addr()).await]
        {
            for accepted in CODINGS {
                let answer = send(&mut client, Method::GET, accepted).await;
                assert_eq!(coding(&answer), Some(accepted));
                assert_eq!(answer.header("vary"), "accept-encoding");
                assert_eq!(answer.header("etag"), "W/\"1\"");
                assert!(answer.body.len() < length / 2, "{} bytes", answer.body.len());
                assert!(decode(accepted, &answer.body) == page);
            }
        }
    }
}

#[tokio::test]
async fn the_cheapest_coding_is_used_if_the_client_accepts_several_equally() {
    let node = Node::start("n1", Behavior::Answer(PAGE, text(5000)));
    let scenario = Scenario::with(&[&node]).await;
    let mut client = scenario.client().await;
    for (accepted, expected) in [
        ("gzip, deflate, br, zstd", Some("zstd")),
        ("gzip, deflate, br", Some("gzip")),
        ("gzip;q=0.5, br", Some("br")),
        ("identity;q=0, *", Some("zstd")),
        ("zstd;q=0, *", Some("gzip")),
        ("gzip;q=0, br;q=0, zstd;q=0", None),
        ("identity", None),
        ("deflate", None),
    ] {
        assert_eq!(coding(&send(&mut client, Method::GET, accepted).await), expected, "{accepted}");
    }
    let plain = client.get("/").await;
    assert_eq!((coding(&plain), plain.header("vary")), (None, "accept-encoding"));
    assert_eq!((plain.header("etag"), plain.body.len()), ("\"1\"", 5000));
}

#[tokio::test]
async fn the_response_to_head_has_the_headers_of_the_response_to_get() {
    let node = Node::start("n1", Behavior::Answer(PAGE, text(5000)));
    let scenario = Scenario::with(&[&node]).await;
    let mut client = scenario.client().await;
    for accepted in CODINGS {
        let get = send(&mut client, Method::GET, accepted).await;
        let head = send(&mut client, Method::HEAD, accepted).await;
        assert_eq!(head.body, "");
        for name in ["content-encoding", "content-type", "etag", "vary"] {
            assert_eq!(head.header(name), get.header(name));
        }
        // The length of compressed content is known only once it has been compressed.
        assert!(!head.headers.contains_key("content-length"));
    }
    let plain = send(&mut client, Method::HEAD, "identity").await;
    assert_eq!(plain.header("content-length"), "5000");
}

#[tokio::test]
async fn a_worker_opts_out_of_compression() {
    const NO_TRANSFORM: &[(&str, &str)] =
        &[("content-type", "text/html"), ("cache-control", "no-transform"), ("etag", "\"1\"")];
    const IDENTITY: &[(&str, &str)] =
        &[("content-type", "text/html"), ("content-encoding", "identity")];
    const ENCODED: &[(&str, &str)] = &[("content-type", "text/html"), ("content-encoding", "gzip")];
    for headers in [NO_TRANSFORM, IDENTITY, ENCODED] {
        let node = Node::start("n1", Behavior::Answer(headers, text(5000)));
        let scenario = Scenario::with(&[&node]).await;
        let mut client = scenario.client().await;
        let answer = send(&mut client, Method::GET, "br, zstd, gzip").await;
        assert!(answer.body == text(5000), "{headers:?}");
        for (name, value) in headers {
            assert_eq!(answer.header(name), *value, "{headers:?}");
        }
        assert!(!answer.headers.contains_key("vary"), "{headers:?}");
    }
}

#[tokio::test]
async fn a_router_without_compression_changes_no_response() {
    let node = Node::start("n1", Behavior::Answer(PAGE, text(5000)));
    let options = Options { compression: false, ..Options::default() };
    let scenario = Scenario::with_options(&[&node], options).await;
    let answer = send(&mut scenario.client().await, Method::GET, "gzip").await;
    assert_eq!((coding(&answer), answer.body.len()), (None, 5000));
    assert_eq!(answer.header("etag"), "\"1\"");
    assert!(!answer.headers.contains_key("vary"));
}

#[tokio::test]
async fn a_piece_of_a_compressed_stream_does_not_wait_for_the_next() {
    let node = Node::start("n1", Behavior::Stream(TEXT));
    let scenario = Scenario::with(&[&node]).await;
    for accepted in CODINGS {
        for mut client in
            [Client::http1(scenario.addr()).await, Client::http2(scenario.addr()).await]
        {
            let (mut pieces_tx, response) = open(&mut client, accepted).await;
            assert_eq!(response.headers()["content-encoding"], accepted);
            assert!(!response.headers().contains_key("content-length"));
            let (mut body, mut encoded) = (response.into_body(), Vec::new());
            for piece in ["one", "two", "three"] {
                pieces_tx.send(piece.into()).await.unwrap();
                read_to(&mut body, accepted, &mut encoded, piece).await;
            }
            drop(pieces_tx);
            encoded.extend_from_slice(&body.collect().await.unwrap().to_bytes());
            assert_eq!(decode(accepted, &encoded), b"onetwothree");
        }
    }
}

#[tokio::test]
async fn events_are_not_compressed() {
    let node = Node::start("n1", Behavior::Stream(EVENTS));
    let scenario = Scenario::with(&[&node]).await;
    let mut client = scenario.client().await;
    let (mut pieces_tx, response) = open(&mut client, "br, zstd, gzip").await;
    assert!(!response.headers().contains_key("content-encoding"));
    let mut body = response.into_body();
    for event in ["data: 1\n\n", "data: 2\n\n"] {
        pieces_tx.send(event.into()).await.unwrap();
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), event);
    }
}

#[tokio::test]
async fn long_streams_are_compressed_concurrently() {
    let node = Node::start("n1", Behavior::Stream(TEXT));
    let scenario = Scenario::with(&[&node]).await;
    let sent = text(3_000_000);
    let clients = CODINGS.into_iter().cycle().take(12).map(async |accepted| {
        let mut client = Client::http2(scenario.addr()).await;
        let request = client.request(Method::POST, "/").header("accept-encoding", accepted);
        let answer = client.send(request.body(full(sent.clone())).unwrap()).await.unwrap();
        assert_eq!(coding(&answer), Some(accepted));
        assert!(decode(accepted, &answer.body) == sent, "{accepted}");
    });
    future::join_all(clients).await;
    for accepted in CODINGS {
        let read = scenario.metric("tenon_router_compression_read_bytes_total", Some(accepted));
        let written =
            scenario.metric("tenon_router_compression_written_bytes_total", Some(accepted));
        assert_eq!(read, 4.0 * sent.len() as f64, "{accepted}");
        assert!(written > 0.0 && written < read / 2.0, "{accepted}: {written} of {read}");
    }
}

#[tokio::test]
async fn the_number_of_streams_that_are_compressed_at_the_same_time_is_bounded() {
    let node = Node::start("n1", Behavior::Stream(TEXT));
    let options = Options { threads: NonZeroUsize::MIN, ..Options::default() };
    let scenario = Scenario::with_options(&[&node], options).await;
    let mut client = Client::http2(scenario.addr()).await;
    let mut streams = Vec::new();
    for _ in 0..80 {
        streams.push(open(&mut client, "gzip").await);
    }
    let is_compressed = |(_, response): &(_, Response<Incoming>)| {
        response.headers().contains_key("content-encoding")
    };
    let compressed = streams.iter().filter(|stream| is_compressed(stream)).count();
    // One address may take three quarters of the slots.
    assert_eq!(compressed, 48);
    assert_eq!(scenario.metric("tenon_router_compression_refused_total", Some("slots")), 32.0);
    for stream in streams {
        let is_compressed = is_compressed(&stream);
        let (mut pieces_tx, response) = stream;
        pieces_tx.send("piece".into()).await.unwrap();
        drop(pieces_tx);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let content = if is_compressed { decode("gzip", &body) } else { body.into() };
        assert_eq!(content, b"piece");
    }
    // The slots are free again.
    let (_pieces_tx, response) = open(&mut client, "gzip").await;
    assert!(response.headers().contains_key("content-encoding"));
}

#[tokio::test]
async fn without_memory_for_an_encoder_a_stream_is_not_compressed() {
    let node = Node::start("n1", Behavior::Stream(TEXT));
    let options =
        Options { client_memory: 1 << 20, threads: NonZeroUsize::MIN, ..Options::default() };
    let scenario = Scenario::with_options(&[&node], options).await;
    let mut client = scenario.client().await;
    let (mut pieces_tx, response) = open(&mut client, "br").await;
    assert!(!response.headers().contains_key("content-encoding"));
    assert_eq!(scenario.metric("tenon_router_compression_refused_total", Some("memory")), 1.0);
    pieces_tx.send("piece".into()).await.unwrap();
    drop(pieces_tx);
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "piece");
}

#[tokio::test]
async fn a_client_that_disconnects_ends_the_stream_and_frees_its_memory() {
    let node = Node::start("n1", Behavior::Stream(TEXT));
    let scenario = Scenario::with(&[&node]).await;
    let memory = || scenario.metric("tenon_router_client_memory_bytes", None);
    for (round, accepted) in CODINGS.into_iter().enumerate() {
        let mut client = scenario.client().await;
        let (mut pieces_tx, response) = open(&mut client, accepted).await;
        let mut body = response.into_body();
        pieces_tx.send("piece".into()).await.unwrap();
        read_to(&mut body, accepted, &mut Vec::new(), "piece").await;
        eventually("the encoder's memory to be counted", || memory() > 300_000.0).await;
        drop((body, client));
        eventually("the node's stream to end", || node.dropped() == round + 1).await;
        eventually("the encoder's memory to be free", || memory() < 300_000.0).await;
    }
}
