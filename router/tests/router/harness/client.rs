//! HTTP clients with one connection each.

use std::net::SocketAddr;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use super::DEADLINE;

pub(crate) type Body = BoxBody<Bytes, std::convert::Infallible>;

pub(crate) enum Client {
    Http1(http1::SendRequest<Body>),
    Http2(http2::SendRequest<Body>),
}

/// A complete response.
#[derive(Debug)]
pub(crate) struct FullResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl FullResponse {
    /// Returns the value of a header that must be present.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap_or_else(|| panic!("no {name} in {self:?}")).to_str().unwrap()
    }

    /// Returns the code of a failure in JSON.
    pub(crate) fn code(&self) -> String {
        let body: serde_json::Value =
            serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON in {self:?}"));
        body["error"]["code"].as_str().unwrap().to_owned()
    }
}

impl Client {
    pub(crate) async fn http1(addr: SocketAddr) -> Self {
        Self::http1_on(TcpStream::connect(addr).await.unwrap()).await
    }

    pub(crate) async fn http2(addr: SocketAddr) -> Self {
        Self::http2_on(TcpStream::connect(addr).await.unwrap()).await
    }

    pub(crate) async fn http1_on<S>(stream: S) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Self::Http1(sender)
    }

    pub(crate) async fn http2_on<S>(stream: S) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (sender, connection) =
            http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Self::Http2(sender)
    }

    /// Sends a request and reads the head of its response.
    pub(crate) async fn open(
        &mut self,
        request: Request<Body>,
    ) -> hyper::Result<http::Response<Incoming>> {
        let response = async {
            match self {
                Self::Http1(sender) => {
                    sender.ready().await?;
                    sender.send_request(request).await
                }
                Self::Http2(sender) => {
                    sender.ready().await?;
                    sender.send_request(request).await
                }
            }
        };
        tokio::time::timeout(DEADLINE, response).await.expect("no response before the deadline")
    }

    pub(crate) async fn send(&mut self, request: Request<Body>) -> hyper::Result<FullResponse> {
        let (parts, body) = self.open(request).await?.into_parts();
        let body = tokio::time::timeout(DEADLINE, body.collect())
            .await
            .expect("the body did not end before the deadline")?
            .to_bytes();
        Ok(FullResponse { status: parts.status, headers: parts.headers, body })
    }

    /// Sends a `GET` for a path of the host `shop`.
    pub(crate) async fn get(&mut self, path: &str) -> FullResponse {
        let request = self.request(Method::GET, path).body(full("")).unwrap();
        self.send(request).await.unwrap()
    }

    /// Sends a `POST` to a path of the host `shop`.
    pub(crate) async fn post(&mut self, path: &str, body: impl Into<Bytes>) -> FullResponse {
        let request = self.request(Method::POST, path).body(full(body)).unwrap();
        self.send(request).await.unwrap()
    }

    /// Builds a request for the host `shop`, in the form of the client's HTTP version.
    pub(crate) fn request(&self, method: Method, path: &str) -> http::request::Builder {
        match self {
            Self::Http1(_) => Request::builder().method(method).uri(path).header("host", "shop"),
            Self::Http2(_) => Request::builder().method(method).uri(format!("http://shop{path}")),
        }
    }
}

pub(crate) fn full(body: impl Into<Bytes>) -> Body {
    BodyExt::boxed(Full::new(body.into()))
}

/// Returns a body whose length is unknown until its end.
pub(crate) fn streamed(pieces: impl Stream<Item = Bytes> + Send + Sync + 'static) -> Body {
    BodyExt::boxed(StreamBody::new(pieces.map(|piece| Ok(Frame::data(piece)))))
}

/// Sends bytes unchanged, and reads until the router closes the connection.
pub(crate) async fn raw(addr: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    // The connection may also end with a reset after the response.
    let _ = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut answer))
        .await
        .expect("the connection did not close before the deadline");
    String::from_utf8_lossy(&answer).into_owned()
}
