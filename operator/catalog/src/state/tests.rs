//! Tests the messages that a watcher of the catalog gets.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// The state of a client, as `catalog.proto` specifies it.
#[derive(Default)]
struct Client {
    held: Table,
    pending: Table,
    cursor: Option<Cursor>,
    snapshots: usize,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Table {
    workers: BTreeMap<String, Worker>,
    nodes: BTreeMap<String, Node>,
    hosts: BTreeMap<String, HostRules>,
    certificates: BTreeMap<String, GatewayCertificate>,
    routers: u32,
}

impl Table {
    fn apply(&mut self, response: WatchResponse) {
        response.removed_workers.iter().for_each(|id| drop(self.workers.remove(id)));
        response.removed_nodes.iter().for_each(|name| drop(self.nodes.remove(name)));
        self.workers.extend(response.workers.into_iter().map(|worker| (worker.id.clone(), worker)));
        self.nodes.extend(response.nodes.into_iter().map(|node| (node.name.clone(), node)));
        response.removed_hosts.iter().for_each(|host| drop(self.hosts.remove(host)));
        self.hosts.extend(response.hosts.into_iter().map(|rules| (rules.host.clone(), rules)));
        let removed = response.removed_certificates.iter();
        removed.for_each(|host| drop(self.certificates.remove(host)));
        let certificates = response.certificates.into_iter();
        self.certificates
            .extend(certificates.map(|certificate| (certificate.host.clone(), certificate)));
        if response.routers != 0 {
            self.routers = response.routers;
        }
    }
}

impl Client {
    fn apply(&mut self, response: WatchResponse) {
        assert!(response.encoded_len() < 1024 * 1024 + 64 * 1024);
        let kind = response.kind();
        self.cursor = response.cursor.clone().or(self.cursor.take());
        match kind {
            Kind::Delta => self.held.apply(response),
            Kind::Snapshot => self.pending.apply(response),
            Kind::SnapshotEnd => {
                self.pending.apply(response);
                self.held = std::mem::take(&mut self.pending);
                self.snapshots += 1;
            }
            Kind::Unspecified => panic!("the message has no kind"),
        }
    }

    fn catch_up(&mut self, state: &State, walk: &mut Walk) {
        while let Some(response) = state.next(walk).unwrap() {
            self.apply(response);
        }
    }
}

fn worker(name: &str, wall_ms: u32) -> (WorkerId, Worker) {
    let id = WorkerId::new("shop", name);
    let worker = Worker { id: id.to_string(), wall_ms, ..Worker::default() };
    (id, worker)
}

fn node(name: &str) -> Node {
    Node { name: name.into(), ..Node::default() }
}

fn set(state: &mut State, name: &str, wall_ms: u32) -> bool {
    let (id, worker) = worker(name, wall_ms);
    state.set_worker(id, worker)
}

fn table(state: &State) -> Table {
    let mut table = Table::default();
    for value in state.entries.values().filter_map(|entry| entry.value.as_ref()) {
        match value {
            Value::Worker(worker) => drop(table.workers.insert(worker.id.clone(), worker.clone())),
            Value::Node(node) => drop(table.nodes.insert(node.name.clone(), node.clone())),
            Value::Host(rules) => drop(table.hosts.insert(rules.host.clone(), rules.clone())),
            Value::Certificate(certificate) => {
                table.certificates.insert(certificate.host.clone(), certificate.clone());
            }
            Value::Routers(count) => table.routers = *count,
        }
    }
    table
}

#[test]
fn a_watcher_gets_the_rules_of_hosts_and_only_a_router_their_certificates() {
    let mut state = State::new("e".into());
    let rules = |host: &str| HostRules { host: host.into(), ..HostRules::default() };
    let certificate = |host: &str| GatewayCertificate { host: host.into(), ..Default::default() };
    state.set_host("shop", Some(rules("shop")));
    state.set_certificate("shop", Some(certificate("shop")));
    let (mut router, mut front) = (Client::default(), Client::default());
    let (mut of_router, mut of_front) = (state.walk(None, true), state.walk(None, false));
    router.catch_up(&state, &mut of_router);
    front.catch_up(&state, &mut of_front);
    assert_eq!(router.held, table(&state));
    assert_eq!((front.held.hosts.len(), front.held.certificates.len()), (1, 0));

    assert!(!state.set_host("shop", Some(rules("shop"))), "the same rules are a change");
    state.set_host("shop", None);
    state.set_certificate("shop", None);
    state.set_certificate("menu", Some(certificate("menu")));
    router.catch_up(&state, &mut of_router);
    front.catch_up(&state, &mut of_front);
    assert_eq!(router.held, table(&state));
    assert_eq!(front.held, Table::default());
    // A watcher that resumes gets no certificate either.
    let mut resumed = state.walk(front.cursor.as_ref(), false);
    assert!(state.next(&mut resumed).unwrap().is_none());
}

#[test]
fn a_watcher_of_an_empty_catalog_gets_the_end_of_an_empty_snapshot() {
    let state = State::new("e".into());
    let mut walk = state.walk(None, true);
    let end = state.next(&mut walk).unwrap().unwrap();
    assert_eq!((end.kind(), end.cursor.unwrap().version), (Kind::SnapshotEnd, 0));
    assert_eq!(state.next(&mut walk), Ok(None));
}

#[test]
fn a_change_without_effect_is_not_sent() {
    let mut state = State::new("e".into());
    assert!(set(&mut state, "cart", 1));
    assert!(!set(&mut state, "cart", 1));
    assert!(!state.remove_node("a"));
    assert_eq!(state.version(), 1);
}

#[test]
fn changes_between_two_reads_of_a_watcher_are_one_delta() {
    let mut state = State::new("e".into());
    let mut walk = state.walk(None, true);
    state.next(&mut walk).unwrap();
    for wall_ms in 1..=100 {
        set(&mut state, "cart", wall_ms);
    }
    state.set_node(node("a"));
    state.remove_node("a");
    let delta = state.next(&mut walk).unwrap().unwrap();
    assert_eq!(delta.workers, [worker("cart", 100).1]);
    assert_eq!((delta.nodes.len(), &delta.removed_nodes[..]), (0, &["a".to_owned()][..]));
    assert_eq!(state.next(&mut walk), Ok(None));
}

#[test]
fn a_cursor_resumes_at_its_version() {
    let mut state = State::new("e".into());
    set(&mut state, "cart", 1);
    let cursor = Cursor { epoch: "e".into(), version: state.version() };
    set(&mut state, "menu", 1);
    let delta = state.next(&mut state.walk(Some(&cursor), true)).unwrap().unwrap();
    assert_eq!((delta.kind(), delta.workers.len()), (Kind::Delta, 1));
}

#[test]
fn a_cursor_of_another_epoch_or_of_the_future_gets_a_snapshot() {
    let mut state = State::new("e".into());
    set(&mut state, "cart", 1);
    for (epoch, version) in [("other", 1), ("e", 2)] {
        let cursor = Cursor { epoch: epoch.into(), version };
        let first = state.next(&mut state.walk(Some(&cursor), true)).unwrap().unwrap();
        assert_eq!(first.kind(), Kind::SnapshotEnd);
    }
}

#[test]
fn a_large_snapshot_comes_in_parts() {
    let mut state = State::new("e".into());
    for i in 0..3_000 {
        let (id, mut worker) = worker(&format!("worker-{i}"), 1);
        worker.pool = "p".repeat(1_000);
        state.set_worker(id, worker);
    }
    let (mut client, mut walk) = (Client::default(), state.walk(None, true));
    let mut parts = 0;
    while let Some(response) = state.next(&mut walk).unwrap() {
        client.apply(response);
        parts += 1;
    }
    assert!(parts >= 3, "{parts}");
    assert_eq!(client.held, table(&state));
}

#[test]
fn a_watcher_behind_the_tombstones_gets_a_new_snapshot() {
    let mut state = State::new("e".into());
    set(&mut state, "stays", 1);
    let (mut client, mut walk) = (Client::default(), state.walk(None, true));
    client.catch_up(&state, &mut walk);
    for i in 0..=TOMBSTONES {
        let name = format!("worker-{i}");
        set(&mut state, &name, 1);
        state.remove_worker(&WorkerId::new("shop", &name));
    }
    client.catch_up(&state, &mut walk);
    assert_eq!(client.snapshots, 2);
    assert_eq!(client.held, table(&state));
    assert!(state.entries.len() <= TOMBSTONES + 1);
}

#[test]
fn a_snapshot_that_falls_behind_the_tombstones_is_aborted() {
    let mut state = State::new("e".into());
    for i in 0..3_000 {
        let (id, mut worker) = worker(&format!("worker-{i}"), 1);
        worker.pool = "p".repeat(1_000);
        state.set_worker(id, worker);
    }
    let mut walk = state.walk(None, true);
    assert_eq!(state.next(&mut walk).unwrap().unwrap().kind(), Kind::Snapshot);
    state.remove_worker(&WorkerId::new("shop", "worker-0"));
    for i in 0..=TOMBSTONES {
        let name = format!("short-lived-{i}");
        set(&mut state, &name, 1);
        state.remove_worker(&WorkerId::new("shop", &name));
    }
    assert_eq!(state.next(&mut walk), Err(FellBehind));
}

#[derive(Clone, Debug)]
enum Event {
    SetWorker(u8, u32),
    RemoveWorker(u8),
    SetNode(u8),
    RemoveNode(u8),
    SetRouters(u32),
    /// The watcher reads one message.
    Read,
    /// The watcher reconnects with its cursor, at any point of its reading.
    Reconnect,
}

fn event() -> impl Strategy<Value = Event> {
    let name = 0..6u8;
    prop_oneof![
        (name.clone(), 1..4u32).prop_map(|(name, wall_ms)| Event::SetWorker(name, wall_ms)),
        name.clone().prop_map(Event::RemoveWorker),
        name.clone().prop_map(Event::SetNode),
        name.prop_map(Event::RemoveNode),
        (1..4u32).prop_map(Event::SetRouters),
        Just(Event::Read),
        Just(Event::Reconnect),
    ]
}

proptest! {
    #[test]
    fn a_watcher_that_catches_up_holds_the_deployed_state(
        events in prop::collection::vec(event(), 0..200),
    ) {
        let mut state = State::new("e".into());
        let (mut client, mut walk) = (Client::default(), state.walk(None, true));
        for event in events {
            match event {
                Event::SetWorker(name, wall_ms) => {
                    set(&mut state, &name.to_string(), wall_ms);
                }
                Event::RemoveWorker(name) => {
                    state.remove_worker(&WorkerId::new("shop", &name.to_string()));
                }
                Event::SetNode(name) => drop(state.set_node(node(&name.to_string()))),
                Event::RemoveNode(name) => drop(state.remove_node(&name.to_string())),
                Event::SetRouters(count) => drop(state.set_routers(count)),
                Event::Read => {
                    if let Some(response) = state.next(&mut walk).unwrap() {
                        client.apply(response);
                    }
                }
                Event::Reconnect => {
                    client.pending = Table::default();
                    walk = state.walk(client.cursor.as_ref(), true);
                }
            }
        }
        client.catch_up(&state, &mut walk);
        prop_assert_eq!(client.held, table(&state));
    }
}
