//! The client's side of a WebSocket, over HTTP/1.1 and HTTP/2.

use std::net::SocketAddr;

use http::{HeaderMap, Method, Request, Version};
use hyper::ext::Protocol;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use super::DEADLINE;
use super::client::{Client, full};

pub(crate) const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

/// The client's side of a tunnel.
pub(crate) trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Socket for T {}

pub(crate) fn handshake(extra: &str) -> String {
    format!(
        "GET /chat?x=1 HTTP/1.1\r\nhost: shop\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: \
         13\r\nsec-websocket-key: {KEY}\r\nsec-websocket-protocol: chat, talk\r\n{extra}\r\n"
    )
}

/// Reads a response's head, and none of the bytes after it.
pub(crate) async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let byte = tokio::time::timeout(DEADLINE, stream.read_u8())
            .await
            .expect("no head before the deadline");
        head.push(byte.unwrap());
    }
    String::from_utf8(head).unwrap()
}

pub(crate) async fn open_http1(addr: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(handshake("").as_bytes()).await.unwrap();
    let head = read_head(&mut stream).await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    stream
}

pub(crate) fn connect(protocol: &'static str) -> http::request::Builder {
    Request::builder()
        .method(Method::CONNECT)
        .version(Version::HTTP_2)
        .uri("http://shop/chat?x=1")
        .extension(Protocol::from_static(protocol))
        .header("sec-websocket-version", "13")
        .header("sec-websocket-protocol", "chat, talk")
}

/// Connects a client, and waits for the router's settings, without which the client may not use
/// extended CONNECT.
pub(crate) async fn http2(addr: SocketAddr) -> Client {
    let mut client = Client::http2(addr).await;
    let request = Request::get("http://nobody/").body(full("")).unwrap();
    assert_eq!(client.send(request).await.unwrap().status, 404);
    client
}

pub(crate) async fn open_http2(client: &mut Client) -> (HeaderMap, TokioIo<Upgraded>) {
    let response = client.open(connect("websocket").body(full("")).unwrap()).await.unwrap();
    assert_eq!(response.status(), 200);
    let headers = response.headers().clone();
    (headers, TokioIo::new(hyper::upgrade::on(response).await.unwrap()))
}

/// Opens a tunnel of each HTTP version to the same router.
pub(crate) async fn open_both(addr: SocketAddr) -> [(Box<dyn Socket>, Option<Client>); 2] {
    let mut client = http2(addr).await;
    let (_, over_http2) = open_http2(&mut client).await;
    [(Box::new(open_http1(addr).await), None), (Box::new(over_http2), Some(client))]
}

pub(crate) async fn read(socket: &mut (impl Socket + ?Sized), len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    tokio::time::timeout(DEADLINE, socket.read_exact(&mut bytes))
        .await
        .expect("too few bytes before the deadline")
        .unwrap();
    bytes
}

pub(crate) async fn read_to_end(socket: &mut (impl Socket + ?Sized)) -> Vec<u8> {
    let mut bytes = Vec::new();
    tokio::time::timeout(DEADLINE, socket.read_to_end(&mut bytes))
        .await
        .expect("the connection did not close before the deadline")
        .unwrap();
    bytes
}
