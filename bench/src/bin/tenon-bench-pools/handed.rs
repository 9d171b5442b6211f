//! The pinned pool, with requests that arrive at any thread. That thread hands each request to the
//! thread that owns its Worker and waits for the response. The difference from
//! [`pinned`](crate::pinned) is the cost of pinning if the load balancer does not know the hash.
//!
//! A request passes through the owner's queue even if it arrives at the owner, so that the owner
//! serves requests in the order of their arrival.

use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, oneshot};

use crate::load::{Load, Server};
use crate::measurement::Measurement;
use crate::pinned::Pinned;
use crate::sandbox::Sandbox;
use crate::scenario::{WorkerId, Workers};
use crate::turn::{Request, Response};

/// A request on its way to the thread that owns its Worker.
struct Job {
    worker: WorkerId,
    request: Request,
    answer: oneshot::Sender<Response>,
}

/// The receiver of a thread's own queue, and senders to the queues of all threads.
struct Channels {
    inbox: mpsc::UnboundedReceiver<Job>,
    owners: Vec<mpsc::UnboundedSender<Job>>,
}

struct Handed {
    workers_by_thread: Arc<Workers>,
    workers: Vec<WorkerId>,
    owners: Vec<mpsc::UnboundedSender<Job>>,
}

pub fn measure(sandbox: Sandbox, load: &Load) -> anyhow::Result<Measurement> {
    let workers = &load.shape().workers;
    let (owners, inboxes): (Vec<_>, Vec<_>) =
        (0..load.shape().threads).map(|_| mpsc::unbounded_channel()).unzip();
    let channels =
        inboxes.into_iter().map(|inbox| Some(Channels { inbox, owners: owners.clone() })).collect();
    // A queue closes only after all its senders are dropped, so this function must not keep any.
    drop(owners);
    let channels: Mutex<Vec<Option<Channels>>> = Mutex::new(channels);
    load.run(async |thread| {
        let own = channels.lock().unwrap_or_else(PoisonError::into_inner)[thread].take();
        let Channels { inbox, owners } = own.expect("a thread took its channels twice");
        tokio::task::spawn_local(serve_jobs(inbox, Pinned::new(sandbox, workers.of(thread))));
        Handed { workers_by_thread: Arc::clone(workers), workers: workers.all(), owners }
    })
}

/// Serves the requests that are handed to this thread.
async fn serve_jobs(mut inbox: mpsc::UnboundedReceiver<Job>, pinned: Pinned) {
    let pinned = Rc::new(pinned);
    while let Some(Job { worker, request, answer }) = inbox.recv().await {
        let pinned = Rc::clone(&pinned);
        tokio::task::spawn_local(async move {
            let response = pinned.serve(&worker, request).await;
            answer
                .send(response)
                .unwrap_or_else(|_| unreachable!("a client ended before it was served"));
        });
    }
}

impl Server for Handed {
    fn workers(&self) -> &[WorkerId] {
        &self.workers
    }

    async fn serve(&self, worker: &WorkerId, request: Request) -> Response {
        let (answer, response) = oneshot::channel();
        let job = Job { worker: worker.clone(), request, answer };
        let handed = self.owners[self.workers_by_thread.owner(worker)].send(job);
        handed.unwrap_or_else(|_| unreachable!("an owner ended before its clients"));
        response.await.expect("an owner dropped a request")
    }
}
