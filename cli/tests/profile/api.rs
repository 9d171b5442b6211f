//! An API server that implements the part of Kubernetes' API that `tenon profile` uses, including
//! port-forwards. It has one Worker and one node.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::{SinkExt as _, Stream, StreamExt as _, stream};
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use tenon_egress::handshake::{Key, WEBSOCKET};
use tenon_proto::node::profiler_server::{self, ProfilerServer};
use tenon_proto::node::{ProfileRequest, ProfileResponse};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;
use tonic::Status;

/// The name of the only node's Pod.
pub const NODE: &str = "tenon-pool-default-a";

/// The port on which nodes take profiles.
const PORT: u16 = 9091;

/// The reaction of the node and the API server to a port-forward.
#[derive(Clone)]
pub enum Node {
    /// The node answers each call with these responses.
    Answers(Vec<Result<ProfileResponse, Status>>),
    /// Nothing listens on the port.
    Refuses,
    /// The API server does not permit the forward.
    Forbidden,
}

/// A running API server. It stops when this value is dropped.
pub struct Api {
    directory: tempfile::TempDir,
    requests: Arc<Mutex<Vec<ProfileRequest>>>,
    _runtime: tokio::runtime::Runtime,
}

impl Api {
    pub fn start(node: Node) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": server}}],
            "users": [{"name": "test", "user": {}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        });
        std::fs::write(directory.path().join("kubeconfig"), kubeconfig.to_string()).unwrap();
        let requests = Arc::<Mutex<Vec<ProfileRequest>>>::default();
        runtime.spawn(serve(listener, node, Arc::clone(&requests)));
        Self { directory, requests, _runtime: runtime }
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("kubeconfig")
    }

    /// Returns a directory for the test's files.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the requests that the node has received.
    pub fn requests(&self) -> Vec<ProfileRequest> {
        self.requests.lock().unwrap().clone()
    }
}

async fn serve(listener: TcpListener, node: Node, requests: Arc<Mutex<Vec<ProfileRequest>>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (node, requests) = (node.clone(), Arc::clone(&requests));
        let service = service_fn(move |request| {
            let response = respond(request, &node, &requests);
            async move { Ok::<_, Infallible>(response) }
        });
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        tokio::spawn(connection.with_upgrades());
    }
}

fn respond(
    mut request: Request<Incoming>,
    node: &Node,
    requests: &Arc<Mutex<Vec<ProfileRequest>>>,
) -> Response<Full<Bytes>> {
    let pods = "/api/v1/namespaces/tenon-system/pods";
    match request.uri().path() {
        "/apis/tenon.dev/v1alpha1/namespaces/shop/workers/cart" => {
            object(StatusCode::OK, &worker())
        }
        path if path == pods => {
            let query = request.uri().query().unwrap_or_default();
            assert!(query.contains("tenon.dev%2Fpool%3Ddefault"), "{query}");
            object(StatusCode::OK, &json!({"metadata": {}, "items": [pod()]}))
        }
        path if path == format!("{pods}/{NODE}/portforward") => {
            if matches!(node, Node::Forbidden) {
                return failure(StatusCode::FORBIDDEN, "you may not forward ports");
            }
            let key = request.headers().get(header::SEC_WEBSOCKET_KEY).unwrap();
            let key = Key::read(key.as_bytes()).unwrap();
            let (node, requests) = (node.clone(), Arc::clone(requests));
            tokio::spawn(forward(hyper::upgrade::on(&mut request), node, requests));
            switch(&key)
        }
        path => failure(StatusCode::NOT_FOUND, &format!("{path} not found")),
    }
}

fn worker() -> Value {
    json!({
        "apiVersion": "tenon.dev/v1alpha1", "kind": "Worker",
        "metadata": {"name": "cart", "namespace": "shop"},
        "spec": {"source": {"modules": {}}},
        "status": {"accepted": {"pool": "default", "routes": []}},
    })
}

fn pod() -> Value {
    json!({
        "metadata": {"name": NODE, "namespace": "tenon-system"},
        "spec": {"containers": [{"name": "runtime-node", "ports": [{"name": "shard-0", "containerPort": 7100}]}]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn object(status: StatusCode, object: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(object.to_string()));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

fn failure(status: StatusCode, message: &str) -> Response<Full<Bytes>> {
    let code = status.as_u16();
    let reason = status.canonical_reason().map(|reason| reason.replace(' ', ""));
    let failure = json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    });
    object(status, &failure)
}

fn switch(key: &Key) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().extend([
        (header::CONNECTION, HeaderValue::from_static("Upgrade")),
        (header::UPGRADE, WEBSOCKET),
        (header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static("v4.channel.k8s.io")),
        (header::SEC_WEBSOCKET_ACCEPT, HeaderValue::from_str(&key.accept()).unwrap()),
    ]);
    response
}

/// Forwards the port: the first byte of each message is its channel, 0 for data and 1 for an error,
/// and the first message of each channel contains the port.
async fn forward(upgrade: OnUpgrade, node: Node, requests: Arc<Mutex<Vec<ProfileRequest>>>) {
    let upgraded = TokioIo::new(upgrade.await.unwrap());
    let socket = WebSocketStream::from_raw_socket(upgraded, Role::Server, None).await;
    let (mut to_client, mut from_client) = socket.split();
    let on = |channel: u8, bytes: &[u8]| Message::binary([&[channel], bytes].concat());
    for channel in [0, 1] {
        to_client.send(on(channel, &PORT.to_le_bytes())).await.unwrap();
    }
    let Node::Answers(responses) = node else {
        let error = "dial tcp4 127.0.0.1:9091: connect: connection refused";
        to_client.send(on(1, error.as_bytes())).await.unwrap();
        to_client.close().await.unwrap();
        // A connection that is cut while the client writes would hide the error from it.
        while let Some(Ok(_)) = from_client.next().await {}
        return;
    };
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    let service = TowerToHyperService::new(ProfilerServer::new(Profiler { responses, requests }));
    tokio::spawn(
        http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(theirs), service),
    );
    let (mut from_node, mut to_node) = tokio::io::split(ours);
    let sent = async {
        let mut buffer = vec![0; 16 << 10];
        while let Ok(count @ 1..) = from_node.read(&mut buffer).await {
            to_client.send(on(0, &buffer[..count])).await.unwrap();
        }
    };
    let received = async {
        while let Some(Ok(message)) = from_client.next().await {
            if let [0, bytes @ ..] = &message.into_data()[..] {
                to_node.write_all(bytes).await.unwrap();
            }
        }
    };
    tokio::select! {
        () = sent => {}
        () = received => {}
    }
}

struct Profiler {
    responses: Vec<Result<ProfileResponse, Status>>,
    requests: Arc<Mutex<Vec<ProfileRequest>>>,
}

#[tonic::async_trait]
impl profiler_server::Profiler for Profiler {
    type ProfileStream = Pin<Box<dyn Stream<Item = Result<ProfileResponse, Status>> + Send>>;

    async fn profile(
        &self,
        request: tonic::Request<ProfileRequest>,
    ) -> Result<tonic::Response<Self::ProfileStream>, Status> {
        self.requests.lock().unwrap().push(request.into_inner());
        Ok(tonic::Response::new(stream::iter(self.responses.clone()).boxed()))
    }
}
