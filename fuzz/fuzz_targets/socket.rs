//! Fuzzes WebSockets. A WebSocket receives the messages that an independent parser finds in the
//! same bytes, no matter how the bytes are split, and echoes the messages in frames that a client
//! can parse (`workers/socket.js`).
//!
//! The input is a sequence of well-formed frames, which random bytes would hardly ever contain,
//! followed by arbitrary bytes.

#![no_main]

use std::io::{self, Read, Write};

use arbitrary::Arbitrary;
use bytes::Bytes;
use futures::StreamExt as _;
use tenon_engine::{Body, CallContext, FetchRequest};
use tenon_fuzz::pieces;
use tenon_proto::runtime::Header;
use tungstenite::protocol::Role;
use tungstenite::{Message, WebSocket};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    /// The lengths of the pieces in which the bytes arrive.
    cuts: Vec<u8>,
    frames: Vec<Frame<'a>>,
    rest: &'a [u8],
}

#[derive(Arbitrary, Debug)]
struct Frame<'a> {
    /// The FIN bit, the reserved bits and the opcode.
    first: u8,
    mask: [u8; 4],
    payload: &'a [u8],
}

impl Frame<'_> {
    /// Writes the frame as a client does (RFC 6455 §5.2), with at most as much of the payload as a
    /// length of 16 bits allows.
    fn write(&self, out: &mut Vec<u8>) {
        let payload = &self.payload[..self.payload.len().min(u16::MAX.into())];
        let length = payload.len() as u16;
        out.push(self.first);
        match length {
            0..126 => out.push(0x80 | length as u8),
            126.. => out.extend([&[0x80 | 126][..], &length.to_be_bytes()].concat()),
        }
        out.extend(self.mask);
        out.extend(payload.iter().zip(self.mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    }
}

/// A stream that yields the given bytes and discards what is written to it.
struct Tape<'a>(&'a [u8]);

impl Read for Tape<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Tape<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the messages in a stream of bytes, and the error that ends it.
fn messages(stream: &[u8], role: Role) -> (Vec<Message>, tungstenite::Error) {
    let mut socket = WebSocket::from_raw_socket(Tape(stream), role, None);
    let mut messages = Vec::new();
    loop {
        match socket.read() {
            Ok(message @ (Message::Text(_) | Message::Binary(_))) => messages.push(message),
            Ok(_) => {}
            Err(error) => return (messages, error),
        }
    }
}

tenon_fuzz::in_an_isolate!("../workers/socket.js", |host, input: Input<'_>| {
    let mut stream = Vec::new();
    for frame in &input.frames {
        frame.write(&mut stream);
    }
    stream.extend(input.rest);

    let header = |name: &str, value: &'static str| Header {
        name: name.to_owned(),
        value: Bytes::from_static(value.as_bytes()),
    };
    let body = futures::stream::iter(pieces(&stream, &input.cuts)).map(Ok).boxed_local();
    let answer = host.deliver(FetchRequest {
        request_id: "fuzz".to_owned(),
        method: "GET".to_owned(),
        url: "https://worker.test/".to_owned(),
        headers: vec![
            header("upgrade", "websocket"),
            header("sec-websocket-version", "13"),
            header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ],
        body: Body::Stream(body),
        entry: None,
        call_context: CallContext::default(),
    });
    let Some(answer) = answer else { return };
    let (sent, _) = messages(&stream, Role::Server);
    let (answer, end) = messages(&answer, Role::Client);
    assert!(
        !matches!(end, tungstenite::Error::Capacity(_) | tungstenite::Error::Utf8(_)),
        "the echo ends with {end}"
    );
    assert_eq!(answer, sent);
});
