//! `Router.AwaitWorker`: answers an operator when this router serves a Worker as the catalog
//! announced it.
//!
//! A call belongs to one thread. All threads read the same published table.

use std::future::poll_fn;
use std::rc::Rc;
use std::time::Duration;

use http::Response;
use hyper::body::Incoming;
use tenon_proto::frame;
use tenon_proto::invoke::{Next, Reader};
use tenon_proto::router::{AwaitWorkerRequest, AwaitWorkerResponse};
use tenon_table::Worker;
use tonic::Status;

use crate::front::internal::relay::{self, Relay};
use crate::thread::RouterThread;

/// The longest wait, including the wait for the request.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// Answers a call of `AwaitWorker`.
pub(crate) async fn serve(thread: &Rc<RouterThread>, incoming: Incoming) -> Response<Relay> {
    let applied = async { thread.await_applied(&read_entry(incoming).await?).await };
    let late = || Status::deadline_exceeded("the router has not applied the Worker's entry");
    let applied = tokio::time::timeout(LONGEST_WAIT, applied).await;
    match applied.unwrap_or_else(|_| Err(late())) {
        Ok(()) => relay::message(frame::encode(&AwaitWorkerResponse {})),
        Err(status) => status.into_http(),
    }
}

async fn read_entry(incoming: Incoming) -> Result<Worker, Status> {
    let mut reader = Reader::new(incoming);
    let next = poll_fn(|cx| reader.poll_next::<AwaitWorkerRequest>(cx)).await;
    let Ok(Next::Message(AwaitWorkerRequest { worker: Some(worker) })) = next else {
        return Err(Status::invalid_argument("the request names no Worker"));
    };
    Worker::new(worker).map_err(|error| Status::invalid_argument(error.to_string()))
}
