//! The connector of gRPC clients: hyper's TCP connector, with TLS on top if configured.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use tower_service::Service;

use super::endpoint::Tls;
use super::role::Role;
use super::stream::Stream;

type BoxError = Box<dyn Error + Send + Sync>;

/// Connects to processes of one role, for a gRPC endpoint's `connect_with_connector`.
#[derive(Clone, Debug)]
pub struct Connector {
    tcp: HttpConnector,
    tls: Option<Tls>,
    peer: Role,
}

impl Connector {
    /// Creates a connector.
    ///
    /// # Arguments
    /// * `tls` - the TLS state of this process, or `None` for plain connections.
    /// * `peer` - the role of the server.
    /// * `connect_timeout` - the timeout of the TCP connect, divided among the addresses of a name.
    pub fn new(tls: Option<Tls>, peer: Role, connect_timeout: Duration) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(connect_timeout));
        // Allow both `http` and `https`.
        tcp.enforce_http(false);
        Self { tcp, tls, peer }
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (tls, peer) = (self.tls.clone(), self.peer);
        let host = uri.host().unwrap_or_default().to_owned();
        let connecting = self.tcp.call(uri);
        Box::pin(async move {
            let stream = connecting.await?.into_inner();
            let stream = match tls {
                Some(tls) => tls.connect(peer, &host, stream).await?,
                None => Stream::Plain(stream),
            };
            Ok(TokioIo::new(stream))
        })
    }
}
