//! The origin that Workers fetch from, which serves HTTP on loopback, with a delay before each
//! response. It runs in the parent process, which is not measured.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// The delay before each response.
const LATENCY: Duration = Duration::from_millis(20);

/// An origin that is served until the process ends.
pub struct Origin {
    address: SocketAddr,
}

impl Origin {
    /// Starts to serve the origin.
    ///
    /// # Errors
    /// Fails if no port is available.
    pub fn serve() -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = runtime
            .block_on(TcpListener::bind(("127.0.0.1", 0)))
            .context("cannot listen on a port for the origin")?;
        let address = listener.local_addr()?;
        thread::Builder::new()
            .name("origin".to_owned())
            .spawn(move || runtime.block_on(accept(listener)))?;
        Ok(Self { address })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn accept(listener: TcpListener) {
    // If accepting fails, the origin stops, and the measurements that need it fail.
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        // Clients close their connections at the end of their measurement.
        tokio::spawn(
            http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)),
        );
    }
}

async fn answer(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    tokio::time::sleep(LATENCY).await;
    Ok(Response::new(Full::new(Bytes::from_static(b"asked and answered\n"))))
}
