//! Tests of WebSockets: of Workers that answer with a WebSocket, that open a WebSocket, or that
//! connect a client with an origin. This file contains a client, which opens WebSockets to Workers.

mod answered;
mod compressed;
mod limited;
mod opened;

use bytes::Bytes;
use futures::channel::mpsc;
use futures::{SinkExt as _, StreamExt as _};
use libtest_mimic::Trial;
use tenon_engine::{Body, FetchRequest, FetchResponse, ResponseBody, StreamError};
use tenon_proto::runtime::Header;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::task::spawn_local;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::harness::{Loaded, request};

pub(crate) use opened::accept_handshake;

pub(crate) fn trials() -> Vec<Trial> {
    [answered::trials(), compressed::trials(), limited::trials(), opened::trials()]
        .into_iter()
        .flatten()
        .collect()
}

/// One end of a connection whose other end belongs to a Worker.
pub(crate) type Client = WebSocketStream<DuplexStream>;

/// Returns an opening handshake, and the channel for the client's bytes.
pub(crate) fn opening(
    headers: &[(&str, &str)],
) -> (FetchRequest, mpsc::UnboundedSender<Result<Bytes, StreamError>>) {
    let (sent, body) = mpsc::unbounded();
    let header = |(name, value): &(&str, &str)| Header {
        name: (*name).to_owned(),
        value: (*value).to_owned().into(),
    };
    let headers = [("upgrade", "websocket"), ("connection", "upgrade")]
        .iter()
        .chain(headers)
        .map(header)
        .collect();
    (FetchRequest { headers, body: Body::Stream(Box::pin(body)), ..request("/chat") }, sent)
}

pub(crate) const KEY: (&str, &str) = ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
pub(crate) const VERSION: (&str, &str) = ("sec-websocket-version", "13");

/// Opens a WebSocket to a Worker.
pub(crate) async fn connect(worker: &Loaded) -> Client {
    let (request, sent) = opening(&[KEY, VERSION]);
    join(worker.0.fetch(request).await.unwrap(), sent)
}

/// Joins both directions of a tunnel into one client.
fn join(
    response: FetchResponse,
    sent: mpsc::UnboundedSender<Result<Bytes, StreamError>>,
) -> Client {
    assert_eq!(response.status, 101);
    let ResponseBody::Stream(mut received) = response.body else {
        panic!("the body of a tunnel is not a stream")
    };
    let (mine, theirs) = tokio::io::duplex(16 * 1024);
    let (mut reader, mut writer) = tokio::io::split(theirs);
    spawn_local(async move {
        while let Some(Ok(piece)) = received.next().await {
            if writer.write_all(&piece).await.is_err() {
                return;
            }
        }
        let _ = writer.shutdown().await;
    });
    spawn_local(async move {
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(read @ 1..) = reader.read(&mut buffer).await {
            if sent.unbounded_send(Ok(Bytes::copy_from_slice(&buffer[..read]))).is_err() {
                return;
            }
        }
    });
    client_of(mine)
}

fn client_of(stream: DuplexStream) -> Client {
    futures::executor::block_on(WebSocketStream::from_raw_socket(stream, Role::Client, None))
}

pub(crate) async fn send(client: &mut Client, text: &str) {
    client.send(Message::text(text)).await.unwrap();
}

pub(crate) async fn receive(client: &mut Client) -> String {
    match client.next().await {
        Some(Ok(Message::Text(text))) => text.as_str().to_owned(),
        other => panic!("expected a text, received {other:?}"),
    }
}

/// Returns the code and reason of the next Close frame.
async fn receive_close(client: &mut Client) -> Option<(u16, String)> {
    loop {
        match client.next().await {
            Some(Ok(Message::Close(frame))) => {
                return frame.map(|frame| (frame.code.into(), frame.reason.as_str().to_owned()));
            }
            Some(Ok(Message::Text(_) | Message::Binary(_))) => {}
            other => panic!("expected a Close, received {other:?}"),
        }
    }
}

/// Returns a frame as a client sends it, with a mask of zeros.
///
/// # Arguments
/// * `first` - the first byte: flags and the opcode.
/// * `payload` - at most 125 bytes.
pub(crate) fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    [&[first, 0x80 | payload.len() as u8, 0, 0, 0, 0], payload].concat()
}

/// Returns a handler body that accepts one end of a pair, runs `body` with it as `server`, and
/// answers with the other end.
pub(crate) fn serving(body: &str) -> String {
    format!(
        "const [client, server] = Object.values(new WebSocketPair());
         const on = (type, listener) => server.addEventListener(type, listener);
         server.accept();
         {body}
         return new Response(null, {{ status: 101, webSocket: client }});"
    )
}

pub(crate) const ECHO: &str = "on('message', ({ data }) => server.send(data));
    on('error', (e) => console.log('error', e.message));
    on('close', (e) => console.log('closed', e.code, e.reason, e.wasClean));";
