//! A client of WebSockets, in either version of HTTP: the handshake by hand, as it is what is looked at, and the protocol by
//! somebody else's implementation.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use http::{HeaderMap, Method, Request, StatusCode, Version, header};
use http_body_util::Empty;
use hyper::client::conn::{http1, http2};
use hyper::ext::Protocol;
use hyper::upgrade::Upgraded;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};

/// Longer than anything may take in these tests.
const PATIENCE: Duration = Duration::from_secs(30);

/// The standard's own example, and what shows that it was understood (RFC 6455, section 1.3).
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// The largest message taken, in bytes.
const LARGEST: usize = 64 << 20;

/// An open one. Dropped, it is gone without a word.
#[derive(Debug)]
pub struct WebSocket {
    stream: WebSocketStream<TokioIo<Upgraded>>,
    headers: HeaderMap,
}

/// How one ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    pub code: u16,
    pub reason: String,
}

impl WebSocket {
    /// # Arguments
    /// * `version` - HTTP/1.1 or HTTP/2.
    /// * `protocols` - what is offered.
    ///
    /// # Errors
    /// When the Worker does not agree.
    pub async fn open(target: SocketAddr, version: Version, host: &str, protocols: &str) -> anyhow::Result<Self> {
        let opened = timeout(PATIENCE, async {
            match version {
                Version::HTTP_2 => over_http2(target, host, protocols).await,
                _ => over_http1(target, host, protocols).await,
            }
        });
        let (headers, upgraded) = opened.await.context("no answer to the handshake")??;
        let config = WebSocketConfig::default().max_message_size(Some(LARGEST)).max_frame_size(Some(LARGEST));
        let stream = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Client, Some(config)).await;
        Ok(Self { stream, headers })
    }

    /// What was agreed on.
    pub fn protocol(&self) -> Option<&str> {
        self.headers.get(header::SEC_WEBSOCKET_PROTOCOL)?.to_str().ok()
    }

    pub async fn send(&mut self, message: impl Into<Message>) -> anyhow::Result<()> {
        Ok(timeout(PATIENCE, self.stream.send(message.into())).await??)
    }

    /// The next message.
    ///
    /// # Errors
    /// When there will be none, or none in time.
    pub async fn receive(&mut self) -> anyhow::Result<Message> {
        let message = timeout(PATIENCE, self.stream.next()).await.context("no message in time")?;
        message.context("the connection has ended").and_then(|message| Ok(message?))
    }

    /// Sends a text and receives the next, which is the answer to it.
    pub async fn ask(&mut self, text: &str) -> anyhow::Result<String> {
        self.send(text).await?;
        match self.receive().await? {
            Message::Text(answer) => Ok(answer.as_str().to_owned()),
            other => bail!("{other:?} came"),
        }
    }

    /// Waits for the other side to close it, and for the connection's end.
    ///
    /// # Errors
    /// When it ends otherwise.
    pub async fn closed(mut self) -> anyhow::Result<Closed> {
        let closed = loop {
            match self.receive().await? {
                Message::Close(frame) => break frame,
                Message::Text(_) | Message::Binary(_) => {}
                other => bail!("{other:?} came"),
            }
        };
        let end = timeout(PATIENCE, self.stream.next()).await.context("the connection does not end")?;
        ensure!(end.is_none(), "{end:?} came after the end");
        let CloseFrame { code, reason } = closed.context("it says neither code nor reason")?;
        Ok(Closed { code: code.into(), reason: reason.as_str().to_owned() })
    }
}

async fn over_http1(target: SocketAddr, host: &str, protocols: &str) -> anyhow::Result<(HeaderMap, Upgraded)> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(connect(target).await?)).await?;
    tokio::spawn(connection.with_upgrades());
    let request = Request::get("/")
        .header(header::HOST, host)
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "websocket")
        .header(header::SEC_WEBSOCKET_VERSION, "13")
        .header(header::SEC_WEBSOCKET_KEY, KEY)
        .header(header::SEC_WEBSOCKET_PROTOCOL, protocols)
        .body(Empty::<Bytes>::new())?;
    let response = sender.send_request(request).await?;
    ensure!(response.status() == StatusCode::SWITCHING_PROTOCOLS, "{response:?}");
    let accept = response.headers().get(header::SEC_WEBSOCKET_ACCEPT);
    ensure!(accept.is_some_and(|accept| accept == ACCEPT), "{response:?}");
    Ok((response.headers().clone(), hyper::upgrade::on(response).await?))
}

async fn over_http2(target: SocketAddr, host: &str, protocols: &str) -> anyhow::Result<(HeaderMap, Upgraded)> {
    let stream = TokioIo::new(connect(target).await?);
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
    tokio::spawn(connection);
    // An extended CONNECT may be sent to a server that has said that it knows of them, which comes before any answer.
    let first = Request::get(format!("http://{host}/")).body(Empty::<Bytes>::new())?;
    sender.send_request(first).await?;
    let request = Request::builder()
        .method(Method::CONNECT)
        .version(Version::HTTP_2)
        .uri(format!("http://{host}/"))
        .extension(Protocol::from_static("websocket"))
        .header(header::SEC_WEBSOCKET_VERSION, "13")
        .header(header::SEC_WEBSOCKET_PROTOCOL, protocols)
        .body(Empty::<Bytes>::new())?;
    let response = sender.send_request(request).await?;
    ensure!(response.status() == StatusCode::OK, "{response:?}");
    Ok((response.headers().clone(), hyper::upgrade::on(response).await?))
}

async fn connect(target: SocketAddr) -> anyhow::Result<TcpStream> {
    let stream = TcpStream::connect(target).await.with_context(|| format!("to {target}"))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
