//! Tests of the reports to the operator about Workers whose code fails repeatedly.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tenon_proto::catalog::WorkerReport;
use tenon_proto::catalog::worker_report::State;

use crate::harness::{Deployed, TestNode, await_condition, trials};

trials! {
    a_crash_loop_and_its_recovery_are_reported,
    a_failure_that_does_not_repeat_is_not_reported,
    a_reconnected_operator_gets_the_latest_state,
}

/// A time longer than the back-off after the first failure (1 s), and shorter than the first two
/// back-offs together (3 s).
const TWO_FAILURES: Duration = Duration::from_millis(2_900);

impl TestNode {
    /// Deploys a Worker that cannot start until `time` has passed.
    fn broken_for(&self, time: Duration) -> Deployed {
        let until = (SystemTime::now() + time).duration_since(UNIX_EPOCH).unwrap().as_millis();
        let source = format!(
            "if (Date.now() < {until}) throw new Error('not yet');
             export default {{ fetch: () => new Response('at last') }};"
        );
        self.worker("worker", &source, |_| {})
    }

    /// Sends requests until one succeeds.
    async fn get_until_it_responds(&self, worker: &Deployed) {
        while self.client().get(worker).await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Sends requests until the failures count as a crash loop.
    async fn get_until_it_loops(&self, worker: &Deployed) {
        while self.metric("tenon_worker_crash_loops", &[]) == 0 {
            self.client().get(worker).await.unwrap_err();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Returns every report that the catalog has received, in order.
    fn reported(&self) -> Vec<WorkerReport> {
        self.catalog.reports().into_iter().flat_map(|report| report.workers).collect()
    }
}

async fn a_crash_loop_and_its_recovery_are_reported(name: &'static str) {
    let node = TestNode::start(name).await;
    let worker = node.broken_for(TWO_FAILURES);
    node.get_until_it_loops(&worker).await;
    await_condition("a report", || !node.reported().is_empty()).await;
    let report = node.reported().remove(0);
    assert_eq!(node.catalog.reports()[0].node, name);
    assert_eq!(
        (report.worker, &report.digest[..]),
        (worker.worker.to_string(), &worker.digest.as_bytes()[..])
    );
    let Some(State::CrashLoop(crash_loop)) = report.state else { panic!("{:?}", report.state) };
    assert_eq!((crash_loop.code.as_str(), crash_loop.failures), ("worker_start_failed", 2));

    node.get_until_it_responds(&worker).await;
    await_condition("a recovery", || {
        matches!(node.reported().last().unwrap().state, Some(State::Recovered(_)))
    })
    .await;
    node.await_metric("tenon_worker_crash_loops", &[], 0).await;
}

async fn a_failure_that_does_not_repeat_is_not_reported(name: &'static str) {
    let node = TestNode::start(name).await;
    // The Worker is broken until shortly before its second start, which comes a second after the
    // first start has failed.
    let worker = node.broken_for(Duration::from_millis(950));
    node.client().get(&worker).await.unwrap_err();
    node.get_until_it_responds(&worker).await;
    assert_eq!(node.metric("tenon_worker_crash_loops", &[]), 0);
    assert!(node.reported().is_empty());
}

async fn a_reconnected_operator_gets_the_latest_state(name: &'static str) {
    let mut node = TestNode::start(name).await;
    let (early, late) = (node.broken_for(TWO_FAILURES), node.worker("late", "throw 1", |_| {}));
    node.get_until_it_loops(&early).await;
    await_condition("a report", || !node.reported().is_empty()).await;
    // After this request, the node has fetched the code of both Workers.
    node.client().get(&late).await.unwrap_err();
    node.catalog.stop();
    node.get_until_it_responds(&early).await;
    await_condition("the end of the crash loop", || {
        node.metric("tenon_worker_crash_loops", &[]) == 0
    })
    .await;
    node.get_until_it_loops(&late).await;
    node.catalog.restart();
    let looping = |report: &WorkerReport| {
        (report.worker.clone(), matches!(report.state, Some(State::CrashLoop(_))))
    };
    let latest =
        BTreeMap::from([(early.worker.to_string(), false), (late.worker.to_string(), true)]);
    await_condition("a report of both states", || {
        node.reported().iter().skip(1).map(looping).collect::<BTreeMap<_, _>>() == latest
    })
    .await;
}
