//! Calls the router's internal listener with tonic's generated client.

use std::net::SocketAddr;

use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use tenon_lifecycle::tls::{Connector, Role, Tls, scheme};
use tenon_proto::catalog::Worker;
use tenon_proto::failure::Failure;
use tenon_proto::router::AwaitWorkerRequest;
use tenon_proto::router::router_client::RouterClient;
use tenon_proto::runtime::runtime_client::RuntimeClient;
use tenon_proto::runtime::{
    InvokeHead, InvokeRequest, ResponseHead, invoke_request, invoke_response,
};
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

use super::DEADLINE;

pub(crate) struct InternalCaller(RuntimeClient<Channel>);

/// Returns the head of a call that a node makes for the Worker `shop/front`. Such a head contains
/// no digest.
pub(crate) fn head(worker: &str) -> InvokeHead {
    InvokeHead {
        worker: worker.into(),
        request_id: "call-1".into(),
        method: "GET".into(),
        url: "http://anything/path".into(),
        caller: "shop/front".into(),
        depth: 1,
        ..InvokeHead::default()
    }
}

impl InternalCaller {
    pub(crate) fn of(addr: SocketAddr) -> Self {
        Self::with_tls(None, addr)
    }

    /// Creates a caller that presents the certificate of `tls`, or uses no TLS if `tls` is `None`.
    pub(crate) fn with_tls(tls: Option<Tls>, addr: SocketAddr) -> Self {
        let endpoint =
            Endpoint::from_shared(format!("{}://{addr}", scheme(tls.is_some()))).unwrap();
        Self(RuntimeClient::new(endpoint.connect_with_connector_lazy(Connector::new(
            tls,
            Role::Router,
            DEADLINE,
        ))))
    }

    /// Waits until the router serves the Worker as the entry `worker` of the catalog describes it.
    pub(crate) async fn await_worker(addr: SocketAddr, worker: Worker) -> Result<(), Status> {
        let endpoint = Endpoint::from_shared(format!("{}://{addr}", scheme(false))).unwrap();
        let mut router = RouterClient::new(endpoint.connect_lazy());
        let request = AwaitWorkerRequest { worker: Some(worker) };
        router.await_worker(request).await.map(drop)
    }

    /// Makes a call. Returns the head of the response, and the stream of the messages after the
    /// head.
    pub(crate) async fn open(
        &self,
        head: InvokeHead,
        body: impl Stream<Item = Bytes> + Send + 'static,
    ) -> Result<(ResponseHead, BoxStream<'static, Result<Bytes, Failure>>), Failure> {
        let parts = stream::iter([head.into_part()]).chain(body.map(invoke_request::Part::Body));
        let messages = parts.map(|part| InvokeRequest { part: Some(part) });
        let mut runtime = self.0.clone();
        let opened = async move {
            let mut messages = runtime.invoke(messages).await?.into_inner();
            let first = messages.message().await?.and_then(|message| message.part);
            let Some(invoke_response::Part::Head(head)) = first else {
                return Err(Status::internal("the first message is not a head"));
            };
            Ok((head, messages))
        };
        let opened =
            tokio::time::timeout(DEADLINE, opened).await.expect("no head before the deadline");
        let (head, messages) = opened.map_err(|status| Failure::from(&status))?;
        let pieces =
            messages.map(|message| match message.map_err(|status| Failure::from(&status))?.part {
                Some(invoke_response::Part::Body(piece)) => Ok(piece),
                _ => Err(Failure::from(&Status::internal("a second head"))),
            });
        Ok((head, pieces.boxed()))
    }

    /// Makes a call. Returns the head of the response with the whole body.
    pub(crate) async fn call(
        &self,
        head: InvokeHead,
        body: impl Stream<Item = Bytes> + Send + 'static,
    ) -> Result<ResponseHead, Failure> {
        let (mut head, mut pieces) = self.open(head, body).await?;
        let mut body = head.body.to_vec();
        let read = async {
            while let Some(piece) = pieces.next().await {
                body.extend_from_slice(&piece?);
            }
            Ok::<_, Failure>(())
        };
        tokio::time::timeout(DEADLINE, read)
            .await
            .expect("no complete response before the deadline")?;
        head.body = body.into();
        Ok(head)
    }
}
