//! A Worker's `scheduled` handler, called through a router's inner door.
//!
//! A call that has not begun is made again, for as long as its time is not too late: no router could be reached, or what the
//! router says shows that no node has run anything. Whatever else becomes of it is its end.

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

use super::due::{CATCH_UP, Call};

/// Between attempts, at first and at last.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// A router that does not even answer pings has gone.
const PING_INTERVAL: Duration = Duration::from_secs(10);
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// Calls Workers. Clones share a connection, which is opened when it is used.
#[derive(Clone)]
pub struct Caller {
    runtime: RuntimeClient<Channel>,
}

impl Caller {
    /// # Arguments
    /// * `router` - its inner door: `http://HOST:PORT`, or `https://` with TLS.
    /// * `tls` - where the URL says so.
    pub fn new(router: Uri, tls: Option<Tls>) -> Self {
        let endpoint = Endpoint::from(router)
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(true);
        let connector = Connector::new(tls, Role::Router, CONNECT_TIMEOUT);
        Self { runtime: RuntimeClient::new(endpoint.connect_with_connector_lazy(connector)) }
    }

    /// Calls the Worker, and waits until its handler and what that left to `waitUntil` have ended.
    ///
    /// # Errors
    /// When it failed, or was not to be reached until its time was too late.
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
        let whole = async {
            let mut runtime = self.runtime.clone();
            let mut answer = runtime.invoke(stream::iter([message])).await?.into_inner();
            while answer.message().await?.is_some() {}
            Ok(())
        };
        whole.await.map_err(|status: Status| told(&status))
    }
}

/// What a status means: one of the platform's failures, or that there was no router to tell of one.
fn told(status: &Status) -> Failure {
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
    fn only_what_has_not_begun_is_called_for_again_and_not_for_ever() {
        let time = Timestamp::from_second(1_000_000).unwrap();
        let (soon, late) = (time + SignedDuration::from_secs(1), time + CATCH_UP);
        let failure = |code, phase| Failure::new(code, phase, "");
        for code in
            [FailureCode::NoNode, FailureCode::Overloaded, FailureCode::Draining, FailureCode::RevisionUnavailable]
        {
            assert!(may_call_again(&failure(code, Phase::Admission), time, soon), "{code}");
            assert!(!may_call_again(&failure(code, Phase::Admission), time, late), "{code}");
        }
        for code in [FailureCode::WorkerException, FailureCode::NodeLost, FailureCode::WallLimitExceeded] {
            assert!(!may_call_again(&failure(code, Phase::Handler), time, soon), "{code}");
        }
    }

    #[tokio::test]
    async fn a_router_that_is_not_there_has_begun_nothing() {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let gone = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let caller = Caller::new(gone.parse().unwrap(), None);
        let call = Call { cron: "* * * * *".to_owned(), time: Timestamp::now() };
        let failure = caller.attempt(&WorkerId::new("shop", "cart"), &call).await.unwrap_err();
        assert_eq!((failure.code, failure.phase), (FailureCode::NoNode, Phase::Admission));
    }
}
