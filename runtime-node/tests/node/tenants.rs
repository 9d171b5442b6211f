//! Tests of the isolation between tenants: one tenant cannot take the resources that another needs.

use tenon_proto::failure::{FailureCode, Phase};

use crate::harness::client::Upload;
use crate::harness::{Deployed, TestNode, trials};

trials! {
    one_tenant_with_many_workers_cannot_take_every_permit,
    one_tenant_cannot_fill_the_queue,
    one_tenant_cannot_take_every_isolate,
    a_lone_tenant_may_take_more_than_half_of_a_shard,
}

const WAITS: &str = "await request.text(); return new Response('done')";

impl TestNode {
    /// Deploys Workers of a tenant. Each answers a request once the request's body has ended.
    fn waiters<const N: usize>(&self, namespace: &str) -> [Deployed; N] {
        std::array::from_fn(|n| self.handler_of(namespace, &format!("worker-{n}"), WAITS))
    }

    /// Sends each Worker a request that remains in flight.
    async fn occupy(&self, workers: &[&Deployed]) -> Vec<Upload> {
        let before = self.metric("tenon_shard_inflight", &[]);
        let uploads = workers.iter().map(|worker| self.client().upload(worker)).collect();
        self.await_metric("tenon_shard_inflight", &[], before + workers.len() as u64).await;
        uploads
    }

    /// Sends a request and checks that it is shed for `reason`.
    async fn expect_shed(&self, worker: &Deployed, reason: &str) {
        let before = self.metric("tenon_shed_total", &[("reason", reason)]);
        let failure = self.client().get(worker).await.unwrap_err();
        assert_eq!(
            (failure.code, failure.phase),
            (FailureCode::Overloaded, Phase::Admission),
            "{failure}"
        );
        assert!(failure.may_retry_elsewhere());
        assert_eq!(self.metric("tenon_shed_total", &[("reason", reason)]), before + 1);
    }
}

async fn end(uploads: Vec<Upload>) {
    for upload in uploads {
        assert_eq!(upload.end().await.unwrap().text(), "done");
    }
}

async fn one_tenant_with_many_workers_cannot_take_every_permit(name: &'static str) {
    let node = TestNode::with(name, |config| {
        (config.admission.max_inflight, config.admission.max_waiting) = (8, 3)
    })
    .await;
    let [one, two, three] = node.waiters("greedy");
    let [modest] = node.waiters("modest");
    node.client().get(&modest).await.unwrap();
    node.await_metric("tenon_shard_inflight", &[], 0).await;
    let uploads = node.occupy(&[&one, &one, &two, &two]).await;
    // The request waits in the queue, which has room, and takes none of the shard's free permits.
    let more = node.client().upload(&three);
    node.await_metric("tenon_shard_waiting", &[], 1).await;
    for _ in 0..3 {
        assert_eq!(node.client().get(&modest).await.unwrap().text(), "done");
    }
    assert_eq!(node.metric("tenon_shard_waiting", &[]), 1);
    end(uploads).await;
    end(vec![more]).await;
}

async fn one_tenant_cannot_fill_the_queue(name: &'static str) {
    let node = TestNode::with(name, |config| {
        (config.admission.max_inflight, config.admission.max_waiting) = (8, 3)
    })
    .await;
    let [one, two, three] = node.waiters("greedy");
    let [modest] = node.waiters("modest");
    node.client().get(&modest).await.unwrap();
    // While the catalog is paused, every new start waits.
    node.catalog.pause();
    let mut waits = Vec::new();
    for (n, worker) in [&one, &one, &two, &two].into_iter().enumerate() {
        waits.push(node.client().upload(worker));
        node.await_metric("tenon_shard_waiting", &[], n as u64 + 1).await;
    }
    node.expect_shed(&three, "tenant_full").await;
    let [_, cold] = node.waiters("modest");
    let also = node.client().upload(&cold);
    node.await_metric("tenon_shard_waiting", &[], 5).await;
    node.catalog.resume();
    end(waits).await;
    end(vec![also]).await;
}

async fn one_tenant_cannot_take_every_isolate(name: &'static str) {
    let node = TestNode::with(name, |config| config.pool.isolates = 4).await;
    let [one, two, three] = node.waiters("greedy");
    let [first, second] = node.waiters("modest");
    node.client().get(&first).await.unwrap();
    let mut uploads = node.occupy(&[&one, &two]).await;
    node.expect_shed(&three, "tenant_full").await;
    uploads.extend(node.occupy(&[&first, &second]).await);
    // Now no isolate could be evicted for a third tenant either.
    let [other] = node.waiters("other");
    node.expect_shed(&other, "no_idle_isolate").await;
    end(uploads).await;
    node.await_metric("tenon_shard_inflight", &[], 0).await;
    assert_eq!(node.client().get(&three).await.unwrap().text(), "done");
    assert_eq!(node.metric("tenon_evictions_total", &[("reason", "room")]), 1);
}

async fn a_lone_tenant_may_take_more_than_half_of_a_shard(name: &'static str) {
    let small = |config: &mut tenon_runtime_node::config::Config| {
        (config.pool.isolates, config.admission.max_inflight, config.admission.max_waiting) =
            (8, 8, 0);
    };
    let node = TestNode::with(name, small).await;
    let workers: [_; 8] = node.waiters("alone");
    let uploads = node.occupy(&workers.iter().take(7).collect::<Vec<_>>()).await;
    // The tenant has its share of isolates and of permits. The rest is kept for a new tenant.
    node.expect_shed(&workers[7], "tenant_full").await;
    node.expect_shed(&workers[0], "tenant_full").await;
    let [newcomer] = node.waiters("newcomer");
    assert_eq!(node.client().get(&newcomer).await.unwrap().text(), "done");
    end(uploads).await;
}
