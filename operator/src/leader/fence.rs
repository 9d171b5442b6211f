//! A client whose writes fail after the end of this replica's term.
//!
//! A leader that was stopped may resume in the middle of a plan, after another replica has become
//! the leader. Each write is therefore checked against the clock immediately before it is sent, and
//! not only when work begins. The statuses of Workers and of the Gateway API's objects also carry
//! the resource version that was read, which covers writes that were sent before the process
//! stopped.

use std::task::{Context, Poll};

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use tokio::sync::watch;
use tokio::time::Instant;
use tower_service::Service;

/// The error for a write after the end of the term.
#[derive(Debug, thiserror::Error)]
#[error("this replica no longer leads; the leader does the work")]
pub struct NotLeading;

/// Returns a client that reads as `client` does. Its writes fail with [`NotLeading`] from the time
/// in `until_rx` on, and as long as `until_rx` contains no time.
pub fn fenced(client: &Client, until_rx: watch::Receiver<Option<Instant>>) -> Client {
    let namespace = client.default_namespace().to_owned();
    Client::new(Fenced { client: client.clone(), until_rx }, namespace)
}

struct Fenced {
    client: Client,
    until_rx: watch::Receiver<Option<Instant>>,
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl Service<Request<Body>> for Fenced {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let is_read = [Method::GET, Method::HEAD].contains(request.method());
        let leads = self.until_rx.borrow().is_some_and(|until| Instant::now() < until);
        if !(is_read || leads) {
            return ready(Err(NotLeading.into())).boxed();
        }
        let client = self.client.clone();
        async move { Ok(client.send(request).await?) }.boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use super::*;

    /// An API server that records the methods of requests.
    struct ApiServer(Arc<Mutex<Vec<Method>>>);

    impl Service<Request<Body>> for ApiServer {
        type Response = Response<Body>;
        type Error = Infallible;
        type Future = std::future::Ready<Result<Response<Body>, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: Request<Body>) -> Self::Future {
            self.0.lock().unwrap().push(request.method().clone());
            std::future::ready(Ok(Response::new(Body::empty())))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn writes_are_sent_only_within_the_term_and_reads_always() {
        let sent = Arc::new(Mutex::new(Vec::new()));
        let (until_tx, until_rx) = watch::channel(None);
        let client = fenced(&Client::new(ApiServer(sent.clone()), "default"), until_rx);
        let send = async |method: Method| {
            let request = Request::builder().method(method).uri("/").body(Body::empty()).unwrap();
            client.send(request).await
        };
        let error = send(Method::PATCH).await.unwrap_err().to_string();
        assert!(error.contains("no longer leads"), "{error}");
        send(Method::GET).await.unwrap();

        until_tx.send_replace(Some(Instant::now() + Duration::from_secs(10)));
        send(Method::PATCH).await.unwrap();
        // The election has not noticed the end of the term yet, as after SIGSTOP.
        tokio::time::advance(Duration::from_secs(10)).await;
        for method in [Method::PATCH, Method::POST, Method::PUT, Method::DELETE] {
            send(method).await.unwrap_err();
        }
        send(Method::GET).await.unwrap();
        assert_eq!(*sent.lock().unwrap(), [Method::GET, Method::PATCH, Method::GET]);
    }
}
