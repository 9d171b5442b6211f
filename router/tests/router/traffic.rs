//! Tests how requests are divided among the revisions of a Worker.

use http::Method;
use tenon_proto::catalog::session_affinity::Part;
use tenon_proto::catalog::{Route, SessionAffinity, Variant, WatchResponse, Worker};

use crate::harness::{Behavior, Client, Node, Scenario, eventually, full, worker};

/// Starts a router that sends a part of the requests to the revision `[8; 32]`, which also has a
/// preview at the host `next`.
async fn divided(node: &Node, percent: u32, part: Option<Part>) -> Scenario {
    let scenario = Scenario::with(&[node]).await;
    let variant = Variant {
        digest: vec![8; 32],
        percent,
        wall_ms: 10_000,
        routes: vec![Route { host: "next".into(), path: "/".into() }],
        ..Default::default()
    };
    let divided = Worker {
        variants: vec![variant],
        session_affinity: part.map(|part| SessionAffinity { part: Some(part) }),
        ..worker("shop/cart", "shop")
    };
    scenario.catalog.change(WatchResponse { workers: vec![divided], ..Default::default() });
    eventually("the preview", || scenario.metric("tenon_router_routes", None) == 2.0).await;
    scenario
}

/// Sends a request, and returns the first byte of the digest of the revision that got it.
async fn digest(node: &Node, client: &mut Client, host: &str, header: (&str, &str)) -> u8 {
    let request = http::Request::builder().method(Method::GET).uri("/").header("host", host);
    let request = request.header(header.0, header.1).body(full("")).unwrap();
    assert_eq!(client.send(request).await.unwrap().status, 200);
    node.last_head().digest[0]
}

#[tokio::test]
async fn requests_are_divided_and_a_preview_has_one_revision() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = divided(&node, 25, None).await;
    let mut client = scenario.client().await;
    let mut new = 0;
    for _ in 0..400 {
        new += u32::from(digest(&node, &mut client, "shop", ("x-a", "b")).await == 8);
    }
    // A share outside these bounds has a probability below one in a million.
    assert!((55..=145).contains(&new), "{new} of 400 requests went to a share of 25 %");
    for _ in 0..20 {
        assert_eq!(digest(&node, &mut client, "next", ("x-a", "b")).await, 8);
    }
}

#[tokio::test]
async fn a_session_keeps_its_revision_on_every_connection() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = divided(&node, 50, Some(Part::Cookie("sid".into()))).await;
    let mut revisions = [0; 2];
    for session in 0..40 {
        let cookie = format!("theme=dark; sid={session}");
        let mut seen = Vec::new();
        for _ in 0..3 {
            let mut client = scenario.client().await;
            seen.push(digest(&node, &mut client, "shop", ("cookie", &cookie)).await);
        }
        assert!(seen.iter().all(|digest| *digest == seen[0]), "session {session}: {seen:?}");
        revisions[usize::from(seen[0] == 8)] += 1;
    }
    assert!(revisions[0] > 5 && revisions[1] > 5, "{revisions:?} of 40 sessions");
}
