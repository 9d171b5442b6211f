//! Tests of compressed messages (RFC 7692) between a Worker and its clients and origins. The other
//! side writes and reads frames itself, because its protocol library knows no compression.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};
use futures::StreamExt as _;
use futures::channel::mpsc::UnboundedSender;
use tenon_egress::handshake::Key;
use tenon_engine::{ResponseBody, Sending, StreamError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::opened::{handshake_response, read_head};
use super::{ECHO, KEY, VERSION, opening, serving};
use crate::fetching;
use crate::harness::{Loaded, Shard};
use crate::origin::Origin;
use crate::text;

fetching![
    messages_are_compressed_if_the_client_offers_it,
    a_long_message_is_compressed_in_frames,
    only_a_client_that_offers_compression_may_compress,
    a_message_that_expands_beyond_the_limit_is_refused,
    a_message_that_is_not_deflate_is_refused,
    a_web_socket_to_an_origin_is_compressed,
    a_socket_is_passed_on_compressed_to_a_client_that_offers_it,
    a_socket_is_passed_on_inflated_to_any_other_client,
];

const OFFER: (&str, &str) =
    ("sec-websocket-extensions", "permessage-deflate; client_max_window_bits");

const AGREED: &str = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";

/// A frame as it was received: its first byte, and its payload.
type Frame = (u8, Vec<u8>);

/// A client that reads and writes frames.
struct RawClient {
    extensions: Option<String>,
    sent: UnboundedSender<Result<Bytes, StreamError>>,
    received: Sending,
    buffer: Vec<u8>,
}

impl RawClient {
    async fn connect(worker: &Loaded, more: &[(&str, &str)]) -> Self {
        let (request, sent) = opening(&[&[KEY, VERSION], more].concat());
        let response = worker.0.fetch(request).await.unwrap();
        assert_eq!(response.status, 101);
        let mut extensions =
            response.headers.iter().filter(|header| header.name == "sec-websocket-extensions");
        let extensions =
            extensions.next().map(|header| String::from_utf8(header.value.to_vec()).unwrap());
        let ResponseBody::Stream(received) = response.body else {
            panic!("the body of a tunnel is not a stream")
        };
        Self { extensions, sent, received, buffer: Vec::new() }
    }

    fn send(&self, first: u8, payload: &[u8]) {
        self.sent.unbounded_send(Ok(written(first, payload, Some([5, 0, 9, 1])).into())).unwrap();
    }

    async fn receive(&mut self) -> Frame {
        loop {
            if let Some((frame, len)) = read(&self.buffer) {
                self.buffer.drain(..len);
                return frame;
            }
            let piece = self.received.next().await.expect("the socket has ended").unwrap();
            self.buffer.extend_from_slice(&piece);
        }
    }

    /// Receives a message. Returns the first byte of its first frame without the FIN bit, the
    /// number of its frames, and its content as it was sent.
    async fn receive_message(&mut self) -> (u8, usize, Vec<u8>) {
        let (first, mut message) = self.receive().await;
        let (mut last, mut frames) = (first, 1);
        while last & 0x80 == 0 {
            let (next, payload) = self.receive().await;
            assert_eq!(next & 0x7f, 0, "a frame does not continue the message");
            message.extend(payload);
            (last, frames) = (next, frames + 1);
        }
        (first & 0x7f, frames, message)
    }

    async fn receive_close(&mut self) -> u16 {
        let (first, payload) = self.receive().await;
        assert_eq!(first, 0x88, "{payload:?}");
        u16::from_be_bytes([payload[0], payload[1]])
    }
}

/// Returns a frame with this first byte, masked if there is a mask.
fn written(first: u8, payload: &[u8], mask: Option<[u8; 4]>) -> Vec<u8> {
    let bit = if mask.is_some() { 0x80 } else { 0 };
    let mut frame = vec![first];
    match payload.len() {
        len @ 0..126 => frame.push(bit | len as u8),
        len @ 126..65_536 => {
            frame.push(bit | 126);
            frame.extend((len as u16).to_be_bytes());
        }
        len => {
            frame.push(bit | 127);
            frame.extend((len as u64).to_be_bytes());
        }
    }
    frame.extend(mask.into_iter().flatten());
    let mask = mask.unwrap_or_default();
    frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// Reads a frame of less than 64 KiB. Returns the frame and its length with its header, or `None`
/// if it is incomplete.
fn read(bytes: &[u8]) -> Option<(Frame, usize)> {
    let (&first, &second) = (bytes.first()?, bytes.get(1)?);
    let (len, begin) = match second & 0x7f {
        126 => (usize::from(u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?])), 4),
        len => (usize::from(len), 2),
    };
    let mask = if second & 0x80 == 0 { [0; 4] } else { *bytes[begin..].first_chunk()? };
    let begin = begin + if second & 0x80 == 0 { 0 } else { 4 };
    let payload = bytes.get(begin..begin + len)?;
    let payload = payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask);
    Some(((first, payload.collect()), begin + len))
}

fn deflated(message: &[u8]) -> Vec<u8> {
    let mut output = Vec::with_capacity(message.len() + 1024);
    let mut encoder = Compress::new(Compression::best(), false);
    encoder.compress_vec(message, &mut output, FlushCompress::Sync).unwrap();
    output.truncate(output.len() - 4);
    output
}

fn inflated(message: &[u8]) -> Vec<u8> {
    let mut output = Vec::with_capacity(8 << 20);
    let input = [message, &[0, 0, 0xff, 0xff]].concat();
    let mut decoder = Decompress::new(false);
    decoder.decompress_vec(&input, &mut output, FlushDecompress::None).unwrap();
    assert_eq!(decoder.total_in(), input.len() as u64);
    output
}

async fn messages_are_compressed_if_the_client_offers_it(shard: Rc<Shard>) {
    let body = format!("{ECHO} on('close', () => console.log('extensions', server.extensions));");
    let worker = shard.handler(&serving(&body)).start().await.unwrap();
    let mut client = RawClient::connect(&worker, &[OFFER]).await;
    assert_eq!(client.extensions.as_deref(), Some(AGREED));
    // The example of RFC 7692 §7.2.3.1, in one frame and in two with a ping between them.
    client.send(0xc1, &[0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00]);
    assert_eq!(client.receive().await, (0x81, b"Hello".to_vec()), "a short message is compressed");
    client.send(0x41, &[0xf2, 0x48, 0xcd]);
    client.send(0x89, b"hi");
    client.send(0x80, &[0xc9, 0xc9, 0x07, 0x00]);
    assert_eq!(client.receive().await, (0x8a, b"hi".to_vec()));
    assert_eq!(client.receive().await, (0x81, b"Hello".to_vec()));
    let long = "a long message ".repeat(100);
    client.send(0x81, long.as_bytes());
    let (first, payload) = client.receive().await;
    assert_eq!((first, inflated(&payload)), (0xc1, long.into_bytes()));
    assert!(payload.len() < 150, "{} bytes", payload.len());
    client.send(0x88, &[0x03, 0xe8]);
    assert_eq!(client.receive_close().await, 1000);
    worker.0.idle().await;
    assert!(shard.logged(&format!("extensions {AGREED}")));
}

async fn a_long_message_is_compressed_in_frames(shard: Rc<Shard>) {
    let limits = |limits: &mut tenon_proto::revision::Limits| limits.cpu_ms = 10_000;
    let worker = shard.handler(&serving(ECHO)).limits(limits).start().await.unwrap();
    for offer in ["permessage-deflate", "permessage-deflate; server_max_window_bits=10"] {
        let extensions = ("sec-websocket-extensions", offer);
        let mut client = RawClient::connect(&worker, &[extensions]).await;
        let message: Vec<u8> = (0..400_000_u32).flat_map(|n| (n / 3).to_be_bytes()).collect();
        client.send(0xc2, &deflated(&message));
        let (first, frames, payload) = client.receive_message().await;
        assert_eq!(first, 0x42, "{offer}");
        assert!(frames > 50, "{offer}: {frames} frames");
        assert!(payload.len() < message.len() * 2 / 3, "{offer}: {} bytes", payload.len());
        assert!(inflated(&payload) == message, "{offer}: the message differs");
    }
}

async fn only_a_client_that_offers_compression_may_compress(shard: Rc<Shard>) {
    let worker = shard.handler(&serving(ECHO)).start().await.unwrap();
    let declined = ("sec-websocket-extensions", "permessage-deflate; server_max_window_bits=8");
    for offer in [&[][..], &[declined]] {
        let mut client = RawClient::connect(&worker, offer).await;
        assert_eq!(client.extensions, None);
        let long = "a long message ".repeat(100).into_bytes();
        client.send(0x81, &long);
        assert_eq!(client.receive().await, (0x81, long));
        client.send(0xc1, &[0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00]);
        assert_eq!(client.receive_close().await, 1002);
    }
    // Neither a control frame nor a continuation may set the bit of a compressed message, RSV1.
    for frames in [&[(0xc9, &b"hi"[..])][..], &[(0x41, b"\xf2\x48"), (0xc0, b"\xcd")]] {
        let mut client = RawClient::connect(&worker, &[OFFER]).await;
        for (first, payload) in frames {
            client.send(*first, payload);
        }
        assert_eq!(client.receive_close().await, 1002, "{frames:x?}");
    }
    worker.0.idle().await;
}

async fn a_message_that_expands_beyond_the_limit_is_refused(shard: Rc<Shard>) {
    let body = "on('message', () => console.log('received'));";
    let worker = shard
        .handler(&serving(body))
        .limits(|limits| (limits.memory_mib, limits.cpu_ms) = (16, 10_000))
        .start()
        .await
        .unwrap();
    let mut client = RawClient::connect(&worker, &[OFFER]).await;
    // The message is refused before its end.
    let bomb = deflated(&vec![0; 64 << 20]);
    assert!(bomb.len() < 80_000, "{} bytes", bomb.len());
    client.send(0x42, &bomb);
    assert_eq!(client.receive_close().await, 1009);
    worker.0.idle().await;
    assert!(!shard.logged("received"));
    shard.expect_a_neighbor_to_answer().await;
}

async fn a_message_that_is_not_deflate_is_refused(shard: Rc<Shard>) {
    let worker = shard.handler(&serving(ECHO)).start().await.unwrap();
    let mut client = RawClient::connect(&worker, &[OFFER]).await;
    client.send(0xc2, &[0xff; 20]);
    assert_eq!(client.receive_close().await, 1007);
    // The message is inflated before it is checked to be UTF-8.
    let mut client = RawClient::connect(&worker, &[OFFER]).await;
    client.send(0xc1, &deflated(&[0xff; 20]));
    assert_eq!(client.receive_close().await, 1007);
    worker.0.idle().await;
}

/// Starts an origin that agrees to compression, answers each frame with a compressed message, and
/// keeps the frames that it has received.
async fn compressing(answer: &'static str) -> (Origin, Rc<RefCell<Vec<Frame>>>) {
    let log = Rc::<RefCell<Vec<Frame>>>::default();
    let shared = Rc::clone(&log);
    let origin = Origin::serve_connections(move |mut stream| {
        let log = Rc::clone(&shared);
        async move {
            let Some(head) = read_head(&mut stream).await else { return };
            let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
            assert_eq!(field("sec-websocket-extensions: "), Some(AGREED));
            let key = Key::read(field("sec-websocket-key: ").unwrap().as_bytes()).unwrap();
            let agreed = format!("sec-websocket-extensions: {AGREED}\r\n");
            stream.write_all(handshake_response(&key, &agreed).as_bytes()).await.unwrap();
            let mut buffer = Vec::new();
            loop {
                while let Some((frame, len)) = read(&buffer) {
                    buffer.drain(..len);
                    let closes = frame.0 & 0x0f == 8;
                    log.borrow_mut().push(frame);
                    let reply = if closes {
                        written(0x88, &[0x03, 0xe8], None)
                    } else {
                        written(0xc1, &deflated(answer.as_bytes()), None)
                    };
                    stream.write_all(&reply).await.unwrap();
                    if closes {
                        return;
                    }
                }
                if stream.read_buf(&mut buffer).await.unwrap_or(0) == 0 {
                    return;
                }
            }
        }
    })
    .await;
    (origin, log)
}

async fn a_web_socket_to_an_origin_is_compressed(shard: Rc<Shard>) {
    let (origin, log) = compressing("the answer").await;
    let body = format!(
        "const socket = new WebSocket('ws{}');
         const next = (type) => new Promise((resolve) => socket.addEventListener(type, resolve, {{ once: true }}));
         await next('open');
         socket.send('short');
         const first = (await next('message')).data;
         socket.send('long '.repeat(200));
         const second = (await next('message')).data;
         socket.close();
         const {{ code, wasClean }} = await next('close');
         return Response.json([socket.extensions, first, second, code, wasClean])",
        origin.url("/").as_str().trim_start_matches("http")
    );
    let answer = text(shard.handler(&body).get().await.unwrap()).await;
    assert_eq!(answer, format!(r#"["{AGREED}","the answer","the answer",1000,true]"#));
    let frames = log.borrow();
    assert_eq!(frames[0], (0x81, b"short".to_vec()));
    assert_eq!((frames[1].0, inflated(&frames[1].1)), (0xc1, "long ".repeat(200).into_bytes()));
}

async fn a_socket_is_passed_on_compressed_to_a_client_that_offers_it(shard: Rc<Shard>) {
    let (origin, log) = compressing("the answer").await;
    let body = format!("return await fetch('{}', request)", origin.url("/"));
    let worker = shard.handler(&body).start().await.unwrap();
    let mut client = RawClient::connect(&worker, &[OFFER]).await;
    assert_eq!(client.extensions.as_deref(), Some(AGREED));
    client.send(0xc1, &deflated(b"a question"));
    assert_eq!(client.receive().await, (0xc1, deflated(b"the answer")));
    assert_eq!(log.borrow()[0], (0xc1, deflated(b"a question")));
}

async fn a_socket_is_passed_on_inflated_to_any_other_client(shard: Rc<Shard>) {
    let (origin, log) = compressing("the answer").await;
    let body = format!("return await fetch('{}', request)", origin.url("/"));
    let worker = shard.handler(&body).start().await.unwrap();
    let mut client = RawClient::connect(&worker, &[]).await;
    assert_eq!(client.extensions, None);
    client.send(0x81, b"a question");
    let (first, _, message) = client.receive_message().await;
    assert_eq!((first, message), (0x01, b"the answer".to_vec()));
    assert_eq!(log.borrow()[0], (0x81, b"a question".to_vec()));
    client.send(0x88, &[0x03, 0xe8]);
    assert_eq!(client.receive_close().await, 1000);
    worker.0.idle().await;
}
