//! A node with a front, and its clients.

use std::net::SocketAddr;
use std::time::Duration;

use tenon_runtime_node::config::{Config, FrontConfig};
use tenon_runtime_node::supervisor::Supervisor;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::supervised::SupervisedNode;
use super::{Deployed, TestNode};

/// A response, as a client reads it.
#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    /// The status line and the headers, in lower case.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl TestNode {
    /// Starts a node whose shards serve clients, and announces the node to its front.
    pub(crate) async fn with_front(
        name: &'static str,
        shards: u16,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        let node = Self::with(name, |config| {
            config.front = Some(front_config(config));
            config.listen.shards = shards;
            config.drain.grace = Duration::from_secs(60);
            change(config);
        })
        .await;
        let ports = node.node().addresses().iter().map(|address| address.port().into()).collect();
        node.catalog.announce_node(name, ports, Vec::new());
        node
    }

    /// Returns the address for clients.
    pub(crate) fn front(&self) -> SocketAddr {
        self.node().front().expect("the node has no front").addr()
    }

    /// Announces a Worker at a host, and waits until the front has applied the announcement.
    pub(crate) async fn publish(&self, deployed: &Deployed, host: &str) {
        self.catalog.announce(deployed, &[host]);
        let front = self.node().front().expect("the node has no front");
        super::await_condition("the front to know the Worker", || {
            front.pinned(&deployed.worker).is_some()
        })
        .await;
    }

    /// Sends a GET request to a host, on a new connection.
    pub(crate) async fn ask(&self, host: &str) -> HttpResponse {
        ask(self.front(), host).await
    }
}

impl SupervisedNode {
    /// Announces the node, and a Worker at a host, and waits until the front serves the Worker.
    pub(crate) async fn announce(&self, deployed: &Deployed, host: &str) {
        let ports = |lanes: bool| {
            let of_kind =
                self.supervisor().addresses().iter().filter(|(id, _)| id.is_lane() == lanes);
            of_kind.map(|(_, address)| address.port().into()).collect()
        };
        self.catalog.announce_node(self.name, ports(false), ports(true));
        self.catalog.announce(deployed, &[host]);
        while self.ask(host).await.status == 404 {}
    }

    /// Sends a GET request to a host, on a new connection.
    pub(crate) async fn ask(&self, host: &str) -> HttpResponse {
        ask(self.supervisor().clients().expect("the node has no front"), host).await
    }

    fn supervisor(&self) -> &Supervisor {
        self.node.as_ref().expect("the node has been joined")
    }
}

/// Returns the configuration of a front whose addresses the system chooses.
pub(crate) fn front_config(node: &Config) -> FrontConfig {
    let any = ([127, 0, 0, 1], 0).into();
    let router =
        tenon_router::Config::new("front".to_owned(), any, node.catalog.ready.uri().clone());
    let router = tenon_router::Config {
        internal_listen: Some(any),
        debug_headers: true,
        client_memory: 256 << 20,
        ..router
    };
    FrontConfig { router, https_listen: None }
}

/// Sends a GET request on a new connection.
pub(crate) async fn ask(front: SocketAddr, host: &str) -> HttpResponse {
    exchange(front, format!("GET / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n")).await
}

/// Sends bytes on a new connection, and reads the response until the connection ends.
pub(crate) async fn exchange(front: SocketAddr, request: impl AsRef<[u8]>) -> HttpResponse {
    let mut stream = TcpStream::connect(front).await.unwrap();
    let (mut reader, mut writer) = stream.split();
    let mut response = Vec::new();
    // A response may begin before the request is complete, and must be read meanwhile.
    let (written, received) =
        tokio::join!(writer.write_all(request.as_ref()), reader.read_to_end(&mut response));
    written.unwrap();
    received.unwrap();
    HttpResponse::parse(response)
}

/// Reads the response on a connection until the connection ends.
pub(crate) async fn read(mut stream: TcpStream) -> HttpResponse {
    let mut response = Vec::new();
    stream.read_to_end(&mut response).await.unwrap();
    HttpResponse::parse(response)
}

impl HttpResponse {
    fn parse(response: Vec<u8>) -> Self {
        let response = String::from_utf8(response).unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap_or((&response, ""));
        let status = head.get(9..12).and_then(|status| status.parse().ok());
        Self {
            status: status.unwrap_or_else(|| panic!("the response has no status: {response:?}")),
            head: head.to_ascii_lowercase(),
            body: body.to_owned(),
        }
    }
}
