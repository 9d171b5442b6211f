//! A stand-in for a router, which forwards calls to the node's own shard with the digest of the
//! called Worker.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::id::RevisionDigest;
use tenon_proto::runtime::runtime_client::RuntimeClient;
use tenon_proto::runtime::runtime_server::{Runtime, RuntimeServer};
use tenon_proto::runtime::{InvokeHead, InvokeRequest, InvokeResponse, invoke_request};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, Streaming};

use super::Deployed;

/// A router that runs until the test's runtime ends.
#[derive(Clone)]
pub(crate) struct Router {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    shard: Option<SocketAddr>,
    digests: HashMap<String, RevisionDigest>,
    /// The heads of all calls so far.
    heads: Vec<InvokeHead>,
}

impl Router {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let router = Self { address: listener.local_addr().unwrap(), state: Arc::default() };
        let server =
            tonic::transport::Server::builder().add_service(RuntimeServer::new(router.clone()));
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        router
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sets the shard to which calls are forwarded.
    pub(crate) fn set_shard(&self, shard: SocketAddr) {
        self.state.lock().unwrap().shard = Some(shard);
    }

    pub(crate) fn add_worker(&self, worker: &Deployed) {
        self.state.lock().unwrap().digests.insert(worker.worker.to_string(), worker.digest);
    }

    /// Returns the heads of the calls so far.
    pub(crate) fn calls(&self) -> Vec<InvokeHead> {
        self.state.lock().unwrap().heads.clone()
    }
}

type Responses = Pin<Box<dyn Stream<Item = Result<InvokeResponse, Status>> + Send>>;

#[tonic::async_trait]
impl Runtime for Router {
    type InvokeStream = Responses;

    async fn invoke(
        &self,
        request: Request<Streaming<InvokeRequest>>,
    ) -> Result<Response<Self::InvokeStream>, Status> {
        let mut parts = request.into_inner();
        let first = parts.message().await?.and_then(|message| message.part);
        let Some(mut head) = first.and_then(invoke_request::Part::into_head) else {
            return Err(Status::invalid_argument("the first message is not a head"));
        };
        let shard = {
            let mut state = self.state.lock().unwrap();
            state.heads.push(head.clone());
            let failure = Failure::new(
                FailureCode::WorkerNotFound,
                Phase::Admission,
                "There is no such Worker.",
            );
            let digest = state.digests.get(&head.worker).ok_or_else(|| Status::from(&failure))?;
            head.digest = Bytes::copy_from_slice(digest.as_bytes());
            state.shard.expect("the test has not set a shard")
        };
        let mut client = RuntimeClient::connect(format!("http://{shard}")).await.unwrap();
        let first = InvokeRequest { part: Some(head.into_part()) };
        let rest = parts.filter_map(|message| std::future::ready(message.ok()));
        let answer = client.invoke(stream::iter([first]).chain(rest)).await?;
        Ok(Response::new(answer.into_inner().boxed()))
    }
}
