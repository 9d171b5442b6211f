//! A collector of spans, whose answers the test sets.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use clap::Parser;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use tenon_router::{SpanArgs, SpansConfig};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};

use super::eventually;

/// The reaction of a collector to a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reaction {
    Accept,
    /// Accepts all spans of the batch but one.
    RejectOne,
    /// Fails, and may accept the batch later.
    Unavailable,
    /// Refuses the batch.
    Refuse,
    /// Never answers.
    Hang,
}

/// A running collector.
pub(crate) struct Collector {
    addr: SocketAddr,
    received: Received,
}

#[derive(Clone)]
struct Received(Arc<Mutex<State>>);

struct State {
    reaction: Reaction,
    batches: usize,
    spans: Vec<Span>,
    resource: Vec<KeyValue>,
    headers: MetadataMap,
}

#[derive(Parser)]
struct Process {
    #[command(flatten)]
    spans: SpanArgs,
}

impl Collector {
    pub(crate) async fn start(reaction: Reaction) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let state = State {
            reaction,
            batches: 0,
            spans: Vec::new(),
            resource: Vec::new(),
            headers: MetadataMap::new(),
        };
        let received = Received(Arc::new(Mutex::new(state)));
        let server = tonic::transport::Server::builder()
            .add_service(TraceServiceServer::new(received.clone()));
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        Self { addr, received }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the configuration of a router that exports its spans here.
    ///
    /// # Arguments
    /// * `args` - further arguments of the router.
    pub(crate) fn config(&self, args: &[&str]) -> Option<SpansConfig> {
        config(&format!("http://{}", self.addr), args)
    }

    pub(crate) fn react(&self, reaction: Reaction) {
        self.received.0.lock().unwrap().reaction = reaction;
    }

    /// Returns the number of batches that have arrived.
    pub(crate) fn batches(&self) -> usize {
        self.received.0.lock().unwrap().batches
    }

    /// Waits for this number of spans, and returns all spans of the accepted batches, even one that
    /// was rejected.
    pub(crate) async fn spans(&self, number: usize) -> Vec<Span> {
        let spans = || self.received.0.lock().unwrap().spans.clone();
        eventually("the spans to be exported", || spans().len() >= number).await;
        spans()
    }

    /// Returns an attribute of the process that has sent the last accepted batch.
    pub(crate) fn resource(&self, key: &str) -> Option<String> {
        text(&self.received.0.lock().unwrap().resource, key)
    }

    /// Returns a header of the last batch.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let state = self.received.0.lock().unwrap();
        state.headers.get(name).map(|value| value.to_str().unwrap().to_owned())
    }
}

/// Returns the configuration of a router that exports its spans to a URL.
pub(crate) fn config(url: &str, args: &[&str]) -> Option<SpansConfig> {
    let args = ["router", "--otlp-endpoint", url].into_iter().chain(args.iter().copied());
    Process::parse_from(args).spans.config("tenon-router", "router-1").unwrap()
}

/// Returns an attribute as text.
pub(crate) fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    let attribute = attributes.iter().find(|attribute| attribute.key == key)?;
    Some(match attribute.value.clone()?.value? {
        Value::StringValue(text) => text,
        Value::IntValue(number) => number.to_string(),
        Value::BoolValue(is_set) => is_set.to_string(),
        other => panic!("{key} is {other:?}"),
    })
}

#[tonic::async_trait]
impl TraceService for Received {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let reaction = {
            let mut state = self.0.lock().unwrap();
            state.batches += 1;
            state.headers = request.metadata().clone();
            state.reaction
        };
        let mut rejected_spans = 0;
        match reaction {
            Reaction::Accept => {}
            Reaction::RejectOne => rejected_spans = 1,
            Reaction::Unavailable => return Err(Status::unavailable("not yet")),
            Reaction::Refuse => return Err(Status::invalid_argument("never")),
            Reaction::Hang => std::future::pending().await,
        }
        let mut state = self.0.lock().unwrap();
        for resource in request.into_inner().resource_spans {
            state.resource = resource.resource.unwrap().attributes;
            state.spans.extend(resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
        let partial_success =
            Some(ExportTracePartialSuccess { rejected_spans, error_message: String::new() });
        Ok(Response::new(ExportTraceServiceResponse { partial_success }))
    }
}
