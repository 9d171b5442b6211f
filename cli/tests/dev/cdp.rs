//! A client of the inspector protocol over a WebSocket. The handshake is written by hand, because
//! it is tested here. The crate tungstenite reads and writes the frames.
#![allow(clippy::unwrap_used)] // A test harness has no caller to return an error to.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::{Message, WebSocket};

use crate::harness::DEADLINE;

/// The key in the example of RFC 6455, section 1.3.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
/// The accept value that the server must compute from [`KEY`], in the same example.
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// A debugger that is attached to a Worker.
pub struct Debugger {
    socket: WebSocket<TcpStream>,
    /// Events that have arrived and have not been returned yet.
    events: VecDeque<Value>,
    /// Number of calls that have been sent, which is also the id of the last call.
    sent: u64,
}

impl Debugger {
    /// Attaches to the target at a URL that `/json/list` has returned.
    pub fn attach(url: &str) -> Self {
        let (host, path) = url.strip_prefix("ws://").unwrap().split_once('/').unwrap();
        let handshake = format!(
            "GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: {KEY}\r\n\r\n"
        );
        let (head, stream) = exchange(host.parse().unwrap(), &handshake);
        assert!(head.starts_with("HTTP/1.1 101") && head.contains(ACCEPT), "{head}");
        let socket = WebSocket::from_raw_socket(stream, Role::Client, None);
        Self { socket, events: VecDeque::new(), sent: 0 }
    }

    /// Calls a method and returns its result.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.send(method, params);
        loop {
            let message = self.receive().expect("the connection ended before the answer");
            if message["id"] == self.sent {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
            self.events.push_back(message);
        }
    }

    /// Calls a method without waiting for its result.
    pub fn send(&mut self, method: &str, params: Value) {
        self.sent += 1;
        let call = json!({ "id": self.sent, "method": method, "params": params });
        self.socket.send(Message::text(call.to_string())).unwrap();
    }

    /// Waits for an event that satisfies a condition and returns its parameters. Earlier events are
    /// discarded.
    pub fn event(&mut self, method: &str, matches: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.events.pop_front().or_else(|| self.receive());
            let message = message.unwrap_or_else(|| panic!("the connection ended before {method}"));
            if message["method"] == method && matches(&message["params"]) {
                return message["params"].clone();
            }
        }
    }

    /// Returns the parameters of all events of a method that have arrived so far.
    pub fn received(&self, method: &str) -> Vec<&Value> {
        let events = self.events.iter().filter(|event| event["method"] == method);
        events.map(|event| &event["params"]).collect()
    }

    /// Waits until the peer closes the WebSocket, and returns the last event, or `None` if every
    /// event has been returned before.
    pub fn await_close(mut self) -> Option<Value> {
        while let Some(message) = self.receive() {
            self.events.push_back(message);
        }
        self.events.pop_back()
    }

    /// Returns the next message, or `None` if the peer closes the WebSocket.
    fn receive(&mut self) -> Option<Value> {
        loop {
            match self.socket.read().unwrap() {
                Message::Text(text) => return serde_json::from_str(&text).unwrap(),
                Message::Close(_) => return None,
                _ => {}
            }
        }
    }
}

/// Requests a path from the inspector, and returns the JSON in the body of the response.
pub fn get(addr: SocketAddr, path: &str) -> Value {
    let request = format!("GET {path} HTTP/1.1\r\nhost: {addr}\r\nconnection: close\r\n\r\n");
    let (head, mut stream) = exchange(addr, &request);
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let mut body = String::new();
    stream.read_to_string(&mut body).unwrap();
    serde_json::from_str(&body).unwrap()
}

/// Sends a request, and returns the head of the response and the stream with the remaining bytes.
pub fn exchange(addr: SocketAddr, request: &str) -> (String, TcpStream) {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    // The head is read byte by byte, so the bytes after the head stay in the stream.
    let (mut head, mut byte) = (String::new(), [0]);
    while !head.ends_with("\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0].into());
    }
    (head, stream)
}
