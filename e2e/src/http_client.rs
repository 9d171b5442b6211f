//! A minimal HTTP/1.1 client. It never retries and reports every error, because the tests look for
//! failures.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Time limit of a response: a request that takes longer has failed.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(20);

/// A connection that is opened on first use, and reopened after an error.
#[derive(Debug)]
pub struct Connection {
    target: SocketAddr,
    open: Option<SendRequest<Full<Bytes>>>,
}

/// A complete response.
#[derive(Clone, Debug)]
pub struct HttpResponse {
    pub status: u16,
    pub body: String,
    /// Name of the node that served the request, if any.
    pub node: Option<String>,
    /// Name of the shard or lane of that node.
    pub shard: Option<String>,
}

impl Connection {
    pub fn to(target: impl Into<SocketAddr>) -> Self {
        Self { target: target.into(), open: None }
    }

    /// Sends a request and returns the whole response.
    ///
    /// # Errors
    /// Fails if there is no complete response.
    pub async fn get(&mut self, host: &str, path: &str) -> anyhow::Result<HttpResponse> {
        self.send(Method::GET, host, path, Bytes::new()).await
    }

    /// Sends a request and returns the whole response.
    ///
    /// # Errors
    /// Fails if there is no complete response.
    pub async fn send(
        &mut self,
        method: Method,
        host: &str,
        path: &str,
        body: Bytes,
    ) -> anyhow::Result<HttpResponse> {
        let answer = timeout(RESPONSE_TIMEOUT, self.exchange(method, host, path, body)).await;
        let answer = answer
            .unwrap_or_else(|_| Err(anyhow::anyhow!("no response within {RESPONSE_TIMEOUT:?}")));
        if answer.is_err() {
            self.open = None;
        }
        answer
    }

    async fn exchange(
        &mut self,
        method: Method,
        host: &str,
        path: &str,
        body: Bytes,
    ) -> anyhow::Result<HttpResponse> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, host)
            .header(header::ACCEPT, "application/json")
            .header("tenon-debug", "1")
            .body(Full::new(body))?;
        let response = self.sender().await?.send_request(request).await?;
        let status = response.status().as_u16();
        let text = |name| {
            response.headers().get(name).map(|value| value.to_str().map(str::to_owned)).transpose()
        };
        let (node, shard) = (text("tenon-node")?, text("tenon-shard")?);
        let body =
            response.into_body().collect().await.context("the response is incomplete")?.to_bytes();
        Ok(HttpResponse { status, body: String::from_utf8_lossy(&body).into_owned(), node, shard })
    }

    /// Returns an open connection. A connection that the server closed while idle is replaced.
    async fn sender(&mut self) -> anyhow::Result<&mut SendRequest<Full<Bytes>>> {
        let usable = match &mut self.open {
            Some(sender) => sender.ready().await.is_ok(),
            None => false,
        };
        if !usable {
            let stream = TcpStream::connect(self.target)
                .await
                .with_context(|| format!("cannot connect to {}", self.target))?;
            stream.set_nodelay(true)?;
            let (sender, connection) = handshake(TokioIo::new(stream)).await?;
            // The sender reports the end of the connection.
            tokio::spawn(connection);
            self.open = Some(sender);
        }
        self.open.as_mut().context("no connection is open")
    }
}
