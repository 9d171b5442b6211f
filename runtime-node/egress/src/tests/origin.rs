//! Provides origins to the tests: HTTP servers in this process, on ports that the system chooses.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::LocalBoxFuture;
use futures::{FutureExt as _, Stream, StreamExt as _, stream};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;
use tokio_rustls::TlsAcceptor;

pub(super) type Pieces = Pin<Box<dyn Stream<Item = Result<Frame<Bytes>, std::io::Error>>>>;
pub(super) type OriginResponse = http::Response<StreamBody<Pieces>>;

/// A request with its body.
pub(super) type ReceivedRequest = http::Request<Bytes>;

/// An origin that answers requests with a function.
pub(super) struct Origin {
    pub(super) port: u16,
    /// Number of connections so far.
    pub(super) connections: Rc<Cell<usize>>,
    /// Number of open connections.
    pub(super) open: Rc<Cell<usize>>,
    pub(super) requests: Rc<RefCell<Vec<ReceivedRequest>>>,
}

impl Origin {
    pub(super) fn url(&self, path: &str) -> url::Url {
        url::Url::parse(&format!("http://127.0.0.1:{}{path}", self.port)).unwrap()
    }

    pub(super) async fn plain(
        answer: impl Fn(&ReceivedRequest) -> OriginResponse + 'static,
    ) -> Self {
        Self::serve(None, move |request| futures::future::ready(answer(&request)).boxed_local())
            .await
    }

    /// Starts an origin that answers each request with a function.
    ///
    /// # Arguments
    /// * `tls` - the server's TLS configuration. Without it, the server speaks plain HTTP.
    pub(super) async fn serve(
        tls: Option<Arc<ServerConfig>>,
        answer: impl Fn(ReceivedRequest) -> LocalBoxFuture<'static, OriginResponse> + 'static,
    ) -> Self {
        let answer = Rc::new(answer);
        let requests = Rc::<RefCell<Vec<ReceivedRequest>>>::default();
        let log = Rc::clone(&requests);
        let handle = move |stream: TcpStream| {
            let (answer, tls, log) = (Rc::clone(&answer), tls.clone(), Rc::clone(&log));
            async move {
                match tls {
                    None => serve_http(stream, answer, log).await,
                    Some(tls) => {
                        if let Ok(stream) = TlsAcceptor::from(tls).accept(stream).await {
                            serve_http(stream, answer, log).await;
                        }
                    }
                }
            }
        };
        Self { requests, ..listen(handle).await }
    }

    /// Starts an origin that, on each connection, reads the head of a request, writes the bytes and
    /// closes the connection.
    pub(super) async fn raw(bytes: &'static [u8]) -> Self {
        Self::serve_connections(move |mut stream| async move {
            if read_head(&mut stream).await {
                let _ = stream.write_all(bytes).await;
            }
        })
        .await
    }

    /// Starts an origin that hands each connection to a function.
    pub(super) async fn serve_connections<F: Future<Output = ()> + 'static>(
        handle: impl Fn(TcpStream) -> F + 'static,
    ) -> Self {
        listen(handle).await
    }
}

/// Reads the head of a message, up to its empty line. Returns false if the stream ends first.
pub(super) async fn read_head(stream: &mut TcpStream) -> bool {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return false,
        }
    }
    true
}

async fn listen<F: Future<Output = ()> + 'static>(
    handle: impl Fn(TcpStream) -> F + 'static,
) -> Origin {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = Origin {
        port: listener.local_addr().unwrap().port(),
        connections: Rc::default(),
        open: Rc::default(),
        requests: Rc::default(),
    };
    let (connections, open) = (Rc::clone(&origin.connections), Rc::clone(&origin.open));
    spawn_local(async move {
        while let Ok((stream, _)) = listener.accept().await {
            connections.set(connections.get() + 1);
            open.set(open.get() + 1);
            let (open, handled) = (Rc::clone(&open), handle(stream));
            spawn_local(async move {
                handled.await;
                open.set(open.get() - 1);
            });
        }
    });
    origin
}

#[derive(Clone, Copy)]
pub(super) struct LocalExecutor;

impl<F: Future + 'static> hyper::rt::Executor<F> for LocalExecutor {
    fn execute(&self, work: F) {
        spawn_local(work.map(drop));
    }
}

async fn serve_http<F: Fn(ReceivedRequest) -> LocalBoxFuture<'static, OriginResponse> + 'static>(
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    answer: Rc<F>,
    log: Rc<RefCell<Vec<ReceivedRequest>>>,
) {
    let service = service_fn(move |request: http::Request<Incoming>| {
        let (answer, log) = (Rc::clone(&answer), Rc::clone(&log));
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
            let request = http::Request::from_parts(head, body);
            let mut copy = http::Request::new(request.body().clone());
            *copy.method_mut() = request.method().clone();
            *copy.uri_mut() = request.uri().clone();
            *copy.version_mut() = request.version();
            *copy.headers_mut() = request.headers().clone();
            log.borrow_mut().push(copy);
            Ok::<_, Infallible>(answer(request).await)
        }
    });
    let mut builder = hyper_util::server::conn::auto::Builder::new(LocalExecutor);
    builder.http1().writev(false);
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

pub(super) fn text(text: &str) -> OriginResponse {
    let mut answer = pieces([text.to_owned()]);
    answer.headers_mut().insert("content-length", text.len().to_string().parse().unwrap());
    answer
}

pub(super) fn bytes(bytes: Vec<u8>) -> OriginResponse {
    let body = Full::new(Bytes::from(bytes)).into_data_stream();
    let frames = body.map(|piece| Ok(Frame::data(piece.unwrap_or_else(|never| match never {}))));
    http::Response::new(StreamBody::new(frames.boxed_local() as Pieces))
}

pub(super) fn pieces<const N: usize>(pieces: [String; N]) -> OriginResponse {
    streamed(stream::iter(pieces).map(Bytes::from))
}

pub(super) fn streamed(pieces: impl Stream<Item = Bytes> + 'static) -> OriginResponse {
    http::Response::new(StreamBody::new(
        pieces.map(|piece| Ok(Frame::data(piece))).boxed_local() as Pieces
    ))
}

pub(super) fn redirect(status: u16, location: &str) -> OriginResponse {
    let mut answer = text("elsewhere");
    *answer.status_mut() = status.try_into().unwrap();
    answer.headers_mut().insert("location", location.parse().unwrap());
    answer
}

/// A trusted authority, and a certificate for `origin.test` and 127.0.0.1 that it has signed.
pub(super) struct Authority {
    pub(super) root: CertificateDer<'static>,
    pub(super) root_pem: String,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Authority {
    pub(super) fn new() -> Self {
        let mut root = CertificateParams::new(Vec::new()).unwrap();
        root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = CertifiedIssuer::self_signed(root, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let names = vec!["origin.test".to_owned(), "127.0.0.1".to_owned()];
        let leaf = CertificateParams::new(names).unwrap().signed_by(&key, &root).unwrap();
        Self {
            root: root.der().clone(),
            root_pem: root.pem(),
            chain: vec![leaf.der().clone()],
            key: PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        }
    }

    /// Returns the TLS configuration of a server with the certificate of this authority.
    ///
    /// # Arguments
    /// * `protocols` - the protocols that the server offers with ALPN.
    pub(super) fn server(&self, protocols: &[&str]) -> Arc<ServerConfig> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(self.chain.clone(), self.key.clone_key())
            .unwrap();
        config.alpn_protocols =
            protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        Arc::new(config)
    }
}
