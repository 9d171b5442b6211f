//! Tests of how a table follows the messages of the catalog.

use super::*;

fn worker(id: &str, host: &str) -> catalog::Worker {
    catalog::Worker {
        assets: None,
        id: id.into(),
        pool: "default".into(),
        digest: vec![7; 32],
        routes: vec![catalog::Route { host: host.into(), path: "/".into() }],
        wall_ms: 1000,
        request_body_bytes: 1 << 20,
        services: Vec::new(),
        variants: Vec::new(),
        session_affinity: None,
        strict_affinity: false,
        rate_limits: None,
        measurement: 0,
    }
}

fn node(name: &str, state: node::State) -> catalog::Node {
    catalog::Node {
        name: name.into(),
        pool: "default".into(),
        address: "127.0.0.1".into(),
        shard_ports: vec![7100, 7101],
        lane_ports: Vec::new(),
        state: state.into(),
    }
}

fn workers(workers: Vec<catalog::Worker>) -> WatchResponse {
    WatchResponse { workers, ..Default::default() }
}

fn nodes(nodes: Vec<catalog::Node>) -> WatchResponse {
    WatchResponse { nodes, ..Default::default() }
}

fn served_by(table: &Table, host: &str) -> Option<String> {
    table.route(host, "/").map(|worker| worker.id.to_string())
}

#[test]
fn a_changed_worker_leaves_its_old_routes() {
    let mut table = Table::default();
    table.apply(workers(vec![worker("a/one", "old"), worker("a/two", "two")]));
    let before = table.clone();
    table.apply(workers(vec![worker("a/one", "new")]));
    assert_eq!(served_by(&table, "old"), None);
    assert_eq!(served_by(&table, "new"), Some("a/one".into()));
    assert_eq!(served_by(&table, "two"), Some("a/two".into()));
    assert_eq!(served_by(&before, "old"), Some("a/one".into()), "a published table has changed");
}

#[test]
fn a_route_moves_to_another_worker_within_a_message() {
    let mut table = Table::default();
    table.apply(workers(vec![worker("a/one", "x"), worker("a/two", "y")]));
    table.apply(workers(vec![worker("a/two", "x"), worker("a/one", "y")]));
    assert_eq!(served_by(&table, "x"), Some("a/two".into()));
    table.apply(WatchResponse { removed_workers: vec!["a/two".into()], ..Default::default() });
    assert_eq!(served_by(&table, "x"), None);
    assert_eq!(served_by(&table, "y"), Some("a/one".into()));
}

#[test]
fn a_malformed_worker_does_not_stop_the_others() {
    let mut table = Table::default();
    let malformed = catalog::Worker { digest: vec![1], ..worker("a/bad", "bad") };
    table.apply(workers(vec![malformed, worker("nonsense", "bad"), worker("a/good", "good")]));
    assert_eq!((table.worker_count(), served_by(&table, "bad")), (1, None));
    assert_eq!(served_by(&table, "good"), Some("a/good".into()));
}

#[test]
fn a_service_resolves_to_the_revision_that_serves_now() {
    let mut table = Table::default();
    let calling =
        catalog::Worker { services: vec!["a/two".into(), "a/none".into()], ..worker("a/one", "x") };
    table.apply(workers(vec![calling, worker("a/two", "y")]));
    let services_of_one = |table: &Table| {
        let one = table.worker(&WorkerId::new("a", "one")).unwrap().clone();
        table
            .services_of(&one)
            .map(|service| (service.id.to_string(), service.digest))
            .collect::<Vec<_>>()
    };
    assert_eq!(services_of_one(&table), [("a/two".to_owned(), RevisionDigest::new([7; 32]))]);
    table.apply(workers(vec![catalog::Worker { digest: vec![8; 32], ..worker("a/two", "y") }]));
    assert_eq!(services_of_one(&table), [("a/two".to_owned(), RevisionDigest::new([8; 32]))]);
}

#[test]
fn a_draining_node_gets_no_workers_and_stays_known() {
    let mut table = Table::default();
    table.apply(workers(vec![worker("a/one", "x")]));
    assert_eq!(table.pinned(&WorkerId::new("a", "one")), None);
    table.apply(nodes(vec![node("n1", node::State::Ready), node("n2", node::State::Ready)]));
    assert_eq!(table.pool("default").unwrap().shards.len(), 4);
    let pin = table.pinned(&WorkerId::new("a", "one")).unwrap();
    table.apply(nodes(vec![node(&pin.node, node::State::Draining)]));
    assert_ne!(table.pinned(&WorkerId::new("a", "one")).unwrap().node, pin.node);
    assert_eq!(table.shards().count(), 4);
    table.apply(WatchResponse {
        removed_nodes: vec!["n1".into(), "n2".into()],
        ..Default::default()
    });
    assert!(table.pool("default").is_none());
}

#[test]
fn lanes_are_listed_and_have_no_slot_in_the_ring() {
    let mut table = Table::default();
    let with_lanes =
        catalog::Node { lane_ports: vec![7200, 7201, 7202], ..node("n1", node::State::Ready) };
    table.apply(workers(vec![worker("a/one", "x")]));
    table.apply(nodes(vec![with_lanes, node("n2", node::State::Ready)]));
    let pool = table.pool("default").unwrap().clone();
    assert_eq!((pool.ring.len(), pool.shards.len()), (4, 4));
    for (shard, lanes) in pool.shards.iter().zip(&pool.lanes) {
        let expected: &[u16] = if &*shard.node == "n1" { &[7200, 7201, 7202] } else { &[] };
        assert_eq!(lanes.iter().map(|lane| lane.port).collect::<Vec<_>>(), expected);
        assert!(lanes.iter().all(|lane| lane.id.is_lane() && table.has_shard(lane)));
    }
    assert_eq!(table.processes_of("n1").count(), 5);
    // A node that returns with different lanes is a different one.
    let lane = pool.lanes.iter().find_map(|lanes| lanes.first()).unwrap();
    table.apply(nodes(vec![node("n1", node::State::Ready)]));
    assert!(!table.has_shard(lane));
}

#[test]
fn a_node_that_is_announced_again_changes_nothing() {
    let mut table = Table::default();
    table.apply(nodes(vec![node("n1", node::State::Ready)]));
    let (version, pool) = (table.nodes_version(), table.pool("default").unwrap().clone());
    table.apply(nodes(vec![node("n1", node::State::Ready)]));
    assert_eq!(table.nodes_version(), version);
    assert!(Arc::ptr_eq(&pool, table.pool("default").unwrap()));
}

fn variant(digest: u8, percent: u32, preview: &str) -> catalog::Variant {
    catalog::Variant {
        digest: vec![digest; 32],
        percent,
        routes: vec![catalog::Route { host: preview.into(), path: "/".into() }],
        ..catalog::Variant::default()
    }
}

#[test]
fn a_preview_belongs_to_its_variant_as_long_as_the_entry_has_it() {
    let mut table = Table::default();
    let variants = vec![variant(8, 10, "next--one"), variant(9, 0, "old--one")];
    table.apply(workers(vec![catalog::Worker { variants, ..worker("a/one", "one") }]));
    let digest = |table: &Table, host: &str| Some(table.route(host, "/")?.digest.as_bytes()[0]);
    assert_eq!(digest(&table, "one"), Some(7));
    assert_eq!(digest(&table, "next--one"), Some(8));
    assert_eq!(digest(&table, "old--one"), Some(9));
    let preview = table.route("next--one", "/").unwrap();
    assert_eq!(preview.draw(|_| None, || 99).digest, preview.digest);
    assert_eq!(table.route_count(), 3);
    let variants = vec![variant(8, 10, "next--one")];
    table.apply(workers(vec![catalog::Worker { variants, ..worker("a/one", "one") }]));
    assert_eq!(digest(&table, "old--one"), None);
    table.apply(workers(vec![worker("a/one", "one")]));
    assert_eq!((digest(&table, "one"), digest(&table, "next--one")), (Some(7), None));
    assert_eq!(table.route_count(), 1);
}

#[test]
fn only_an_added_revision_is_new() {
    let mut table = Table::default();
    table.apply(WatchResponse { kind: Kind::Snapshot.into(), ..workers(vec![worker("a/b", "b")]) });
    let variants = vec![variant(8, 10, "next--b")];
    let divided = catalog::Worker { variants, ..worker("a/b", "b") };
    table.apply(WatchResponse { kind: Kind::Delta.into(), ..workers(vec![divided]) });
    let now = Instant::now();
    let entry = table.worker(&"a/b".parse().unwrap()).unwrap();
    assert!(!entry.is_new(now) && entry.variants().all(|variant| variant.is_new(now)));
}

#[test]
fn entries_that_divide_requests_differently_are_different() {
    let entry = |percent: u32, preview: &str| {
        let variants = vec![variant(8, percent, preview)];
        Worker::new(catalog::Worker { variants, ..worker("a/b", "b") }).unwrap()
    };
    assert!(entry(10, "next--b").has_same_content(&entry(10, "next--b")));
    assert!(!entry(10, "next--b").has_same_content(&entry(20, "next--b")));
    assert!(!entry(10, "next--b").has_same_content(&entry(10, "other--b")));
    assert!(!entry(10, "next--b").has_same_content(&Worker::new(worker("a/b", "b")).unwrap()));
}
