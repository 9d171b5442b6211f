//! A client of HTTP/3 with one connection.

use std::future::poll_fn;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use bytes::{Buf as _, Bytes, BytesMut};
use h3::client::{RequestStream, SendRequest};
use h3::error::StreamError;
use h3_quinn::{BidiStream, OpenStreams};
use http::{HeaderMap, Method, Request, Response};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Connection, Endpoint};
use rcgen::{CertifiedKey, KeyPair};
use rustls::RootCertStore;

use super::client::FullResponse;
use super::{DEADLINE, Secured};

pub(crate) type Stream = RequestStream<BidiStream<Bytes>, Bytes>;

pub(crate) struct Http3Client {
    pub(crate) endpoint: Endpoint,
    pub(crate) connection: Connection,
    requests: SendRequest<OpenStreams, Bytes>,
}

impl Http3Client {
    /// Connects to the host `shop` of a router, whose certificate the client trusts.
    pub(crate) async fn connect(secured: &Secured, issued: &CertifiedKey<KeyPair>) -> Self {
        Self::connect_from(Ipv4Addr::LOCALHOST, secured.addr(), issued).await.unwrap()
    }

    /// Connects from an address.
    pub(crate) async fn connect_from(
        from: impl Into<IpAddr>,
        to: SocketAddr,
        issued: &CertifiedKey<KeyPair>,
    ) -> Result<Self, quinn::ConnectionError> {
        let endpoint = Endpoint::client((from.into(), 0).into()).unwrap();
        let connecting = endpoint.connect_with(config(issued), to, "shop").unwrap();
        let connection = tokio::time::timeout(DEADLINE, connecting).await.unwrap()?;
        let transport = h3_quinn::Connection::new(connection.clone());
        // The router may close the connection immediately.
        let Ok((mut driver, requests)) = h3::client::new(transport).await else {
            return Err(connection.closed().await);
        };
        tokio::spawn(async move {
            poll_fn(|cx| driver.poll_close(cx)).await;
        });
        Ok(Self { endpoint, connection, requests })
    }

    /// Builds a request for a path of the host `shop`.
    pub(crate) fn request(method: Method, path: &str) -> http::request::Builder {
        Request::builder().method(method).uri(format!("https://shop{path}"))
    }

    /// Sends the head of a request.
    pub(crate) async fn start(&self, request: Request<()>) -> Result<Stream, StreamError> {
        let mut requests = self.requests.clone();
        let sent = requests.send_request(request);
        tokio::time::timeout(DEADLINE, sent).await.expect("the head was not sent in time")
    }

    /// Sends a request with this body.
    pub(crate) async fn send(
        &self,
        request: Request<()>,
        body: impl Into<Bytes>,
    ) -> Result<FullResponse, StreamError> {
        let mut stream = self.start(request).await?;
        let body = body.into();
        if !body.is_empty() {
            stream.send_data(body).await?;
        }
        stream.finish().await?;
        answer(&mut stream).await
    }

    pub(crate) async fn get(&self, path: &str) -> FullResponse {
        let request = Self::request(Method::GET, path).body(()).unwrap();
        self.send(request, "").await.unwrap()
    }

    pub(crate) async fn post(&self, path: &str, body: impl Into<Bytes>) -> FullResponse {
        let request = Self::request(Method::POST, path).body(()).unwrap();
        self.send(request, body).await.unwrap()
    }

    /// Continues from another address, as a client that changes its network does.
    pub(crate) fn move_to(&self, address: Ipv4Addr) {
        self.endpoint.rebind(UdpSocket::bind((address, 0)).unwrap()).unwrap();
    }

    /// Waits until the router has closed the connection.
    pub(crate) async fn closed(&self) -> quinn::ConnectionError {
        let closed = tokio::time::timeout(DEADLINE, self.connection.closed()).await;
        closed.expect("the connection did not close before the deadline")
    }
}

/// Returns a configuration that trusts one certificate.
pub(crate) fn config(issued: &CertifiedKey<KeyPair>) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(issued.cert.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()))
}

/// Reads the head of a response.
pub(crate) async fn head(stream: &mut Stream) -> Result<Response<()>, StreamError> {
    tokio::time::timeout(DEADLINE, stream.recv_response())
        .await
        .expect("no response before the deadline")
}

/// Reads a whole response.
pub(crate) async fn answer(stream: &mut Stream) -> Result<FullResponse, StreamError> {
    let (parts, ()) = head(stream).await?.into_parts();
    let body = body(stream).await?;
    Ok(FullResponse { status: parts.status, headers: parts.headers, body })
}

/// Reads the rest of a body.
pub(crate) async fn body(stream: &mut Stream) -> Result<Bytes, StreamError> {
    let mut body = BytesMut::new();
    let read = async {
        while let Some(mut piece) = stream.recv_data().await? {
            body.extend_from_slice(&piece.copy_to_bytes(piece.remaining()));
        }
        Ok(())
    };
    tokio::time::timeout(DEADLINE, read)
        .await
        .expect("the body did not end before the deadline")?;
    Ok(body.freeze())
}

/// Reads the trailers after a body.
pub(crate) async fn trailers(stream: &mut Stream) -> Option<HeaderMap> {
    tokio::time::timeout(DEADLINE, stream.recv_trailers()).await.unwrap().unwrap()
}
