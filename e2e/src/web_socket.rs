//! A WebSocket client over HTTP/1.1 and HTTP/2. The handshake is written by hand, because the
//! handshake is under test. The crate tungstenite implements the rest of the protocol.

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

/// Time limit of each operation. No operation of these tests takes this long unless it fails.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The key of the standard's own example, and the accept value that must follow from it (RFC 6455,
/// section 1.3).
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// Maximum size of an accepted message, in bytes.
const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// An open WebSocket. On drop, the connection is closed without a Close frame.
#[derive(Debug)]
pub struct WebSocket {
    stream: WebSocketStream<TokioIo<Upgraded>>,
    headers: HeaderMap,
}

/// The code and reason with which a WebSocket was closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    pub code: u16,
    pub reason: String,
}

impl WebSocket {
    /// Opens a WebSocket.
    ///
    /// # Arguments
    /// * `version` - HTTP/1.1 or HTTP/2.
    /// * `protocols` - the offered subprotocols.
    ///
    /// # Errors
    /// Fails if the Worker does not accept the WebSocket before the timeout.
    pub async fn open(
        target: SocketAddr,
        version: Version,
        host: &str,
        protocols: &str,
    ) -> anyhow::Result<Self> {
        let opened = timeout(TIMEOUT, async {
            match version {
                Version::HTTP_2 => over_http2(target, host, protocols).await,
                _ => over_http1(target, host, protocols).await,
            }
        });
        let (headers, upgraded) =
            opened.await.context("no response to the handshake before the timeout")??;
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_MESSAGE_BYTES))
            .max_frame_size(Some(MAX_MESSAGE_BYTES));
        let stream =
            WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Client, Some(config))
                .await;
        Ok(Self { stream, headers })
    }

    /// Returns the negotiated subprotocol, or `None` if there is none.
    pub fn protocol(&self) -> Option<&str> {
        self.headers.get(header::SEC_WEBSOCKET_PROTOCOL)?.to_str().ok()
    }

    pub async fn send(&mut self, message: impl Into<Message>) -> anyhow::Result<()> {
        Ok(timeout(TIMEOUT, self.stream.send(message.into())).await??)
    }

    /// Returns the next message.
    ///
    /// # Errors
    /// Fails if the connection has ended, or no message arrives before the timeout.
    pub async fn receive(&mut self) -> anyhow::Result<Message> {
        let message =
            timeout(TIMEOUT, self.stream.next()).await.context("no message before the timeout")?;
        message.context("the connection has ended").and_then(|message| Ok(message?))
    }

    /// Sends a text message, and returns the text that is received next.
    ///
    /// # Errors
    /// Fails if the message cannot be sent, or the next received message is not a text.
    pub async fn send_and_receive(&mut self, text: &str) -> anyhow::Result<String> {
        self.send(text).await?;
        match self.receive().await? {
            Message::Text(answer) => Ok(answer.as_str().to_owned()),
            other => bail!("unexpected message: {other:?}"),
        }
    }

    /// Waits until the peer closes the WebSocket, and returns the code and the reason. Messages
    /// that arrive before that are discarded.
    ///
    /// # Errors
    /// Fails if the connection ends without a Close frame, nothing arrives before the timeout, the
    /// frame has no code, or the connection does not end after the frame.
    pub async fn closed(mut self) -> anyhow::Result<Closed> {
        let closed = loop {
            match self.receive().await? {
                Message::Close(frame) => break frame,
                Message::Text(_) | Message::Binary(_) => {}
                other => bail!("unexpected message: {other:?}"),
            }
        };
        let end = timeout(TIMEOUT, self.stream.next())
            .await
            .context("the connection has not ended before the timeout")?;
        ensure!(end.is_none(), "received {end:?} after the Close frame");
        let CloseFrame { code, reason } =
            closed.context("the Close frame has no code and no reason")?;
        Ok(Closed { code: code.into(), reason: reason.as_str().to_owned() })
    }
}

async fn over_http1(
    target: SocketAddr,
    host: &str,
    protocols: &str,
) -> anyhow::Result<(HeaderMap, Upgraded)> {
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
    ensure!(
        response.status() == StatusCode::SWITCHING_PROTOCOLS,
        "the handshake failed: {response:?}"
    );
    let accept = response.headers().get(header::SEC_WEBSOCKET_ACCEPT);
    ensure!(
        accept.is_some_and(|accept| accept == ACCEPT),
        "Sec-WebSocket-Accept is {accept:?}, not {ACCEPT}"
    );
    Ok((response.headers().clone(), hyper::upgrade::on(response).await?))
}

async fn over_http2(
    target: SocketAddr,
    host: &str,
    protocols: &str,
) -> anyhow::Result<(HeaderMap, Upgraded)> {
    let stream = TokioIo::new(connect(target).await?);
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
    tokio::spawn(connection);
    // An extended CONNECT requires the server's SETTINGS to allow it, and the SETTINGS arrive
    // before any response.
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
    ensure!(response.status() == StatusCode::OK, "the handshake failed: {response:?}");
    Ok((response.headers().clone(), hyper::upgrade::on(response).await?))
}

async fn connect(target: SocketAddr) -> anyhow::Result<TcpStream> {
    let stream =
        TcpStream::connect(target).await.with_context(|| format!("cannot connect to {target}"))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
