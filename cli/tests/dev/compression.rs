//! Tests the compression of WebSocket messages with the independent implementation of Node.js.
#![allow(clippy::unwrap_used)] // Clippy recognizes only functions that are marked as tests.

use std::process::Command;

use crate::harness::{Dev, worker};

/// A Worker that answers each text with two messages: the text, repeated a hundred times, and the
/// agreed extensions.
const WORKER: &str = "export default { fetch() { \
    const [client, server] = Object.values(new WebSocketPair()); \
    server.accept(); \
    server.addEventListener('message', ({ data }) => { \
      server.send(data.repeat(100)); \
      server.send(server.extensions); \
    }); \
    return new Response(null, { status: 101, webSocket: client }) } }";

/// A client that prints the agreed extensions, as both sides see them, and whether the repeated
/// texts have arrived unchanged.
const CLIENT: &str = "
    const socket = new WebSocket(`ws://localhost:${process.argv[1]}/`);
    const texts = ['short', 'a text that is repeated in the message ', '𝄞 zwölf '.repeat(2_000)];
    const received = [];
    socket.onopen = () => texts.forEach((text) => socket.send(text));
    socket.onerror = ({ message }) => console.log('error', message);
    socket.onmessage = ({ data }) => {
      received.push(data);
      if (received.length < 2 * texts.length) return;
      const echoes = received.filter((_, n) => n % 2 === 0);
      console.log(socket.extensions);
      console.log(received[1]);
      console.log(echoes.every((echo, n) => echo === texts[n].repeat(100)));
      socket.close();
    };
    socket.onclose = ({ code, wasClean }) => console.log(code, wasClean);";

#[test]
fn nodejs_reads_the_compressed_messages_of_a_worker() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("worker.yaml"), worker("hello", WORKER)).unwrap();
    let dev = Dev::start(directory.path());
    let output = Command::new("node")
        .args(["--experimental-websocket", "--no-warnings", "--eval", CLIENT])
        .arg(dev.port().to_string())
        .output()
        .unwrap();
    let agreed = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";
    let expected = format!("{agreed}\n{agreed}\ntrue\n1005 true\n");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
}
