//! A connector for gRPC clients whose connection is already open.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tower_service::Service;

/// A connector that hands out one connection once, for a gRPC endpoint's
/// `connect_with_connector`. After this connection has ended, calls fail.
#[derive(Debug)]
pub struct OpenConnection<S>(Option<S>);

impl<S> OpenConnection<S> {
    pub fn new(stream: S) -> Self {
        Self(Some(stream))
    }
}

impl<S: AsyncRead + AsyncWrite + Send + 'static> Service<Uri> for OpenConnection<S> {
    type Response = TokioIo<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, io::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let stream = self.0.take().ok_or_else(|| io::ErrorKind::NotConnected.into());
        Box::pin(async { stream.map(TokioIo::new) })
    }
}
