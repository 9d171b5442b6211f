//! Tests certificates on each of a router's connections to other processes.

use futures::stream;
use tenon_lifecycle::tls::{Role, Tls};
use tenon_proto::catalog::{self, WatchResponse};

use crate::harness::{
    Authority, Behavior, Catalog, InternalCaller, Node, Options, Scenario, TlsProxy, eventually,
    head, worker,
};

/// A router whose catalog and nodes are each behind a [`TlsProxy`].
struct Guarded {
    scenario: Scenario,
    _catalog: TlsProxy,
    nodes: Vec<(Node, TlsProxy)>,
}

impl Guarded {
    /// Starts the router and its peers.
    ///
    /// # Arguments
    /// * `others` - the authorities that the router trusts in addition to its own.
    /// * `nodes` - the certificate and trust of each node.
    async fn with(authority: &Authority, others: &[&Authority], nodes: &[Tls]) -> Self {
        let catalog = Catalog::start().await;
        let proxy = TlsProxy::in_front_of(catalog.addr(), authority.tls(Role::Operator)).await;
        let mut guarded = Vec::new();
        for (i, tls) in nodes.iter().enumerate() {
            let node = Node::start(&format!("n{i}"), Behavior::Echo);
            let proxy = TlsProxy::in_front_of(node.addr(), tls.clone()).await;
            guarded.push((node, proxy));
        }
        let entry = |(node, proxy): &(Node, TlsProxy)| catalog::Node {
            shard_ports: vec![proxy.addr.port().into()],
            ..node.entry()
        };
        catalog.change(WatchResponse {
            workers: vec![worker("shop/cart", "shop")],
            nodes: guarded.iter().map(entry).collect(),
            ..Default::default()
        });
        let router = authority.tls(Role::Router);
        router.install(&authority.bundle(Role::Router, others)).unwrap();
        let options = Options { tls: Some(router), ..Options::default() };
        let scenario = Scenario::start(proxy.addr, catalog, options);
        eventually("readiness", || scenario.readiness.is_ready()).await;
        Self { scenario, _catalog: proxy, nodes: guarded }
    }

    /// Returns the index of the node to which the Worker is pinned.
    fn pinned(&self) -> usize {
        let pin = self.scenario.router().pinned(&"shop/cart".parse().unwrap()).unwrap();
        self.nodes.iter().position(|(node, _)| node.name() == &*pin.node).unwrap()
    }
}

#[tokio::test]
async fn a_router_with_a_certificate_uses_the_catalog_and_the_node() {
    let authority = Authority::new();
    let guarded = Guarded::with(&authority, &[], &[authority.tls(Role::RuntimeNode)]).await;
    let answer = guarded.scenario.client().await.post("/", "x").await;
    assert_eq!((answer.header("observed-node"), &answer.body[..]), ("n0", &b"x"[..]));
}

#[tokio::test]
async fn a_node_of_the_expected_pool_gets_requests() {
    let authority = Authority::new();
    let guarded = Guarded::with(&authority, &[], &[authority.tls_of_pool("default")]).await;
    let answer = guarded.scenario.client().await.post("/", "x").await;
    assert_eq!((answer.header("observed-node"), &answer.body[..]), ("n0", &b"x"[..]));
}

#[tokio::test]
async fn the_internal_listener_admits_only_nodes_and_operators() {
    let authority = Authority::new();
    let guarded = Guarded::with(&authority, &[], &[authority.tls(Role::RuntimeNode)]).await;
    let addr = guarded.scenario.internal_addr();
    for role in [Role::RuntimeNode, Role::Operator] {
        let caller = InternalCaller::with_tls(Some(authority.tls(role)), addr);
        let answer = caller.call(head("shop/cart"), stream::empty()).await;
        assert_eq!(answer.unwrap().status, 200, "{role}");
    }
    let strangers =
        [Some(authority.tls(Role::Router)), Some(Authority::new().tls(Role::RuntimeNode)), None];
    for stranger in strangers {
        let caller = InternalCaller::with_tls(stranger, addr);
        assert!(caller.call(head("shop/cart"), stream::empty()).await.is_err());
    }
}

#[tokio::test]
async fn requests_avoid_nodes_that_fail_mutual_authentication() {
    let (authority, stranger, wary) = (Authority::new(), Authority::new(), Authority::new());
    let node = || authority.tls(Role::RuntimeNode);
    // The pin does not depend on the nodes' certificates.
    let pinned = Guarded::with(&authority, &[], &[node(), node()]).await.pinned();
    // The node has another role, is of another pool, has an authority that the router does not
    // trust, or trusts only its own authority.
    for bad in [
        authority.tls(Role::Operator),
        authority.tls_of_pool("other"),
        stranger.tls(Role::RuntimeNode),
        wary.tls(Role::RuntimeNode),
    ] {
        let mut nodes = [node(), node()];
        nodes[pinned] = bad;
        let guarded = Guarded::with(&authority, &[&wary], &nodes).await;
        assert_eq!(guarded.pinned(), pinned);
        let mut client = guarded.scenario.client().await;
        for _ in 0..5 {
            let answer = client.post("/", "x").await;
            assert_eq!(answer.header("observed-node"), guarded.nodes[1 - pinned].0.name());
        }
        assert_eq!(guarded.scenario.metric("tenon_router_ejections_total", None), 1.0);
        assert_eq!(guarded.nodes[pinned].0.invocations(), 0);
    }
}

#[tokio::test]
async fn a_successor_is_avoided_until_it_completes_a_tls_handshake() {
    let authority = Authority::new();
    let nodes = [(); 2].map(|()| authority.tls(Role::RuntimeNode));
    let guarded = Guarded::with(&authority, &[], &nodes).await;
    let pinned = guarded.pinned();
    let [(first, proxy), (second, _)] = [pinned, 1 - pinned].map(|at| &guarded.nodes[at]);
    let mut client = guarded.scenario.client().await;
    assert_eq!(client.post("/", "x").await.header("observed-node"), first.name());
    proxy.shut();
    let links = || guarded.scenario.metric("tenon_router_shard_connections", None);
    eventually("the router to notice the disconnection", || links() == 0.0).await;
    let answer = client.post("/", "x").await;
    assert_eq!((answer.status.as_u16(), answer.header("observed-node")), (200, second.name()));
    assert_eq!(guarded.scenario.metric("tenon_router_ejections_total", Some("unreachable")), 1.0);
    proxy.open();
    let ejected = || guarded.scenario.metric("tenon_router_ejected_shards", None);
    eventually("the successor to be found", || ejected() == 0.0).await;
    assert_eq!(client.post("/", "x").await.header("observed-node"), first.name());
}

#[tokio::test]
async fn every_request_is_answered_while_an_authority_is_replaced() {
    let (old, new) = (Authority::new(), Authority::new());
    let nodes = [old.tls(Role::RuntimeNode), old.tls(Role::RuntimeNode)];
    let guarded = Guarded::with(&old, &[], &nodes).await;
    let router = guarded.scenario.tls().clone();
    let mut client = guarded.scenario.client().await;
    // Each step reaches one process after another.
    let steps = [
        [old.bundle(Role::Router, &[&new]), old.bundle(Role::RuntimeNode, &[&new])],
        [new.bundle(Role::Router, &[&old]), new.bundle(Role::RuntimeNode, &[&old])],
        [new.bundle(Role::Router, &[]), new.bundle(Role::RuntimeNode, &[])],
    ];
    for [router_bundle, node_bundle] in &steps {
        for (process, bundle) in
            [(&nodes[0], node_bundle), (&router, router_bundle), (&nodes[1], node_bundle)]
        {
            process.install(bundle).unwrap();
            for (_, proxy) in &guarded.nodes {
                proxy.cut();
            }
            // Another test covers requests to a node that has disconnected in the meantime.
            let links = || guarded.scenario.metric("tenon_router_shard_connections", None);
            eventually("the router to notice the disconnection", || links() == 0.0).await;
            for _ in 0..5 {
                assert_eq!(client.get("/").await.status, 200);
            }
        }
    }
    assert_eq!(guarded.scenario.metric("tenon_router_ejections_total", None), 0.0);
}
