//! Performs the operations that Workers await: timers and HTTP requests. They are performed on the
//! thread of the invocation. Each thread has its own connections.

use std::cell::RefCell;
use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::HOST;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::turn::{Operation, Outcome};

/// Performs operations on one thread.
pub struct Host {
    origin: SocketAddr,
    /// Connections to the origin that are not in use.
    idle: RefCell<Vec<SendRequest<Empty<Bytes>>>>,
}

impl Host {
    /// Creates a host that sends its HTTP requests to this origin.
    pub fn new(origin: SocketAddr) -> Self {
        Self { origin, idle: RefCell::default() }
    }

    pub async fn perform(&self, operation: Operation) -> Outcome {
        match operation {
            Operation::Sleep(time) => {
                tokio::time::sleep(time).await;
                Outcome::Slept
            }
            Operation::Fetch { url } => {
                self.fetch(&url).await.expect("a request to the origin of the benchmark failed")
            }
        }
    }

    async fn fetch(&self, url: &str) -> anyhow::Result<Outcome> {
        // A request on a connection to an origin has neither scheme nor authority in its target.
        let uri: hyper::Uri = url.parse()?;
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let request =
            hyper::Request::get(path).header(HOST, self.origin.to_string()).body(Empty::new())?;
        let mut connection = self.connection().await?;
        let response = connection.send_request(request).await?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await?.to_bytes();
        self.idle.borrow_mut().push(connection);
        Ok(Outcome::Fetched { status, body: String::from_utf8(body.to_vec())? })
    }

    async fn connection(&self) -> anyhow::Result<SendRequest<Empty<Bytes>>> {
        let idle = self.idle.borrow_mut().pop();
        let mut connection = match idle {
            Some(idle) => idle,
            None => {
                let stream = TcpStream::connect(self.origin).await?;
                stream.set_nodelay(true)?;
                let (requests, connection) = http1::handshake(TokioIo::new(stream)).await?;
                // The connection ends when `requests` is dropped.
                tokio::task::spawn_local(connection);
                requests
            }
        };
        connection.ready().await?;
        Ok(connection)
    }
}
