//! Calls a Worker's `scheduled` handler through the routers' internal listener.
//!
//! A call is retried, for a limited time, if it has not begun: no router could be reached, or the
//! router's failure shows that no node has run the handler. Any other outcome is final.

use std::time::Duration;

use futures::stream;
use http::Uri;
use jiff::Timestamp;
use tenon_lifecycle::tls::{Connector, Role, Tls};
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::id::WorkerId;
use tenon_proto::runtime::runtime_client::RuntimeClient;
use tenon_proto::runtime::{InvokeHead, InvokeRequest, Scheduled, invoke_request};
use tonic::transport::{Channel, Endpoint};
use tonic::{ConnectError, Status};

use crate::due::{CATCH_UP, Call};

/// Delay between the first two attempts. It doubles with each further attempt.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Maximum delay between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Time limit for connecting to a router.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Interval between pings of the connected router.
const PING_INTERVAL: Duration = Duration::from_secs(10);
/// Time after an unanswered ping at which the connection is closed.
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// A client that calls Workers. Clones share a connection, which is opened on first use.
#[derive(Clone)]
pub struct Caller {
    runtime: RuntimeClient<Channel>,
}

impl Caller {
    /// Creates a caller, which connects to the router with its first call.
    ///
    /// # Arguments
    /// * `router` - URL of the internal listener: `http://HOST:PORT`, or `https://` with TLS.
    /// * `tls` - the TLS state of this process, which is required for `https://`.
    pub fn new(router: Uri, tls: Option<Tls>) -> Self {
        let endpoint = Endpoint::from(router)
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(true);
        let connector = Connector::new(tls, Role::Router, CONNECT_TIMEOUT);
        Self { runtime: RuntimeClient::new(endpoint.connect_with_connector_lazy(connector)) }
    }

    /// Calls the Worker, and waits until its handler and all promises passed to `waitUntil` have
    /// settled.
    ///
    /// # Errors
    /// Fails if the call fails, or cannot be started within [`CATCH_UP`] after its scheduled time.
    pub async fn call(&self, worker: &WorkerId, call: &Call) -> Result<(), Failure> {
        let mut pause = FIRST_PAUSE;
        loop {
            let failure = match self.attempt(worker, call).await {
                Ok(()) => return Ok(()),
                Err(failure) => failure,
            };
            if !may_call_again(&failure, call.time, Timestamp::now()) {
                return Err(failure);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn attempt(&self, worker: &WorkerId, call: &Call) -> Result<(), Failure> {
        let Call { cron, time } = call;
        let head = InvokeHead {
            worker: worker.to_string(),
            scheduled: Some(Scheduled { cron: cron.clone(), time_ms: time.as_millisecond() }),
            ..InvokeHead::default()
        };
        let message = InvokeRequest { part: Some(invoke_request::Part::Head(head)) };
        let invocation = async {
            let mut runtime = self.runtime.clone();
            let mut response = runtime.invoke(stream::iter([message])).await?.into_inner();
            while response.message().await?.is_some() {}
            Ok(())
        };
        invocation.await.map_err(|status: Status| failure(&status))
    }
}

/// Converts a status into a failure. A connection error means that no router could be reached.
fn failure(status: &Status) -> Failure {
    let sources = std::iter::successors(std::error::Error::source(status), |error| error.source());
    if sources.into_iter().any(|error| error.is::<ConnectError>()) {
        return Failure::new(FailureCode::NoNode, Phase::Admission, "No router can be reached.");
    }
    Failure::from(status)
}

fn may_call_again(failure: &Failure, time: Timestamp, now: Timestamp) -> bool {
    let unreached = failure.code == FailureCode::NoNode && failure.phase == Phase::Admission;
    (unreached || failure.may_retry_elsewhere()) && now.duration_since(time) < CATCH_UP
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn only_a_call_that_has_not_begun_is_repeated_for_a_limited_time() {
        let time = Timestamp::from_second(1_000_000).unwrap();
        let (soon, late) = (time + SignedDuration::from_secs(1), time + CATCH_UP);
        let failure = |code, phase| Failure::new(code, phase, "");
        for code in [
            FailureCode::NoNode,
            FailureCode::Overloaded,
            FailureCode::Draining,
            FailureCode::RevisionUnavailable,
        ] {
            assert!(may_call_again(&failure(code, Phase::Admission), time, soon), "{code}");
            assert!(!may_call_again(&failure(code, Phase::Admission), time, late), "{code}");
        }
        for code in
            [FailureCode::WorkerException, FailureCode::NodeLost, FailureCode::WallLimitExceeded]
        {
            assert!(!may_call_again(&failure(code, Phase::Handler), time, soon), "{code}");
        }
    }

    #[tokio::test]
    async fn an_unreachable_router_has_not_begun_the_call() {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let gone = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let caller = Caller::new(gone.parse().unwrap(), None);
        let call = Call { cron: "* * * * *".to_owned(), time: Timestamp::now() };
        let failure = caller.attempt(&WorkerId::new("shop", "cart"), &call).await.unwrap_err();
        assert_eq!((failure.code, failure.phase), (FailureCode::NoNode, Phase::Admission));
    }
}
