//! Tests requests that exceed the rate of a Worker, of a client or of a namespace.

use tenon_proto::catalog::{RateLimit, RateLimits, WatchResponse, Worker};

use crate::harness::{Behavior, Client, Node, Scenario, eventually, full, worker};

/// Starts a router with one Worker that has these rates, and waits until the router knows them.
async fn limited(node: &Node, rate_limits: RateLimits, routers: u32) -> Scenario {
    let scenario = Scenario::with(&[node]).await;
    let limited = Worker { rate_limits: Some(rate_limits), ..worker("shop/cart", "shop") };
    let workers = vec![limited, worker("shop/till", "till")];
    scenario.catalog.change(WatchResponse { workers, routers, ..Default::default() });
    eventually("two routes", || scenario.metric("tenon_router_routes", None) == 2.0).await;
    scenario
}

/// Returns a rate at which few requests beyond the burst are admitted during a test.
fn slow(burst: u32) -> Option<RateLimit> {
    Some(RateLimit { requests_per_second: 1, burst })
}

/// Returns the number of requests among 20 that the Worker answers. With one request per second, a
/// slow machine may see more than the burst.
async fn admitted(client: &mut Client) -> usize {
    let mut admitted = 0;
    for _ in 0..20 {
        match client.get("/").await.status.as_u16() {
            200 => admitted += 1,
            429 => {}
            status => panic!("unexpected status {status}"),
        }
    }
    admitted
}

#[tokio::test]
async fn requests_beyond_a_rate_are_refused_with_the_time_to_wait() {
    let node = Node::start("n1", Behavior::Echo);
    let limits = RateLimits { client: slow(5), ..Default::default() };
    let scenario = limited(&node, limits, 1).await;
    let mut client = scenario.client().await;
    let refused = loop {
        let answer = client.get("/").await;
        if answer.status != 200 {
            break answer;
        }
    };
    assert_eq!((refused.status.as_u16(), refused.code()), (429, "rate_limited".into()));
    assert_eq!(refused.header("ratelimit"), "\"client\";r=0;t=1");
    assert_eq!(refused.header("ratelimit-policy"), "\"client\";q=1;w=1");
    assert_eq!(refused.header("retry-after"), "1");
    assert!(node.invocations() >= 5, "{} of a burst of 5 were admitted", node.invocations());
    eventually("the refusal to be counted", || {
        scenario.metric("tenon_router_requests_total", Some("rate_limited")) >= 1.0
    })
    .await;
    let other = http::Request::builder().uri("/").header("host", "till").body(full(""));
    let answer = client.send(other.unwrap()).await.unwrap();
    assert_eq!(answer.status, 200, "a Worker without rates was limited");
}

#[tokio::test]
async fn threads_and_connections_share_the_rate_of_a_worker() {
    let node = Node::start("n1", Behavior::Echo);
    let limits = RateLimits { worker: slow(8), ..Default::default() };
    let scenario = limited(&node, limits, 1).await;
    let mut total = 0;
    for _ in 0..4 {
        total += admitted(&mut scenario.client().await).await;
    }
    assert_eq!(total, node.invocations());
    assert!((8..60).contains(&total), "{total} of 80 requests with a burst of 8");
}

#[tokio::test]
async fn routers_share_a_rate() {
    let node = Node::start("n1", Behavior::Echo);
    let limits = RateLimits { namespace: slow(16), ..Default::default() };
    let scenario = limited(&node, limits, 8).await;
    let admitted = admitted(&mut scenario.client().await).await;
    assert!((2..16).contains(&admitted), "{admitted} requests with an eighth of a burst of 16");
}
